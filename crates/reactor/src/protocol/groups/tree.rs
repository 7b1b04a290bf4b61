//! A map by subjects that is asked both ways: which of its patterns a subject fits, and which of its subjects fit a
//! pattern.
//!
//! It is a tree of tokens in which a node stands for all tokens up to where the ways part, so that a key costs two
//! nodes at most, however many tokens it has. A subject is looked up by its own token and by the wildcards at each node
//! that it comes to: patterns that differ elsewhere cost it nothing. At worst, where many patterns begin with what it
//! fits and end otherwise, it comes to all of them.

use std::collections::HashMap;

use super::subject::{ANY, REST};

/// Values by subjects of [`MOST_TOKENS`](super::subject::MOST_TOKENS) at most, since a walk goes as deep; no token is
/// empty.
#[derive(Debug)]
pub(super) struct Tree<V>(Node<V>);

#[derive(Debug)]
struct Node<V> {
    /// The tokens behind the one by which the node above knows it.
    more: Option<Box<[u8]>>,
    value: Option<V>,
    /// By their first tokens.
    below: HashMap<Box<[u8]>, Node<V>>,
}

/// Tokens with dots between; `None` if there is none.
type Path<'a> = Option<&'a [u8]>;

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self(Node::behind(None))
    }
}

impl<V> Tree<V> {
    /// What is there for this key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.0.get(Some(key))
    }

    /// Has the value of this key changed, made or taken away.
    pub fn change<R>(&mut self, key: &[u8], change: impl FnOnce(&mut Option<V>) -> R) -> R {
        self.0.change(Some(key), change)
    }

    /// Shows each value whose key, read as a pattern, this subject fits.
    pub fn each_match<'a>(&'a self, subject: &[u8], mut see: impl FnMut(&'a V)) {
        self.0.each_match(Some(subject), &mut see);
    }

    /// Takes away each value whose key, read as a subject, fits this pattern.
    pub fn take_matches(&mut self, pattern: &[u8], taken: &mut Vec<V>) {
        self.0.take_matches(Some(pattern), taken);
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        !self.0.is_used()
    }
}

impl<V> Node<V> {
    fn behind(more: Path<'_>) -> Self {
        Self {
            more: more.map(Into::into),
            value: None,
            below: HashMap::new(),
        }
    }

    fn is_used(&self) -> bool {
        self.value.is_some() || !self.below.is_empty()
    }

    fn get(&self, path: Path<'_>) -> Option<&V> {
        let Some(path) = path else {
            return self.value.as_ref();
        };
        let (token, rest) = split(path);
        let node = self.below.get(token)?;
        match apart(node.more.as_deref(), rest, |own, token| own == token) {
            (None, rest) => node.get(rest),
            _ => None,
        }
    }

    fn change<R>(&mut self, path: Path<'_>, change: impl FnOnce(&mut Option<V>) -> R) -> R {
        let Some(path) = path else {
            return change(&mut self.value);
        };
        let (token, rest) = split(path);
        let node = self
            .below
            .entry(token.into())
            .or_insert_with(|| Self::behind(rest));
        let rest = node.part_from(rest);
        let outcome = node.change(rest, change);
        node.unite();
        if !node.is_used() {
            self.below.remove(token);
        }
        outcome
    }

    /// Ends this node where `path` leaves it, and says what of `path` comes then.
    fn part_from<'a>(&mut self, path: Path<'a>) -> Path<'a> {
        let more = self.more.take();
        let (own, path) = apart(more.as_deref(), path, |own, token| own == token);
        match own {
            None => self.more = more,
            Some(own) => {
                let (token, rest) = split(own);
                let lower = Self {
                    value: self.value.take(),
                    below: std::mem::take(&mut self.below),
                    ..Self::behind(rest)
                };
                self.below.insert(token.into(), lower);
                let shared = more
                    .as_deref()
                    .and_then(|more| more[..more.len() - own.len()].split_last());
                self.more = shared.map(|(_dot, shared)| shared.into());
            }
        }
        path
    }

    /// Becomes one with the node below, if that is the only one and nothing is here.
    fn unite(&mut self) {
        if self.value.is_some() || self.below.len() != 1 {
            return;
        }
        for (token, only) in std::mem::take(&mut self.below) {
            let tokens = [self.more.as_deref(), Some(&*token), only.more.as_deref()];
            let tokens: Vec<&[u8]> = tokens.into_iter().flatten().collect();
            *self = Self {
                value: only.value,
                below: only.below,
                ..Self::behind(Some(&tokens.join(&b'.')))
            };
        }
    }

    fn each_match<'a>(&'a self, path: Path<'_>, see: &mut impl FnMut(&'a V)) {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        let Some(path) = path else {
            return self.value.iter().for_each(see);
        };
        let (token, rest) = split(path);
        // As it is written, a wildcard is a token that only wildcards match.
        let literal = Some(token).filter(|&token| token != ANY && token != REST);
        for known in literal.into_iter().chain([ANY]) {
            let Some(node) = self.below.get(known) else {
                continue;
            };
            match apart(node.more.as_deref(), rest, is_matched) {
                (None, rest) => node.each_match(rest, see),
                (Some(REST), Some(_)) => node.value.iter().for_each(&mut *see),
                _ => {}
            }
        }
        if let Some(node) = self.below.get(REST) {
            node.value.iter().for_each(see);
        }
    }

    fn take_matches(&mut self, path: Path<'_>, taken: &mut Vec<V>) {
        let Some(path) = path else {
            return taken.extend(self.value.take());
        };
        match split(path) {
            (REST, _) => self.take_below(taken),
            (ANY, rest) => self.below.retain(|_, node| {
                node.take_matches_behind(rest, taken);
                node.is_used()
            }),
            (token, rest) => {
                if let Some(node) = self.below.get_mut(token) {
                    node.take_matches_behind(rest, taken);
                    if !node.is_used() {
                        self.below.remove(token);
                    }
                }
            }
        }
    }

    /// [`take_matches`](Self::take_matches) of a path that goes through this node's own tokens.
    fn take_matches_behind(&mut self, path: Path<'_>, taken: &mut Vec<V>) {
        match apart(path, self.more.as_deref(), is_matched) {
            (path, None) => {
                self.take_matches(path, taken);
                self.unite();
            }
            (Some(REST), Some(_)) => {
                taken.extend(self.value.take());
                self.take_below(taken);
            }
            _ => {}
        }
    }

    fn take_below(&mut self, taken: &mut Vec<V>) {
        for (_, mut node) in self.below.drain() {
            taken.extend(node.value.take());
            node.take_below(taken);
        }
    }
}

