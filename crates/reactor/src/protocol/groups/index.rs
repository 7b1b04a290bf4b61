//! Who is subscribed to what, and what publishers know of that.
//!
//! Publishing asks far more often than subscriptions change, and mostly for the same few subjects. So what was found
//! for a subject, its *route*, is kept: by the index for all, and by each publisher for the subjects that it used last.
//! Whoever changes a subscription revokes the routes of the subjects that it is for, and no others: who publishes looks
//! at a flag of the route, and takes no lock while it is set.
//!
//! What is kept is bounded. The index keeps so many routes and bytes and then forgets the oldest. A publisher keeps a
//! few small routes, which may be revoked and are held until it publishes again or is [asked to let
//! go](Found::forget_revoked); a large one it only knows by name, so that it goes once it is revoked: else a room in
//! which each joins, speaks once and listens would cost a list of all for each.
//!
//! No call takes longer than a few milliseconds, but to take out very many at once: who are very many are found piece
//! by piece, and so is their list dropped. Each call says how long it took, in deliveries, so that whoever makes many
//! can let others have their turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

use super::route::{Reached, Route, Subscriber};
use super::search::{PIECE, Place, Search};
use super::subject;
use super::tree::Tree;

/// The index keeps no more routes than this,
const MOST_ROUTES: usize = 16 * 1024;
/// nor more bytes of them, unless a single one has more.
const MOST_BYTES: usize = 16 << 20;
/// As many subscriptions end before others may look in between,
const MOST_AT_ONCE: usize = 256;
/// and not many more, where revoking routes has come to as many nodes of their tree.
const MOST_NODES: usize = 16 * 1024;
/// To change a subscription takes as long as so many deliveries.
const CHANGE: usize = 16;
/// To come to so many nodes, or to drop so many of a list, takes as long as one.
const IN_A_DELIVERY: usize = 2;

/// Where a subscription is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'a> {
    /// A valid one.
    pub subject: &'a [u8],
    pub queue: Option<&'a [u8]>,
    /// No other has the same.
    pub number: u64,
}

/// Subscriptions `S` by their subjects.
#[derive(Debug)]
pub(super) struct Index<S> {
    places: RwLock<Places<S>>,
    /// Locked alone, or after `places`. While these may be read, none is wrong.
    routes: Mutex<Routes<S>>,
}

/// Subscriptions where they are.
#[derive(Debug)]
struct Places<S> {
    tree: Tree<Place<S>>,
    /// How often they were changed.
    changes: u64,
}

/// What was found, by its subject.
#[derive(Debug)]
struct Routes<S> {
    by_subject: Tree<Arc<Route<S>>>,
    /// In the order in which they were found; some are revoked.
    order: VecDeque<Weak<Route<S>>>,
    /// Of all.
    bytes: usize,
    /// What is not kept any more and nobody has come to drop yet, since that takes long.
    bin: Vec<Arc<Route<S>>>,
}

impl<S> Default for Index<S> {
    fn default() -> Self {
        let places = Places {
            tree: Tree::default(),
            changes: 0,
        };
        Self {
            places: RwLock::new(places),
            routes: Mutex::default(),
        }
    }
}

impl<S: Subscriber> Index<S> {
    /// Adds a subscription.
    pub fn insert(&self, key: Key<'_>, subscription: &Arc<S>) -> usize {
        self.change([key].into_iter(), |place, key| {
            place
                .get_or_insert_default()
                .insert(key, Arc::clone(subscription));
        })
    }

