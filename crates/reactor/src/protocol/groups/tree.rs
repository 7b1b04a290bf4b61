//! A map by subjects that is asked both ways: which of its patterns a subject fits, and which of its subjects fit a
//! pattern.
//!
//! It is a tree of tokens in which a node stands for all tokens up to where the ways part, so that a key costs two
//! nodes at most, however many tokens it has. A subject is looked up by its own token and by the wildcards at each node
//! that it comes to: patterns that differ elsewhere cost it nothing. At worst, where many patterns begin with what it
//! fits and end otherwise, or all fit, it comes to all of them: so it can stop on its way, and go on when the tree was
//! changed meanwhile.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::subject::{self, ANY, REST};

/// Values by subjects of [`MOST_TOKENS`](super::subject::MOST_TOKENS) at most, since a walk goes as deep; no token is
/// empty.
#[derive(Debug)]
pub(super) struct Tree<V>(Node<V>);

#[derive(Debug)]
struct Node<V> {
    /// The tokens behind the one by which the node above knows it.
    more: Option<Box<[u8]>>,
    value: Option<V>,
    below: Below<V>,
}

/// The nodes below one, by their first tokens. Each subject asks for the wildcards, so that they are at hand.
#[derive(Debug)]
struct Below<V> {
    literal: HashMap<Box<[u8]>, Box<Node<V>>>,
    any: Option<Box<Node<V>>>,
    rest: Option<Box<Node<V>>>,
}

/// Where a walk has stopped: for each token on the way which of those that fit it was.
#[derive(Debug)]
pub(super) struct Stopped(Vec<Step>);

/// The tokens of patterns that a subject's token fits, in the order in which they are tried. A pattern comes before all
/// that it begins, so that walks come to patterns in the order of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Literal,
    Any,
    Rest,
}

impl Step {
    fn by(token: &[u8]) -> Self {
        match token {
            ANY => Self::Any,
            REST => Self::Rest,
            _ => Self::Literal,
        }
    }
}

/// A walk on its way.
struct Walk<'w, F> {
    /// The steps to where it is.
    at: Vec<Step>,
    /// Those to where it begins, if it has stopped there.
    from: Option<&'w [Step]>,
    see: &'w mut F,
}

