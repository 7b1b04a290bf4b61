//! Who is subscribed to what: one table of subjects as they were subscribed to.
//!
//! Subjects with wildcards are in the table too, and beside it a list of their *shapes*: how many tokens, which of them
//! are `*`, and whether `>` follows. A message's subject is looked up as it is, and once for each shape that fits its
//! number of tokens, with wildcards in the shape's places: `a.b.c` for the shape of `x.*.y` as `a.*.c`. In practice
//! there are a few shapes, so that a few lookups find all; and a subscription costs memory for its text alone, however
//! many tokens it has, where a tree of tokens would cost a node for each.
//!
//! Publishing asks far more often than subscriptions change, and mostly for the same few subjects. So what was found
//! for a subject is kept, and every change makes a new generation, in which nothing found before is used any more: who
//! publishes looks at one number, and takes no lock while it stays the same.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::subject;

/// What was found is forgotten when it is for more subjects than this,
const MOST_ROUTES: usize = 16 * 1024;
/// or holds more subscriptions.
const MOST_KEPT: usize = 1 << 20;
/// What one publisher keeps for itself.
const MOST_OWN: usize = 8;

/// What is subscribed to a subject.
pub(super) trait Subscriber {
    /// Whether messages of a subject begin with the same where they come.
    fn is_alike(&self, other: &Self) -> bool;

    /// What that is.
    fn head(&self, subject: &[u8]) -> Box<[u8]>;
}

/// Subscriptions `S` by their subjects.
#[derive(Debug)]
pub(super) struct Index<S> {
    /// How often it has changed.
    generation: AtomicU64,
    state: Mutex<State<S>>,
}

/// Who gets the messages of a subject: all of `plain`, and one of each queue.
#[derive(Debug)]
pub(super) struct Route<S> {
    pub plain: Vec<Arc<S>>,
    pub queues: Vec<Vec<Arc<S>>>,
    /// What messages [begin with](Subscriber::head), if that is the same for all of `plain`, and there are no queues.
    pub head: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct State<S> {
    places: HashMap<Box<[u8]>, Place<S>>,
    /// How many places there are of each shape with wildcards, by the number of tokens: without and with a `>` behind.
    shapes: [HashMap<usize, HashMap<Shape, usize>>; 2],
    found: HashMap<Box<[u8]>, Arc<Route<S>>>,
    /// How many subscriptions `found` holds.
    kept: usize,
}

/// Which tokens are `*`: a bit each.
type Shape = u128;

/// Subscriptions to the same, each by a number of its own.
#[derive(Debug)]
struct Place<S> {
    plain: BTreeMap<u64, Arc<S>>,
    queues: BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<S>>>,
}

impl<S> Default for Index<S> {
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(0),
            state: Mutex::new(State {
                places: HashMap::new(),
                shapes: Default::default(),
                found: HashMap::new(),
                kept: 0,
            }),
        }
    }
}

impl<S: Subscriber> Index<S> {
    /// Adds a subscription to a valid subject, under a number that no other has.
    pub fn insert(&self, subject: &[u8], queue: Option<&[u8]>, number: u64, subscription: Arc<S>) {
        self.change(|state| {
            if !state.places.contains_key(subject) {
                state.places.insert(subject.into(), Place::default());
                if let Some((shapes, shape)) = state.shape(subject) {
                    *shapes.entry(shape).or_default() += 1;
                }
            }
            if let Some(place) = state.places.get_mut(subject) {
                place.insert(queue, number, subscription);
            }
        });
    }

    /// Takes it out again; nothing happens if it is gone.
    pub fn remove(&self, subject: &[u8], queue: Option<&[u8]>, number: u64) {
        self.change(|state| {
            let Some(place) = state.places.get_mut(subject) else {
                return;
            };
            place.remove(queue, number);
            if !place.is_empty() {
                return;
            }
            state.places.remove(subject);
            if let Some((shapes, shape)) = state.shape(subject)
                && let Entry::Occupied(mut count) = shapes.entry(shape)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        });
    }