    /// Takes subscriptions out again; nothing happens for those that are gone.
    pub fn remove<'a>(&self, keys: impl Iterator<Item = Key<'a>>) -> usize {
        self.change(keys, |place, key| {
            if let Some(there) = place {
                there.remove(key);
                if there.is_empty() {
                    *place = None;
                }
            }
        })
    }

    fn change<'a>(
        &self,
        keys: impl Iterator<Item = Key<'a>>,
        change: impl Fn(&mut Option<Place<S>>, Key<'a>),
    ) -> usize {
        let (mut keys, mut work) = (keys.peekable(), 0);
        while keys.peek().is_some() {
            let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
            let (mut routes, mut nodes) = (self.routes(), 0);
            places.changes += 1;
            for key in keys.by_ref().take(MOST_AT_ONCE) {
                places.tree.change(key.subject, |place| change(place, key));
                nodes += routes.revoke(key.subject);
                work += CHANGE;
                if nodes > MOST_NODES {
                    break;
                }
            }
            drop(places);
            work += nodes / IN_A_DELIVERY + self.empty_bin(routes);
        }
        work
    }

    /// Whom a message of this subject goes to, and how long it took to know.
    #[cold]
    pub fn reach(&self, subject: &[u8]) -> (Reached<S>, usize) {
        let known = self.routes().by_subject.get(subject).map(Arc::clone);
        known.map_or_else(|| self.look_up(subject), |route| (Reached::All(route), 0))
    }

    fn look_up(&self, subject: &[u8]) -> (Reached<S>, usize) {
        let places = self.places();
        let mut search = Search::new(subject, places.changes);
        if subject::tokens(subject).any(<[u8]>::is_empty) {
            // Nobody can subscribe to an invalid one, and wildcards do not stand for nothing.
            return (Reached::All(Arc::new(Route::of(&mut search))), 0);
        }
        let work = search.go_on(&places.tree, PIECE);
        match self.all_of(&mut search, &places) {
            Some((route, more)) => (Reached::All(route), work + more),
            None => (Reached::Some(Box::new(search)), work),
        }
    }

    /// Finds more of those who get a message, and says so once these are all; and how long that took.
    pub fn search_on(&self, search: &mut Search<S>) -> (Option<Arc<Route<S>>>, usize) {
        let places = self.places();
        let work = search.go_on(&places.tree, PIECE);
        let (all, more) = self.all_of(search, &places).unzip();
        (all, work + more.unwrap_or(0))
    }

    /// What a search has found, if it is over, and how long it took to keep that.
    fn all_of(&self, search: &mut Search<S>, places: &Places<S>) -> Option<(Arc<Route<S>>, usize)> {
        if !search.is_over() {
            return None;
        }
        let route = Arc::new(Route::of(search));
        // Until what is found is kept, nothing changes: if that was so until now, and if somebody would find it to
        // revoke it.
        let is_kept =
            search.began == places.changes && subject::tokens(&route.subject).count() <= subject::MOST_TOKENS;
        if !is_kept {
            // For this message alone.
            route.revoke();
            return Some((route, 0));
        }
        let mut routes = self.routes();
        let route = routes.keep(route);
        Some((route, self.empty_bin(routes)))
    }

    /// Takes back a route that is in no use any more.
    pub fn take_back(&self, route: Arc<Route<S>>) {
        if !route.is_current() && route.len() > PIECE {
            self.routes().bin.push(route);
        }
    }

    /// Drops what is in the bin, behind the lock, or a part of it: others do not wait for the rest. How long it took.
    fn empty_bin(&self, mut routes: MutexGuard<'_, Routes<S>>) -> usize {
        let some = routes.take_from_bin();
        drop(routes);
        let mut work = 0;
        for route in some {
            work += (1 + route.len().min(PIECE)) / IN_A_DELIVERY;
            if route.len() > PIECE
                && let Some(mut route) = Arc::into_inner(route)
            {
                route.drop_some(PIECE);
                self.routes().bin.push(Arc::new(route));
            }
        }
        work
    }

    fn places(&self) -> RwLockReadGuard<'_, Places<S>> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn routes(&self) -> MutexGuard<'_, Routes<S>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Default for Routes<S> {
    fn default() -> Self {
        Self {
            by_subject: Tree::default(),
            order: VecDeque::new(),
            bytes: 0,
            bin: Vec::new(),
        }
    }
}