impl<F> Walk<'_, F> {
    /// Whether all that begins with the steps to here comes before where it begins.
    fn is_before(&self) -> bool {
        self.from.is_some_and(|from| {
            let shared = self.at.len().min(from.len());
            self.at[..shared] < from[..shared]
        })
    }

    /// Comes to a node, unless it begins behind.
    fn come<'a, V: 'a>(&mut self, value: Option<&'a V>) -> ControlFlow<()>
    where
        F: FnMut(Option<&'a V>, bool) -> ControlFlow<()>,
    {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + 1);
        match self.from {
            Some(from) if self.at[..] < *from => ControlFlow::Continue(()),
            from => (self.see)(value, from == Some(&self.at)),
        }
    }
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

    /// Walks on from where a walk for the same subject has stopped, or from the start: comes to nodes, and shows the
    /// value of each whose key, read as a pattern, the subject fits. With the value comes whether it stopped there, so
    /// that it is shown again. It stops where `see` breaks, and returns where that is.
    ///
    /// What is in the tree all the while is shown, and nothing else twice, however the tree changes in between.
    pub fn walk<'a>(
        &'a self,
        subject: &[u8],
        from: Option<&Stopped>,
        mut see: impl FnMut(Option<&'a V>, bool) -> ControlFlow<()>,
    ) -> ControlFlow<Stopped> {
        let mut walk = Walk {
            at: Vec::new(),
            from: from.map(|stopped| &stopped.0[..]),
            see: &mut see,
        };
        match self.0.walk(Some(subject), &mut walk) {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(()) => ControlFlow::Break(Stopped(walk.at)),
        }
    }

    /// Takes away each value whose key, read as a subject, fits this pattern. How many nodes it has come to.
    pub fn take_matches(&mut self, pattern: &[u8], taken: &mut Vec<V>) -> usize {
        let mut nodes = 0;
        self.0.take_matches(Some(pattern), taken, &mut nodes);
        nodes
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
            below: Below::default(),
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
        let node = self.below.get_or_insert(token, rest);
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
                self.below.insert(token, Box::new(lower));
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
        for (token, only) in std::mem::take(&mut self.below).into_nodes() {
            let tokens = [self.more.as_deref(), Some(&*token), only.more.as_deref()];
            let tokens: Vec<&[u8]> = tokens.into_iter().flatten().collect();
            *self = Self {
                more: Some(tokens.join(&b'.').into()),
                ..*only
            };
        }
    }

    fn walk<'a, F>(&'a self, path: Path<'_>, walk: &mut Walk<'_, F>) -> ControlFlow<()>
    where
        F: FnMut(Option<&'a V>, bool) -> ControlFlow<()>,
    {
        walk.come(self.value.as_ref().filter(|_| path.is_none()))?;
        let Some(path) = path else {
            return ControlFlow::Continue(());
        };
        let (token, rest) = split(path);
        let below = &self.below;
        // As it is written, a wildcard is a token that only wildcards match.
        let literal = match token {
            ANY | REST => None,
            token => below.get(token),
        };
        let steps = walk.at.len();
        let wildcards = [
            (Step::Any, below.any.as_deref()),
            (Step::Rest, below.rest.as_deref()),
        ];
        for (step, node) in [(Step::Literal, literal)].into_iter().chain(wildcards) {
            let Some(node) = node else { continue };
            walk.at.push(step);
            let more = node.more.as_deref();
            walk.at
                .extend(more.into_iter().flat_map(subject::tokens).map(Step::by));
            if !walk.is_before() {
                match apart(more, rest, is_matched) {
                    _ if step == Step::Rest => walk.come(node.value.as_ref())?,
                    (None, rest) => node.walk(rest, walk)?,
                    (Some(REST), Some(_)) => walk.come(node.value.as_ref())?,
                    _ => walk.come(None)?,
                }
            }
            walk.at.truncate(steps);
        }
        ControlFlow::Continue(())
    }

    fn take_matches(&mut self, path: Path<'_>, taken: &mut Vec<V>, nodes: &mut usize) {
        *nodes += 1;
        let Some(path) = path else {
            return taken.extend(self.value.take());
        };
        match split(path) {
            (REST, _) => self.take_below(taken, nodes),
            (ANY, rest) => self.below.retain(|node| {
                node.take_matches_behind(rest, taken, nodes);
                node.is_used()
            }),
            (token, rest) => {
                if let Some(node) = self.below.literal.get_mut(token) {
                    node.take_matches_behind(rest, taken, nodes);
                    if !node.is_used() {
                        self.below.remove(token);
                    }
                }
            }
        }
    }

    /// [`take_matches`](Self::take_matches) of a path that goes through this node's own tokens.
    fn take_matches_behind(&mut self, path: Path<'_>, taken: &mut Vec<V>, nodes: &mut usize) {
        match apart(path, self.more.as_deref(), is_matched) {
            (path, None) => {
                self.take_matches(path, taken, nodes);
                self.unite();
            }
            (Some(REST), Some(_)) => {
                taken.extend(self.value.take());
                self.take_below(taken, nodes);
            }
            _ => *nodes += 1,
        }
    }

    fn take_below(&mut self, taken: &mut Vec<V>, nodes: &mut usize) {
        *nodes += 1;
        for (_, mut node) in std::mem::take(&mut self.below).into_nodes() {
            taken.extend(node.value.take());
            node.take_below(taken, nodes);
        }
    }
}

impl<V> Default for Below<V> {
    fn default() -> Self {
        Self {
            literal: HashMap::new(),
            any: None,
            rest: None,
        }
    }
}

impl<V> Below<V> {
    fn get(&self, token: &[u8]) -> Option<&Node<V>> {
        match token {
            ANY => self.any.as_deref(),
            REST => self.rest.as_deref(),
            _ if self.literal.is_empty() => None,
            _ => self.literal.get(token).map(|node| &**node),
        }
    }

    /// The node of this token, or a new one with these tokens behind it.
    fn get_or_insert(&mut self, token: &[u8], more: Path<'_>) -> &mut Node<V> {
        let new = || Box::new(Node::behind(more));
        match token {
            ANY => self.any.get_or_insert_with(new),
            REST => self.rest.get_or_insert_with(new),
            _ => self.literal.entry(token.into()).or_insert_with(new),
        }
    }

    fn insert(&mut self, token: &[u8], node: Box<Node<V>>) {
        match token {
            ANY => self.any = Some(node),
            REST => self.rest = Some(node),
            _ => drop(self.literal.insert(token.into(), node)),
        }
    }

    fn remove(&mut self, token: &[u8]) {
        match token {
            ANY => self.any = None,
            REST => self.rest = None,
            _ => drop(self.literal.remove(token)),
        }
    }