/// The first token, and those behind it.
fn split(path: &[u8]) -> (&[u8], Path<'_>) {
    match path.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&path[..dot], Some(&path[dot + 1..])),
        None => (path, None),
    }
}

/// What comes of both behind the tokens in which they agree.
fn apart<'a, 'b>(
    mut one: Path<'a>,
    mut other: Path<'b>,
    agree: impl Fn(&[u8], &[u8]) -> bool,
) -> (Path<'a>, Path<'b>) {
    while let (Some(path), Some(other_path)) = (one, other) {
        let ((token, rest), (other_token, other_rest)) = (split(path), split(other_path));
        if !agree(token, other_token) {
            break;
        }
        (one, other) = (rest, other_rest);
    }
    (one, other)
}

/// Whether a token of a pattern stands for this one, and for no more.
fn is_matched(pattern: &[u8], token: &[u8]) -> bool {
    pattern == ANY || (pattern == token && pattern != REST)
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    thread_local! {
        /// How many nodes this thread has come to with a subject.
        pub static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    /// Whether a subject fits a pattern, token by token.
    pub fn fits(subject: &str, pattern: &str) -> bool {
        let (pattern, subject): (Vec<_>, Vec<_>) =
            (pattern.split('.').collect(), subject.split('.').collect());
        let rest = pattern.last() == Some(&">");
        let fixed = pattern.len() - usize::from(rest);
        (if rest {
            subject.len() > fixed
        } else {
            subject.len() == fixed
        }) && pattern[..fixed]
            .iter()
            .zip(&subject)
            .all(|(token, given)| *token == "*" || token == given)
    }

    /// All nodes but the first, each of which must be there for something.
    fn nodes<V>(node: &Node<V>) -> usize {
        let each = node.below.values().map(|below| {
            assert!(
                below.value.is_some() || below.below.len() > 1,
                "a node without use"
            );
            1 + nodes(below)
        });
        each.sum()
    }

    proptest! {
        #[test]
        fn it_finds_what_a_comparison_token_by_token_finds(
            steps in prop::collection::vec(
                ("([ab*]\\.){0,4}[ab*>]", prop::option::of("([ab*>]\\.){0,4}[ab*>]"), prop::bool::weighted(0.2)), 1..40),
        ) {
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            for (number, (pattern, subject, takes)) in steps.into_iter().enumerate() {
                let before = tree.change(pattern.as_bytes(), |value| value.replace(number));
                prop_assert_eq!(before, model.insert(pattern.clone(), number));
                if let Some(subject) = subject {
                    let mut found = Vec::new();
                    tree.each_match(subject.as_bytes(), |&value| found.push(value));
                    found.sort_unstable();
                    let fitting = model.iter().filter(|(pattern, _)| fits(&subject, pattern));
                    let mut expected: Vec<usize> = fitting.map(|(_, &number)| number).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(found, expected, "{} among {:?}", subject, model);
                    prop_assert_eq!(tree.get(subject.as_bytes()), model.get(&subject));
                    prop_assert_eq!(tree.change(subject.as_bytes(), Option::take), model.remove(&subject));
                }
                if takes {
                    let mut taken = Vec::new();
                    tree.take_matches(pattern.as_bytes(), &mut taken);
                    taken.sort_unstable();
                    // `>` among the keys is a token as others are.
                    let (fitting, rest) = model.into_iter().partition(|(subject, _)| fits(subject, &pattern));
                    model = rest;
                    let fitting: BTreeMap<String, usize> = fitting;
                    let mut expected: Vec<usize> = fitting.into_values().collect();
                    expected.sort_unstable();
                    prop_assert_eq!(taken, expected, "{} of {:?}", pattern, model);
                }
                prop_assert!(nodes(&tree.0) <= 2 * model.len());
            }
            for (key, number) in model {
                prop_assert_eq!(tree.change(key.as_bytes(), Option::take), Some(number));
            }
            prop_assert!(tree.is_empty());
        }
    }

    #[test]
    fn patterns_that_differ_elsewhere_cost_nothing() {
        let mut tree = Tree::default();
        for shape in 0..10_000u32 {
            let tokens = (0..17).map(|place| if shape >> place & 1 == 1 { "*" } else { "a" });
            let pattern = tokens.chain(["z"]).collect::<Vec<_>>().join(".");
            tree.change(pattern.as_bytes(), |value| *value = Some(shape));
        }
        LOOKED_AT.set(0);
        tree.each_match(["b"; 18].join(".").as_bytes(), |_| panic!("it fits none"));
        assert!(LOOKED_AT.get() <= 18, "{} nodes", LOOKED_AT.get());
    }
}
