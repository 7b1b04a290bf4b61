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
//! which each joins, speaks once and listens would cost a list of all for each. Where so many are subscribed that they
//! are not [found](super::search) in one piece, nothing is kept.
//!
//! No call takes longer than a few milliseconds, but to take out very many at once. Each says how long it took, in
//! deliveries, so that whoever makes many of them can let others have their turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use super::search::{PIECE, Place, Search};
use super::subject;
use super::tree::Tree;

/// The index keeps no more routes than this,
const MOST_ROUTES: usize = 16 * 1024;
/// nor more bytes of them, unless a single one has more.
const MOST_BYTES: usize = 16 << 20;
/// A publisher keeps so many routes,
const MOST_OWN: usize = 8;
/// and itself holds those of no more bytes each.
const MOST_OWN_BYTES: usize = 512;
/// As many subscriptions end before others may look in between,
const MOST_AT_ONCE: usize = 256;
/// and not many more, where revoking routes has come to as many nodes of their tree:
const MOST_NODES: usize = 16 * 1024;
/// coming to so many takes as long as one delivery.
const NODES_IN_A_DELIVERY: usize = 2;

/// What is subscribed to a subject.
pub(super) trait Subscriber {
    /// Whether messages of a subject begin with the same where they come.
    fn is_alike(&self, other: &Self) -> bool;

    /// What that is.
    fn head(&self, subject: &[u8]) -> Box<[u8]>;
}

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
    places: RwLock<Tree<Place<S>>>,
    /// Locked alone, or after `places`. While these may be read, none is wrong.
    routes: Mutex<Routes<S>>,
}

/// Who gets the messages of a subject: all of `plain`, and one of each queue.
#[derive(Debug)]
pub(super) struct Route<S> {
    pub plain: Vec<Arc<S>>,
    pub queues: Vec<Vec<Arc<S>>>,
    /// What messages [begin with](Subscriber::head), if that is the same for all of `plain`, and there are no queues.
    pub head: Option<Box<[u8]>>,
    pub subject: Box<[u8]>,
    /// Its own, more or less: not those of its subscriptions.
    bytes: usize,
    is_current: AtomicBool,
}

/// Whom a message goes to, as far as that is known.
#[derive(Debug)]
pub(super) enum Reached<S> {
    /// All of them.
    All(Arc<Route<S>>),
    /// The first of many, or the next.
    Some(Box<Search<S>>),
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
        Self {
            places: RwLock::default(),
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
            for key in keys.by_ref().take(MOST_AT_ONCE) {
                places.change(key.subject, |place| change(place, key));
                nodes += routes.revoke(key.subject);
                work += 1;
                if nodes > MOST_NODES {
                    break;
                }
            }
            let bin = routes.take_from_bin();
            drop((places, routes));
            work += nodes / NODES_IN_A_DELIVERY + work_to_drop(&bin);
        }
        work
    }

    /// Whom a message of this subject goes to, and how long it took to know.
    #[cold]
    fn reach(&self, subject: &[u8]) -> (Reached<S>, usize) {
        let known = self.routes().by_subject.get(subject).map(Arc::clone);
        known.map_or_else(|| self.look_up(subject), |route| (Reached::All(route), 0))
    }

    fn look_up(&self, subject: &[u8]) -> (Reached<S>, usize) {
        let mut search = Search::new(subject);
        if subject::tokens(subject).any(<[u8]>::is_empty) {
            // Nobody can subscribe to an invalid one, and wildcards do not stand for nothing.
            return (Reached::All(Arc::new(search.into())), 0);
        }
        // Until what is found is kept, nothing changes.
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let work = search.go_on(&places, PIECE);
        if !search.is_over() {
            return (Reached::Some(Box::new(search)), work);
        }
        let route = Arc::new(Route::from(search));
        if subject::tokens(subject).count() > subject::MOST_TOKENS {
            // For this message alone: nobody would find it to revoke it.
            route.revoke();
            return (Reached::All(route), work);
        }
        let (kept, bin) = {
            let mut routes = self.routes();
            (routes.keep(route), routes.take_from_bin())
        };
        drop(places);
        (Reached::All(kept), work + work_to_drop(&bin))
    }

    /// Finds more of those who get a message.
    pub fn search_on(&self, search: &mut Search<S>) -> usize {
        search.go_on(&self.places.read().unwrap_or_else(PoisonError::into_inner), PIECE)
    }

    fn routes(&self) -> MutexGuard<'_, Routes<S>> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long it takes to drop these, in deliveries: behind the locks.