impl<S> Routes<S> {
    /// Revokes the routes of all subjects that fit this pattern, and says how many nodes it has come to.
    fn revoke(&mut self, pattern: &[u8]) -> usize {
        let before = self.bin.len();
        let nodes = self.by_subject.take_matches(pattern, &mut self.bin);
        for route in &self.bin[before..] {
            route.revoke();
            self.bytes -= route.bytes;
        }
        nodes
    }

    /// So many of what is in the bin that they may be dropped at once.
    fn take_from_bin(&mut self) -> Vec<Arc<Route<S>>> {
        let mut left = PIECE;
        let some = self.bin.iter().rev().take_while(|route| {
            let fits = left > 0;
            left = left.saturating_sub(1 + route.len());
            fits
        });
        let rest = self.bin.len() - some.count();
        self.bin.split_off(rest)
    }

    /// Keeps a route, unless somebody was faster: then that one is to be used. It takes the place of the oldest.
    fn keep(&mut self, route: Arc<Route<S>>) -> Arc<Route<S>> {
        if let Some(known) = self.by_subject.get(&route.subject) {
            return Arc::clone(known);
        }
        while self.order.len() >= MOST_ROUTES || self.bytes + route.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            if let Some(oldest) = oldest.upgrade().filter(|oldest| oldest.is_current()) {
                self.by_subject.change(&oldest.subject, Option::take);
                // Or those who have it would not hear of a change.
                oldest.revoke();
                self.bytes -= oldest.bytes;
                self.bin.push(oldest);
            }
        }
        self.bytes += route.bytes;
        self.order.push_back(Arc::downgrade(&route));
        let kept = Arc::clone(&route);
        self.by_subject
            .change(&route.subject, |place| *place = Some(kept));
        route
    }
}

impl<S> Place<S> {
    fn insert(&mut self, key: Key<'_>, subscription: Arc<S>) {
        let number = key.number;
        match key.queue {
            None => self.plain.insert(number, subscription),
            Some(queue) => self
                .queues
                .entry(queue.into())
                .or_default()
                .insert(number, subscription),
        };
    }

