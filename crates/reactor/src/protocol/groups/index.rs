//! Who is subscribed to what: literal subjects by name, subjects with wildcards in a tree of tokens.
//!
//! Publishing asks far more often than subscriptions change, and mostly for the same few subjects. So what was found
//! for a subject is kept, and every change makes a new generation, in which nothing found before is used any more: who
//! publishes looks at one number, and takes no lock while it stays the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::subject::{self, Kind};

/// What was found is forgotten when it is for more subjects than this,
const MOST_ROUTES: usize = 16 * 1024;
/// or holds more subscriptions.
const MOST_KEPT: usize = 1 << 20;
/// What one publisher keeps for itself.
const MOST_OWN: usize = 8;

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
}

#[derive(Debug)]
struct State<S> {
    literals: HashMap<Box<[u8]>, Place<S>>,
    wildcards: Level<S>,
    found: HashMap<Box<[u8]>, Arc<Route<S>>>,
    /// How many subscriptions `found` holds.
    kept: usize,
}

/// Subscriptions to the same, each by a number of its own.
#[derive(Debug)]
struct Place<S> {
    plain: BTreeMap<u64, Arc<S>>,
    queues: BTreeMap<Box<[u8]>, BTreeMap<u64, Arc<S>>>,
}

/// What can come next in a subject.
#[derive(Debug)]
struct Level<S> {
    tokens: HashMap<Box<[u8]>, Branch<S>>,
    any_token: Option<Box<Branch<S>>>,
    any_rest: Place<S>,
}

#[derive(Debug)]
struct Branch<S> {
    /// Subscriptions whose subject ends here.
    place: Place<S>,
    below: Level<S>,
}

impl<S> Default for Index<S> {
    fn default() -> Self {
        Self {
            generation: AtomicU64::new(0),
            state: Mutex::new(State {
                literals: HashMap::new(),
                wildcards: Level::default(),
                found: HashMap::new(),
                kept: 0,
            }),
        }
    }
}

impl<S> Index<S> {
    /// Adds a subscription to a valid subject, under a number that no other has.
    pub fn insert(&self, subject: &[u8], queue: Option<&[u8]>, number: u64, subscription: Arc<S>) {
        self.change(|state| match subject::kind(subject) {
            Some(Kind::Literal) => {
                state
                    .literals
                    .entry(subject.into())
                    .or_default()
                    .insert(queue, number, subscription)
            }
            _ => state
                .wildcards
                .place(&subject::tokens(subject).collect::<Vec<_>>())
                .insert(queue, number, subscription),
        });
    }