fn work_to_drop<S>(routes: &[Arc<Route<S>>]) -> usize {
    routes.iter().map(|route| 1 + route.len()).sum::<usize>() / NODES_IN_A_DELIVERY
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

    /// What may be dropped at once: others do not wait for the rest.
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

impl<S> Route<S> {
    /// How many subscriptions it has.
    fn len(&self) -> usize {
        self.plain.len() + self.queues.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether a message of its subject goes there still.
    #[inline]
    pub fn is_current(&self) -> bool {
        // Acquire: pairs with `revoke`.
        self.is_current.load(Ordering::Acquire)
    }

    fn revoke(&self) {
        // Release: whoever was told of the change by the one who made it sees it revoked, and looks anew.
        self.is_current.store(false, Ordering::Release);
    }
}

/// Of a search that is over.
impl<S: Subscriber> From<Search<S>> for Route<S> {
    fn from(search: Search<S>) -> Self {
        let Search {
            subject,
            plain,
            queues,
            ..
        } = search;
        let first = plain.first().filter(|_| queues.is_empty());
        let common = first.filter(|first| plain.iter().all(|other| other.is_alike(first)));
        let head = common.map(|subscription| subscription.head(&subject));
        let mut route = Self {
            head,
            plain,
            queues,
            bytes: size_of::<Self>() + subject.len(),
            subject,
            is_current: AtomicBool::new(true),
        };
        let head_bytes = route.head.as_ref().map_or(0, |head| head.len());
        route.bytes += head_bytes + route.len() * size_of::<Arc<S>>();
        route
    }
}

impl<S> Reached<S> {
    /// Who gets the message, as far as that is known now: all of the first, and one of each of the others.
    #[inline]
    pub fn known(&self) -> (&[Arc<S>], &[Vec<Arc<S>>]) {
        match self {
            Self::All(route) => (&route.plain, &route.queues),
            Self::Some(search) => (&search.plain, &search.queues),
        }
    }

    /// Whether nobody does.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::All(route) if route.len() == 0)
    }
}

/// What one publisher knows: the routes of the subjects that it used last, that one at the end.
#[derive(Debug)]
pub(super) struct Found<S>(Vec<Known<S>>);

#[derive(Debug)]
enum Known<S> {
    Held(Arc<Route<S>>),
    /// By its subject, as long as the index keeps it.
    Named(Box<[u8]>, Weak<Route<S>>),
}

impl<S> Default for Found<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Subscriber> Found<S> {
    /// Whom a message of this subject goes to, and how long it took to know. To be [given back](Self::put_back) then.
    #[inline]
    pub fn take(&mut self, index: &Index<S>, subject: &[u8]) -> (Reached<S>, usize) {
        let place = self.0.iter().rposition(|known| known.subject() == subject);
        let known = place.and_then(|place| self.0.remove(place).route());
        known.map_or_else(|| index.reach(subject), |route| (Reached::All(route), 0))
    }

    /// Keeps what was taken, if it can be.
    #[inline]
    pub fn put_back(&mut self, reached: Reached<S>) {
        if let Reached::All(route) = reached {
            self.keep(route);
        }
    }

    /// Keeps a route that was taken.
    #[inline]
    pub fn keep(&mut self, route: Arc<Route<S>>) {
        if self.0.len() == MOST_OWN {
            self.0.remove(0);
        }
        self.0.push(match route.bytes <= MOST_OWN_BYTES {
            true => Known::Held(route),
            false => Known::Named(route.subject.clone(), Arc::downgrade(&route)),
        });
    }

    /// Lets go of what is held in vain.
    pub fn forget_revoked(&mut self) {
        self.0.retain(|known| match known {
            Known::Held(route) => route.is_current(),
            Known::Named(_, route) => route.strong_count() > 0,
        });
    }
}

impl<S> Known<S> {
    #[inline]
    fn subject(&self) -> &[u8] {
        match self {
            Self::Held(route) => &route.subject,
            Self::Named(subject, _) => subject,
        }
    }

    /// If it is current.
    #[inline]
    fn route(self) -> Option<Arc<Route<S>>> {
        let route = match self {
            Self::Held(route) => Some(route),
            Self::Named(_, route) => route.upgrade(),
        };
        route.filter(|route| route.is_current())
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
        found.keep(Arc::clone(&route));
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
            prop_assert!(index.places.read().expect("nobody panicked").is_empty());
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
        assert_eq!(found.0.len(), MOST_OWN);
        assert!(Arc::ptr_eq(&first, &route(&mut found, &index, "a")));
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
        assert_eq!(all.iter().map(|found| found.0.len()).sum::<usize>(), 1);
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