    /// Whom a message of this subject goes to, and the generation in which that is so.
    fn route(&self, subject: &[u8]) -> (u64, Arc<Route<S>>) {
        let state = &mut *self.state();
        // Relaxed: it changes under the lock alone.
        let generation = self.generation.load(Ordering::Relaxed);
        if let Some(route) = state.found.get(subject) {
            return (generation, Arc::clone(route));
        }
        let route = Arc::new(state.find(subject));
        let size = 1 + route.plain.len() + route.queues.iter().map(Vec::len).sum::<usize>();
        if state.found.len() >= MOST_ROUTES || state.kept + size > MOST_KEPT {
            state.forget_found();
        }
        state.kept += size;
        state.found.insert(subject.into(), Arc::clone(&route));
        (generation, route)
    }

    fn change(&self, change: impl FnOnce(&mut State<S>)) {
        let mut state = self.state();
        change(&mut state);
        state.forget_found();
        // Release: pairs with the load in `Found::route`. Whoever sees the new number finds what has changed, and
        // whoever was told of the change by the one who made it sees the number.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Nothing that can panic leaves it half changed.
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subject and whom its messages go to.
type Known<S> = (Box<[u8]>, Arc<Route<S>>);

/// What one publisher has found.
#[derive(Debug)]
pub(super) struct Found<S> {
    generation: u64,
    routes: Vec<Known<S>>,
    /// The one to be replaced next.
    oldest: usize,
}

impl<S> Default for Found<S> {
    fn default() -> Self {
        Self {
            generation: 0,
            routes: Vec::new(),
            oldest: 0,
        }
    }
}

impl<S: Subscriber> Found<S> {
    /// Whom a message of this subject goes to.
    #[inline]
    pub fn route(&mut self, index: &Index<S>, subject: &[u8]) -> &Route<S> {
        let place = self.place(index, subject);
        self.at(place)
    }

    /// Where that is kept: until another place is asked for.
    #[inline]
    pub fn place(&mut self, index: &Index<S>, subject: &[u8]) -> usize {
        if !self.is_current(index) {
            self.routes.clear();
        }
        match self.routes.iter().position(|(known, _)| **known == *subject) {
            Some(place) => place,
            None => self.look_up(index, subject),
        }
    }

    /// What is kept in a place that [`place`](Self::place) has told.
    pub fn at(&self, place: usize) -> &Route<S> {
        &self.routes[place].1
    }

    /// Whether what is kept there is for this subject still.
    #[inline]
    pub fn holds(&self, place: usize, index: &Index<S>, subject: &[u8]) -> bool {
        self.is_current(index) && *self.routes[place].0 == *subject
    }

    fn is_current(&self, index: &Index<S>) -> bool {
        // Acquire: pairs with the change of the index.
        index.generation.load(Ordering::Acquire) == self.generation
    }

    #[cold]
    fn look_up(&mut self, index: &Index<S>, subject: &[u8]) -> usize {
        let (generation, route) = index.route(subject);
        if generation != self.generation {
            self.routes.clear();
            self.generation = generation;
        }
        let entry = (subject.into(), route);
        if self.routes.len() < MOST_OWN {
            self.routes.push(entry);
            return self.routes.len() - 1;
        }
        let place = self.oldest;
        self.oldest = (place + 1) % MOST_OWN;
        self.routes[place] = entry;
        place
    }
}

impl<S: Subscriber> State<S> {
    fn find(&self, subject: &[u8]) -> Route<S> {
        let mut found = Finding {
            plain: Vec::new(),
            queues: BTreeMap::new(),
        };
        let tokens: Vec<_> = subject::tokens(subject).collect();
        // Nobody can subscribe to an invalid one, and wildcards do not stand for nothing.
        if !tokens.iter().any(|token| token.is_empty()) {
            let mut text = Vec::with_capacity(subject.len() + 2);
            found.add(self.places.get(subject).filter(|_| subject::is_literal(subject)));
            for (rest, counts) in [(false, tokens.len()..=tokens.len()), (true, 0..=tokens.len() - 1)] {
                for count in counts {
                    let shapes = self.shapes[usize::from(rest)].get(&count);
                    for &shape in shapes.into_iter().flat_map(HashMap::keys) {
                        if write_shaped(&mut text, &tokens[..count], shape, rest) {
                            found.add(self.places.get(&*text));
                        }
                    }
                }
            }
        }
        let first = found.plain.first().filter(|_| found.queues.is_empty());
        let common = first.filter(|first| found.plain.iter().all(|other| other.is_alike(first)));
        let head = common.map(|subscription| subscription.head(subject));
        Route {
            plain: found.plain,
            queues: found.queues.into_values().collect(),
            head,
        }
    }

    /// The shapes of its number of tokens, and its own, if it has wildcards.
    fn shape(&mut self, subject: &[u8]) -> Option<(&mut HashMap<Shape, usize>, Shape)> {
        let (mut count, mut shape, mut rest) = (0, 0, false);
        for token in subject::tokens(subject) {
            match token {
                b">" => rest = true,
                b"*" => shape |= 1 << count,
                _ => {}
            }
            count += usize::from(!rest);
        }
        let has_wildcards = rest || shape != 0;
        has_wildcards.then(|| (self.shapes[usize::from(rest)].entry(count).or_default(), shape))
    }

    fn forget_found(&mut self) {
        self.found.clear();
        self.kept = 0;
    }
}

/// Writes the subject of this shape that `tokens` fit, if there can be one.
fn write_shaped(text: &mut Vec<u8>, tokens: &[&[u8]], shape: Shape, rest: bool) -> bool {
    text.clear();
    for (place, &token) in tokens.iter().enumerate() {
        let any = shape >> place & 1 == 1;
        if !any && (token == b"*" || token == b">") {
            // Published as it is written; nobody is subscribed to that alone.
            return false;
        }
        text.extend_from_slice(if any { b"*" } else { token });
        text.push(b'.');
    }
    match rest {
        true => text.push(b'>'),
        false => text.truncate(text.len() - 1),
    }
    true
}

/// A route to be; a queue is the same wherever it was subscribed from.
struct Finding<'a, S> {
    plain: Vec<Arc<S>>,
    queues: BTreeMap<&'a [u8], Vec<Arc<S>>>,
}

impl<'a, S> Finding<'a, S> {
    fn add(&mut self, place: Option<&'a Place<S>>) {
        let Some(place) = place else { return };
        self.plain.extend(place.plain.values().cloned());
        for (queue, members) in &place.queues {
            let found = self.queues.entry(queue).or_default();
            found.extend(members.values().cloned());
        }
    }
}

impl<S> Default for Place<S> {
    fn default() -> Self {
        Self {
            plain: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }
}

impl<S> Place<S> {
    fn insert(&mut self, queue: Option<&[u8]>, number: u64, subscription: Arc<S>) {
        match queue {
            None => self.plain.insert(number, subscription),
            Some(queue) => self
                .queues
                .entry(queue.into())
                .or_default()
                .insert(number, subscription),
        };
    }