    fn len(&self) -> usize {
        self.literal.len() + usize::from(self.any.is_some()) + usize::from(self.rest.is_some())
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, with their tokens.
    fn into_nodes(self) -> impl Iterator<Item = (Box<[u8]>, Box<Node<V>>)> {
        let wildcards = [(ANY, self.any), (REST, self.rest)];
        let wildcards = wildcards
            .into_iter()
            .filter_map(|(token, node)| Some((token.into(), node?)));
        self.literal.into_iter().chain(wildcards)
    }

    /// Keeps the nodes of which that is said.
    fn retain(&mut self, mut is_kept: impl FnMut(&mut Node<V>) -> bool) {
        self.literal.retain(|_, node| is_kept(node));
        for wildcard in [&mut self.any, &mut self.rest] {
            wildcard.take_if(|node| !is_kept(node));
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

    /// The values whose keys, read as patterns, a subject fits.
    fn matches<V: Clone + Ord>(tree: &mut Tree<V>, subject: &str) -> Vec<V> {
        in_pieces(tree, subject, usize::MAX, |_| {})
    }

    /// The same, found by walks of so many nodes each, and something done in between. Sorted.
    fn in_pieces<V: Clone + Ord>(
        tree: &mut Tree<V>,
        subject: &str,
        nodes: usize,
        mut between: impl FnMut(&mut Tree<V>),
    ) -> Vec<V> {
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let mut left = nodes;
            let walk = tree.walk(subject.as_bytes(), from.as_ref(), |value, again| {
                found.extend(value.filter(|_| !again).cloned());
                left -= usize::from(!again);
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            match walk {
                ControlFlow::Continue(()) => break,
                ControlFlow::Break(stopped) => from = Some(stopped),
            }
            between(tree);
        }
        found.sort_unstable();
        found
    }

    /// All nodes but the first, each of which must be there for something.
    fn nodes<V>(node: &Node<V>) -> usize {
        let wildcards = [&node.below.any, &node.below.rest].into_iter().flatten();
        let each = node.below.literal.values().chain(wildcards).map(|below| {
            assert!(
                below.value.is_some() || below.below.len() > 1,
                "a node without use"
            );
            1 + nodes(below)
        });
        each.sum()
    }

    #[test]
    fn taking_away_counts_the_nodes_that_it_comes_to() {
        // `a` has `b` and `c` below it; `e.f.g` is one node.
        for (pattern, expected, nodes) in [
            ("x", &[][..], 1),
            ("d", &[2], 2),
            ("e.f.g", &[3], 2),
            ("e.x.g", &[], 2),
            ("*.b", &[0], 5),
            ("a.>", &[0, 1], 5),
            (">", &[0, 1, 2, 3], 7),
        ] {
            let mut tree = Tree::default();
            for (number, key) in ["a.b", "a.c", "d", "e.f.g"].into_iter().enumerate() {
                tree.change(key.as_bytes(), |value| *value = Some(number));
            }
            let mut taken = Vec::new();
            assert_eq!(
                tree.take_matches(pattern.as_bytes(), &mut taken),
                nodes,
                "{pattern}"
            );
            taken.sort_unstable();
            assert_eq!(taken, expected, "{pattern}");
        }
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
                    let found = matches(&mut tree, &subject);
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

        #[test]
        fn a_walk_in_pieces_finds_all_that_stays_and_nothing_twice(
            stay in prop::collection::btree_set("([a*]\\.){0,4}[a*>]", 0..40),
            come_and_go in prop::collection::vec("([ab*]\\.){0,4}[ab*>]", 1..40),
            subject in "([ab]\\.){0,4}[ab]",
            nodes in 1usize..8,
        ) {
            let mut tree = Tree::default();
            for pattern in &stay {
                tree.change(pattern.as_bytes(), |value| *value = Some((true, pattern.clone())));
            }
            let changes: Vec<String> = come_and_go.into_iter().filter(|pattern| !stay.contains(pattern)).collect();
            let mut changes = changes.iter().cycle().take(400);
            let found = in_pieces(&mut tree, &subject, nodes, |tree| {
                for pattern in changes.by_ref().take(3) {
                    tree.change(pattern.as_bytes(), |value| {
                        *value = value.is_none().then(|| (false, pattern.clone()));
                    });
                }
            });
            let mut once = found.clone();
            once.dedup();
            prop_assert_eq!(&found, &once);
            let found: Vec<String> = found.into_iter().filter(|(stays, _)| *stays).map(|(_, pattern)| pattern).collect();
            let expected: Vec<String> = stay.into_iter().filter(|pattern| fits(&subject, pattern)).collect();
            prop_assert_eq!(found, expected);
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
        assert!(matches(&mut tree, &["b"; 18].join(".")).is_empty());
        assert!(LOOKED_AT.get() <= 18, "{} nodes", LOOKED_AT.get());
    }
}