    /// Takes it out again; nothing happens if it is gone.
    pub fn remove(&self, subject: &[u8], queue: Option<&[u8]>, number: u64) {
        self.change(|state| match subject::kind(subject) {
            Some(Kind::Literal) => {
                if let Some(place) = state.literals.get_mut(subject) {
                    place.remove(queue, number);
                    if place.is_empty() {
                        state.literals.remove(subject);
                    }
                }
            }
            _ => state
                .wildcards
                .remove(&subject::tokens(subject).collect::<Vec<_>>(), queue, number),
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

/// What one publisher has found.
#[derive(Debug)]
pub(super) struct Found<S> {
    generation: u64,
    routes: Vec<(Box<[u8]>, Arc<Route<S>>)>,
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

impl<S> Found<S> {
    /// Whom a message of this subject goes to.
    #[inline]
    pub fn route(&mut self, index: &Index<S>, subject: &[u8]) -> &Route<S> {
        // Acquire: pairs with the change of the index.
        if index.generation.load(Ordering::Acquire) != self.generation {
            self.routes.clear();
        }
        let place = match self.routes.iter().position(|(known, _)| **known == *subject) {
            Some(place) => place,
            None => self.look_up(index, subject),
        };
        &self.routes[place].1
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

impl<S> State<S> {
    fn find(&self, subject: &[u8]) -> Route<S> {
        let mut found = Finding {
            plain: Vec::new(),
            queues: BTreeMap::new(),
        };
        let tokens: Vec<_> = subject::tokens(subject).collect();
        // Nobody can subscribe to an invalid one, and wildcards do not stand for nothing.
        if !tokens.iter().any(|token| token.is_empty()) {
            if let Some(place) = self.literals.get(subject) {
                found.add(place);
            }
            self.wildcards.find(&tokens, &mut found);
        }
        Route {
            plain: found.plain,
            queues: found.queues.into_values().collect(),
        }
    }

    fn forget_found(&mut self) {
        self.found.clear();
        self.kept = 0;
    }
}

/// A route to be; a queue is the same wherever it was subscribed from.
struct Finding<'a, S> {
    plain: Vec<Arc<S>>,
    queues: BTreeMap<&'a [u8], Vec<Arc<S>>>,
}

impl<'a, S> Finding<'a, S> {
    fn add(&mut self, place: &'a Place<S>) {
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

impl<S> Default for Level<S> {
    fn default() -> Self {
        Self {
            tokens: HashMap::new(),
            any_token: None,
            any_rest: Place::default(),
        }
    }
}

impl<S> Default for Branch<S> {
    fn default() -> Self {
        Self {
            place: Place::default(),
            below: Level::default(),
        }
    }
}

impl<S> Level<S> {
    /// The place of a subject, which is made if it is new. As deep as [`subject::MOST_TOKENS`] at most.
    fn place(&mut self, tokens: &[&[u8]]) -> &mut Place<S> {
        match tokens {
            [] | [b">", ..] => &mut self.any_rest,
            [b"*", rest @ ..] => self.any_token.get_or_insert_default().place(rest),
            [token, rest @ ..] => self.tokens.entry((*token).into()).or_default().place(rest),
        }
    }

    /// Removes a subscription, and every branch that holds nothing then.
    fn remove(&mut self, tokens: &[&[u8]], queue: Option<&[u8]>, number: u64) {
        match tokens {
            [] | [b">", ..] => self.any_rest.remove(queue, number),
            [b"*", rest @ ..] => {
                if let Some(branch) = &mut self.any_token
                    && branch.remove(rest, queue, number)
                {
                    self.any_token = None;
                }
            }
            [token, rest @ ..] => {
                if let Some(branch) = self.tokens.get_mut(*token)
                    && branch.remove(rest, queue, number)
                {
                    self.tokens.remove(*token);
                }
            }
        }
    }

    fn find<'a>(&'a self, tokens: &[&[u8]], found: &mut Finding<'a, S>) {
        let Some((token, rest)) = tokens.split_first() else {
            return;
        };
        found.add(&self.any_rest);
        for branch in self
            .tokens
            .get(*token)
            .into_iter()
            .chain(self.any_token.as_deref())
        {
            match rest {
                [] => found.add(&branch.place),
                rest => branch.below.find(rest, found),
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.any_token.is_none() && self.any_rest.is_empty()
    }
}

impl<S> Branch<S> {
    fn place(&mut self, tokens: &[&[u8]]) -> &mut Place<S> {
        match tokens {
            [] => &mut self.place,
            rest => self.below.place(rest),
        }
    }

    /// Whether nothing is left of it.
    fn remove(&mut self, tokens: &[&[u8]], queue: Option<&[u8]>, number: u64) -> bool {
        match tokens {
            [] => self.place.remove(queue, number),
            rest => self.below.remove(rest, queue, number),
        }
        self.place.is_empty() && self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            subjects in prop::collection::vec("([ab]\\.){0,3}[ab]", 1..6),
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
                    prop_assert_eq!(numbers(found.route(&index, subject.as_bytes())), expected(&all, subject));
                }
            }
            for (number, wanted) in all.iter().enumerate() {
                if let Some((pattern, name)) = wanted {
                    index.remove(pattern.as_bytes(), queue(name), number as u64);
                }
            }
            let state = index.state();
            prop_assert!(state.literals.is_empty() && state.wildcards.is_empty());
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
        // Published to as it is written, a wildcard is a token like any other.
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