    fn remove(&mut self, key: Key<'_>) {
        let Some(queue) = key.queue else {
            self.plain.remove(&key.number);
            return;
        };
        if let Some(members) = self.queues.get_mut(queue) {
            members.remove(&key.number);
            if members.is_empty() {
                self.queues.remove(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::found::{Found, MOST_OWN, MOST_OWN_BYTES};
    use super::super::tree::tests::fits;
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

    fn key(subject: &str, number: usize) -> Key<'_> {
        Key {
            subject: subject.as_bytes(),
            queue: None,
            number: number as u64,
        }
    }

    fn add(index: &Index<usize>, subject: &str, number: usize) {
        index.insert(key(subject, number), &Arc::new(number));
    }

    /// As a publisher does it.
    fn route(found: &mut Found<usize>, index: &Index<usize>, subject: &str) -> Arc<Route<usize>> {
        let (Reached::All(route), _) = found.take(index, subject.as_bytes()) else {
            panic!("they are few");
        };
        found.keep(index, Arc::clone(&route));
        route
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
            match wanted.as_ref().filter(|(pattern, _)| fits(subject, pattern)) {
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
                let queue = name.as_ref().map(std::slice::from_ref);
                index.insert(Key { queue, ..key(&pattern, all.len()) }, &Arc::new(all.len()));
                all.push(Some((pattern, name)));
                if let Some(number) = removed.filter(|&number| number < all.len())
                    && let Some((pattern, name)) = all[number].take()
                {
                    let queue = name.as_ref().map(std::slice::from_ref);
                    index.remove([Key { queue, ..key(&pattern, number) }].into_iter());
                }
                for subject in &subjects {
                    let route = route(&mut found, &index, subject);
                    let (plain, queues) = expected(&all, subject);
                    let parity = plain.first().map(|number| number % 2);
                    let is_uniform = queues.is_empty() && plain.iter().all(|number| Some(number % 2) == parity);
                    let head = parity.filter(|_| is_uniform).map(|parity| [subject.as_bytes(), &[parity as u8]].concat());
                    prop_assert_eq!(route.head.as_deref(), head.as_deref());
                    prop_assert_eq!(numbers(&route), (plain, queues));
                }
            }
            index.remove(all.iter().enumerate().filter_map(|(number, wanted)| {
                let (pattern, name) = wanted.as_ref()?;
                Some(Key { queue: name.as_ref().map(std::slice::from_ref), ..key(pattern, number) })
            }));
            prop_assert!(index.places().tree.is_empty());
        }
    }

    #[test]
    fn what_was_found_is_kept_once_for_all_and_until_it_changes() {
        let (index, mut found) = (Index::default(), Found::default());
        add(&index, "a", 1);
        let first = route(&mut found, &index, "a");
        assert!(Arc::ptr_eq(&first, &route(&mut Found::default(), &index, "a")));
        for subject in 0..100u32 {
            assert!(route(&mut found, &index, &subject.to_string()).plain.is_empty());
        }
        assert_eq!(found.len(), MOST_OWN);
        assert!(Arc::ptr_eq(&first, &route(&mut found, &index, "a")));
        let (taken, _) = found.take(&index, b"a");
        assert_eq!(found.len(), MOST_OWN - 1);
        found.put_back(&index, taken);
        assert_eq!(found.len(), MOST_OWN);
        index.remove([key("a", 1)].into_iter());
        assert!(route(&mut found, &index, "a").plain.is_empty());
    }

    #[test]
    fn a_change_leaves_alone_what_was_found_for_other_subjects() {
        let (index, mut found) = (Index::default(), Found::default());
        add(&index, "a.b", 1);
        let first = route(&mut found, &index, "a.b");
        for (number, other) in ["b", "a.c", "*.c", "b.>", "a.b.>", "a.b.c", "*", "a.*.*"]
            .into_iter()
            .enumerate()
        {
            add(&index, other, 2 + number);
            assert!(Arc::ptr_eq(&first, &route(&mut found, &index, "a.b")), "{other}");
        }
        for (number, own) in ["*.*", ">", "a.>", "a.b"].into_iter().enumerate() {
            add(&index, own, 20 + number);
            assert_eq!(route(&mut found, &index, "a.b").plain.len(), 2 + number, "{own}");
        }
    }

    #[test]
    fn what_silent_publishers_hold_is_bounded() {
        let index = Index::default();
        let members: Vec<_> = (0..1_000).map(Arc::new).collect();
        let mut all = Vec::new();
        for (number, member) in members.iter().enumerate() {
            index.insert(key("room", number), member);
            let mut found = Found::default();
            assert_eq!(route(&mut found, &index, "room").plain.len(), number + 1);
            all.push(found);
        }
        // Beside the one here and that of the index.
        let held: usize = members.iter().map(|member| Arc::strong_count(member) - 2).sum();
        let each = MOST_OWN_BYTES / size_of::<usize>();
        // The last is current.
        assert!(held <= each * each + members.len(), "{held}");
        for found in &mut all {
            found.forget_revoked();
        }
        assert_eq!(all.iter().map(|found| found.len()).sum::<usize>(), 1);
    }

    #[test]
    fn who_is_told_of_a_change_finds_it() {
        let index = Index::default();
        let (tell, told) = std::sync::mpsc::channel();
        let (answer, answers) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let index = &index;
            scope.spawn(move || {
                let mut found = Found::default();
                for expected in told {
                    let count = route(&mut found, index, "a.b").plain.len();
                    answer.send((count, expected)).expect("it is heard");
                }
            });
            // Others look for it meanwhile, and keep it.
            let others = [(); 2].map(|()| {
                let (stop, stopped) = std::sync::mpsc::channel::<()>();
                scope.spawn(move || {
                    while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                        route(&mut Found::default(), index, "a.b");
                    }
                });
                stop
            });
            for number in 0..500 {
                add(index, ["a.b", "a.*", ">"][number % 3], number);
                tell.send(number + 1).expect("it listens");
                let (count, expected) = answers.recv().expect("it answers");
                assert_eq!(count, expected);
            }
            drop((tell, others));
        });
    }

    #[test]
    fn who_are_very_many_are_found_kept_and_dropped_piece_by_piece() {
        let (index, mut found) = (Index::default(), Found::default());
        let members: Vec<_> = (0..2 * PIECE).map(Arc::new).collect();
        for (number, member) in members.iter().enumerate() {
            index.insert(key("a", number), member);
        }
        let find = |found: &mut Found<usize>, between: &dyn Fn()| {
            let (reached, _) = found.take(&index, b"a");
            let Reached::Some(mut search) = reached else {
                panic!("they are many");
            };
            loop {
                between();
                if let (Some(route), _) = index.search_on(&mut search) {
                    found.put_back(&index, Reached::All(Arc::clone(&route)));
                    break route;
                }
            }
        };
        // Others come and go meanwhile: what was found may not be all of them.
        let first = find(&mut found, &|| add(&index, "b", usize::MAX));
        assert!(first.plain.len() == 2 * PIECE && !first.is_current());
        let second = find(&mut found, &|| {});
        assert!(Arc::ptr_eq(&second, &route(&mut found, &index, "a")));
        found.keep(&index, first);
        drop(second);
        let to_drop = || index.routes().bin.iter().map(|route| route.len()).sum::<usize>();
        assert_eq!(to_drop(), 2 * PIECE);
        // The other list comes to it, and each change drops a piece.
        for left in (0..4).rev() {
            index.remove([key("a", 0)].into_iter());
            assert_eq!(to_drop(), left * PIECE);
        }
        assert!(members[1..].iter().all(|member| Arc::strong_count(member) == 2));
    }

    #[test]
    fn an_invalid_subject_goes_to_nobody() {
        let (index, mut found) = (Index::default(), Found::default());
        add(&index, ">", 1);
        add(&index, "a.*", 2);
        for subject in ["", ".", "a.", ".a", "a..b"] {
            assert!(route(&mut found, &index, subject).plain.is_empty(), "{subject:?}");
        }
        // As it is written, a wildcard is a token that only wildcards match.
        assert_eq!(route(&mut found, &index, "a.*").plain.len(), 2);
        assert_eq!(route(&mut found, &index, "b.>").plain.len(), 1);
    }

    #[test]
    fn a_subject_of_very_many_tokens_is_looked_up_each_time() {
        let (index, mut found) = (Index::default(), Found::default());
        let subject = ["a"; subject::MOST_TOKENS + 1].join(".");
        for number in 1..3 {
            add(&index, ">", number);
            assert_eq!(route(&mut found, &index, &subject).plain.len(), number);
        }
        let routes = index.routes();
        assert!(routes.by_subject.is_empty() && routes.order.is_empty());
    }

    #[test]
    fn what_the_index_keeps_is_bounded() {
        let (index, mut found) = (Index::default(), Found::default());
        add(&index, ">", 1);
        let first = route(&mut found, &index, "first");
        let known = |index: &Index<usize>| {
            let mut known = Vec::new();
            let _ = index.routes().by_subject.take_matches(b">", &mut known);
            known
        };
        for subject in 0..MOST_ROUTES {
            route(&mut found, &index, &subject.to_string());
        }
        assert!(!first.is_current(), "its turn has come");
        {
            let routes = index.routes();
            let bytes: usize = routes
                .order
                .iter()
                .filter_map(Weak::upgrade)
                .map(|it| it.bytes)
                .sum();
            assert_eq!((routes.order.len(), routes.bytes), (MOST_ROUTES, bytes));
        }
        assert_eq!(known(&index).len(), MOST_ROUTES);
        // Long before there are so many of long subjects.
        let index = Index::default();
        add(&index, ">", 1);
        let long = "x".repeat(MOST_BYTES / 64);
        for subject in 0..100u32 {
            assert!(route(&mut found, &index, &format!("{subject}{long}")).is_current());
            assert!(index.routes().bytes <= MOST_BYTES);
        }
        // Each has its subject and its head.
        assert_eq!(known(&index).len(), 31);
    }
}