    fn remove(&mut self, queue: Option<&[u8]>, number: u64) {
        let Some(queue) = queue else {
            self.plain.remove(&number);
            return;
        };
        if let Some(members) = self.queues.get_mut(queue) {
            members.remove(&number);
            if members.is_empty() {
                self.queues.remove(queue);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.queues.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Subscriber for usize {
        fn is_alike(&self, other: &Self) -> bool {
            self % 2 == other % 2
        }

        fn head(&self, subject: &[u8]) -> Box<[u8]> {
            [subject, &[*self as u8 % 2]].concat().into()
        }
    }

    /// A subscription's subject and queue.
    type Wanted = (String, Option<u8>);

    /// What a subject with wildcards matches, token by token.
    fn matches(pattern: &str, subject: &str) -> bool {
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

    fn queue(name: &Option<u8>) -> Option<&[u8]> {
        name.as_ref().map(std::slice::from_ref)
    }

    /// The numbers that a route holds: of those who all get it, and of each queue.
    fn numbers(route: &Route<usize>) -> (Vec<usize>, Vec<Vec<usize>>) {
        let sorted = |list: &[Arc<usize>]| {
            let mut list: Vec<usize> = list.iter().map(|number| **number).collect();
            list.sort_unstable();
            list
        };
        (
            sorted(&route.plain),
            route.queues.iter().map(|list| sorted(list)).collect(),
        )
    }

    fn expected(all: &[Option<Wanted>], subject: &str) -> (Vec<usize>, Vec<Vec<usize>>) {
        let mut queues: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        let mut plain = Vec::new();
        for (number, wanted) in all.iter().enumerate() {
            match wanted.as_ref().filter(|(pattern, _)| matches(pattern, subject)) {
                Some((_, None)) => plain.push(number),
                Some((_, Some(queue))) => queues.entry(*queue).or_default().push(number),
                None => {}
            }
        }
        (plain, queues.into_values().collect())
    }

    proptest! {
        #[test]
        fn it_finds_what_a_comparison_token_by_token_finds(
            steps in prop::collection::vec(
                ("([ab*]\\.){0,3}[ab*>]", prop::option::of(0u8..3), prop::option::of(0usize..20)), 1..40),
            subjects in prop::collection::vec("([ab*>]\\.){0,3}[ab*>]", 1..6),
        ) {
            let (index, mut found) = (Index::default(), Found::default());
            let mut all: Vec<Option<Wanted>> = Vec::new();
            for (pattern, name, removed) in steps {
                index.insert(pattern.as_bytes(), queue(&name), all.len() as u64, Arc::new(all.len()));
                all.push(Some((pattern, name)));
                if let Some(number) = removed.filter(|&number| number < all.len())
                    && let Some((pattern, name)) = all[number].take()
                {
                    index.remove(pattern.as_bytes(), queue(&name), number as u64);
                }
                for subject in &subjects {
                    let route = found.route(&index, subject.as_bytes());
                    let (plain, queues) = expected(&all, subject);
                    let parity = plain.first().map(|number| number % 2);
                    let is_uniform = queues.is_empty() && plain.iter().all(|number| Some(number % 2) == parity);
                    let head = parity.filter(|_| is_uniform).map(|parity| [subject.as_bytes(), &[parity as u8]].concat());
                    prop_assert_eq!(route.head.as_deref(), head.as_deref());
                    prop_assert_eq!(numbers(route), (plain, queues));
                }
            }
            for (number, wanted) in all.iter().enumerate() {
                if let Some((pattern, name)) = wanted {
                    index.remove(pattern.as_bytes(), queue(name), number as u64);
                }
            }
            let state = index.state();
            prop_assert!(state.places.is_empty());
            prop_assert!(state.shapes.iter().flat_map(HashMap::values).all(HashMap::is_empty));
        }
    }

    #[test]
    fn what_was_found_is_kept_until_something_changes() {
        let (index, mut found) = (Index::default(), Found::default());
        index.insert(b"a", None, 1, Arc::new(1));
        let first = Arc::as_ptr(&found.route(&index, b"a").plain[0]);
        let mut other = Found::default();
        assert!(
            std::ptr::eq(found.route(&index, b"a"), other.route(&index, b"a")),
            "kept once for all"
        );
        for subject in 0..100u32 {
            let subject = subject.to_string();
            assert!(found.route(&index, subject.as_bytes()).plain.is_empty());
        }
        assert_eq!(found.routes.len(), MOST_OWN);
        assert_eq!(Arc::as_ptr(&found.route(&index, b"a").plain[0]), first);
        index.remove(b"a", None, 1);
        assert!(found.route(&index, b"a").plain.is_empty());
    }

    #[test]
    fn an_invalid_subject_goes_to_nobody() {
        let (index, mut found) = (Index::default(), Found::default());
        index.insert(b">", None, 1, Arc::new(1));
        index.insert(b"a.*", None, 2, Arc::new(2));
        for subject in ["", ".", "a.", ".a", "a..b"] {
            assert!(
                found.route(&index, subject.as_bytes()).plain.is_empty(),
                "{subject:?}"
            );
        }
        // As it is written, a wildcard is a token that only wildcards match.
        assert_eq!(found.route(&index, b"a.*").plain.len(), 2);
        assert_eq!(found.route(&index, b"b.>").plain.len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let index = Index::default();
        index.insert(b">", None, 1, Arc::new(1));
        for subject in 0..=MOST_ROUTES {
            index.route(subject.to_string().as_bytes());
        }
        let state = index.state();
        assert!(state.found.len() <= MOST_ROUTES && state.kept <= MOST_KEPT);
        assert_eq!(state.kept, 2 * state.found.len());
    }
}
