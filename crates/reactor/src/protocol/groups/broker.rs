//! What the clients of one server share: who is there, and who is subscribed to what.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::connect_json::ClientInfo;
use super::figures::{ClientFigures, ClosedFigures, Traffic};
use super::index::{Index, Key};
use super::options::Options;
use super::route::Subscriber;
use super::subject;
use super::times::Times;
use super::wire::Limits;
use crate::counters::Counter;
use crate::id::ConnectionId;

/// Locks are taken in this order: a client's subscriptions, then the index; the list of clients, then a client's
/// subscriptions. Nobody holds those of two clients.
#[derive(Debug)]
pub(super) struct Broker {
    options: RwLock<Arc<Options>>,
    /// Asked for with each message: they do not change.
    pub limits: Limits,
    pub index: Index<Subscription>,
    listens: OnceLock<SocketAddr>,
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
    /// The last client's number.
    last_client: AtomicU64,
    /// The last subscription's number.
    last_subscription: AtomicU64,
    /// The last message trace's number.
    last_trace: AtomicU64,
    /// How many clients may not connect and were told so.
    pub violations: AtomicU64,
    /// How many clients were given their time to leave.
    leaving: AtomicU32,
    /// Of clients that are gone: from them, and to them.
    gone: Mutex<(Traffic, Traffic)>,
    /// The last of them, in the order in which they went.
    closed: Mutex<VecDeque<Arc<ClosedFigures>>>,
}

/// What others see of a client.
#[derive(Debug)]
pub(super) struct Client {
    pub number: u64,
    pub id: ConnectionId,
    pub address: OnceLock<SocketAddr>,
    /// It understands headers.
    pub headers: AtomicBool,
    /// What it has said of itself.
    pub info: Mutex<ClientInfo>,
    /// When what happened to it.
    pub times: Times,
    /// What it has published; counted by its session alone.
    pub messages: Counter,
    pub bytes: Counter,
    subscriptions: Mutex<Subscriptions>,
}

#[derive(Debug, Default)]
struct Subscriptions {
    by_sid: HashMap<Box<[u8]>, Arc<Subscription>>,
    /// What came by those that are gone.
    gone: Traffic,
    /// How many there were when the client left.
    at_last: usize,
}

/// As many subscriptions of a client that goes are taken away before others have their turn.
const MOST_AT_ONCE: usize = 256;

/// No size of a message.
const UNSET: u64 = u64::MAX;

/// One client's wish for the messages of one subject.
#[derive(Debug)]
pub(super) struct Subscription {
    pub id: ConnectionId,
    pub sid: Box<[u8]>,
    /// Messages sent to it, or one more for each that came too late.
    messages: AtomicU64,
    /// The size of the first; [`UNSET`] before.
    usual_bytes: AtomicU64,
    /// What all had more than as many of the usual size; wraps if it is less. Most messages of a subject have one size,
    /// so that a delivery changes one number, not two.
    unusual_bytes: AtomicU64,
    /// It is over after so many.
    most: AtomicU64,
    pub client: Arc<Client>,
    number: u64,
    pub subject: Box<[u8]>,
    pub queue: Option<Box<[u8]>>,
}

/// Whether a subscription gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// And it is over.
    Last,
    /// It has been over before.
    No,
}

impl Subscription {
    /// Counts a message of so many bytes, unless it is over.
    #[inline]
    pub fn take(&self, bytes: usize) -> Taken {
        self.take_all(1, bytes)
    }

    /// The same for several messages of so many bytes together. It is not over between them: they were said before it
    /// was told to end.
    #[inline]
    pub fn take_all(&self, messages: u32, bytes: usize) -> Taken {
        let (messages, bytes) = (u64::from(messages), bytes as u64);
        // Relaxed, here and below: the numbers say nothing of other memory.
        let before = self.messages.fetch_add(messages, Relaxed);
        let most = self.most.load(Relaxed);
        if before >= most {
            return Taken::No;
        }
        let usual = messages * self.usual_bytes(bytes / messages);
        if usual != bytes {
            self.unusual_bytes.fetch_add(bytes.wrapping_sub(usual), Relaxed);
        }
        match before + messages >= most {
            true => Taken::Last,
            false => Taken::Yes,
        }
    }

    /// The size of the first message, which this one is if there was none.
    #[inline]
    fn usual_bytes(&self, bytes: u64) -> u64 {
        match self.usual_bytes.load(Relaxed) {
            UNSET => {
                let set = self.usual_bytes.compare_exchange(UNSET, bytes, Relaxed, Relaxed);
                set.map_or_else(|earlier| earlier, |_| bytes)
            }
            usual => usual,
        }
    }

    /// What was sent to it. While something is, its bytes may be counted as if it had the usual size.
    pub fn traffic(&self) -> Traffic {
        let messages = self.messages.load(Relaxed).min(self.most.load(Relaxed));
        let usual = match self.usual_bytes.load(Relaxed) {
            UNSET => 0,
            usual => messages.wrapping_mul(usual),
        };
        let bytes = usual.wrapping_add(self.unusual_bytes.load(Relaxed));
        Traffic {
            messages,
            bytes: u64::try_from(bytes.cast_signed()).unwrap_or(0),
        }
    }

    /// It gets nothing more, also of what is on its way to many already. What it has got.
    fn end(&self) -> Traffic {
        let traffic = self.traffic();
        self.most.store(0, Relaxed);
        traffic
    }

    /// Where it is in the index.
    fn key(&self) -> Key<'_> {
        Key {
            subject: &self.subject,
            queue: self.queue.as_deref(),
            number: self.number,
        }
    }

    /// After how many messages it is over, if that was said.
    pub fn most(&self) -> Option<u64> {
        Some(self.most.load(Relaxed)).filter(|&most| most < u64::MAX)
    }
}

impl Subscriber for Subscription {
    fn is_alike(&self, other: &Self) -> bool {
        self.sid == other.sid
    }

    fn head(&self, subject: &[u8]) -> Box<[u8]> {
        [b"MSG ", subject, b" ", &self.sid, b" "].concat().into()
    }
}

/// What came of a wish to subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscribed {
    /// So long it took, in deliveries.
    Done(usize),
    /// The client has one of this name, which stays.
    Before,
    /// It has too many.
    TooMany,
    /// There is no such subject.
    Invalid,
}

impl Default for Broker {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Broker {
    pub fn new(options: Options) -> Self {
        Self {
            limits: options.limits(),
            options: RwLock::new(Arc::new(options)),
            index: Index::default(),
            listens: OnceLock::new(),
            clients: Mutex::default(),
            last_client: AtomicU64::new(0),
            last_subscription: AtomicU64::new(0),
            last_trace: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            leaving: AtomicU32::new(0),
            gone: Mutex::default(),
            closed: Mutex::default(),
        }
    }

    /// As they are now.
    pub fn options(&self) -> Arc<Options> {
        Arc::clone(&self.options.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes those that may change.
    pub fn change(&self, change: impl FnOnce(&mut Options)) {
        let mut options = self.options.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Options::clone(&options);
        change(&mut changed);
        *options = Arc::new(options.with_changes(changed));
    }

    /// The server listens there. The first address is the one that clients are told.
    pub fn listens(&self, address: SocketAddr) {
        let _ = self.listens.set(address);
    }

    /// Where the server listens, as far as it knows.
    pub fn address(&self) -> SocketAddr {
        let nowhere = || SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        self.listens.get().copied().unwrap_or_else(nowhere)
    }

    /// The number of one more message trace, from 1 on.
    pub fn next_trace(&self) -> u64 {
        self.last_trace.fetch_add(1, Relaxed) + 1
    }

    // Clients.

    /// A new client. It is seen by others once it has entered.
    pub fn client(&self, id: ConnectionId) -> Arc<Client> {
        Arc::new(Client {
            number: self.last_client.fetch_add(1, Relaxed) + 1,
            id,
            address: OnceLock::new(),
            headers: AtomicBool::new(false),
            info: Mutex::default(),
            times: Times::default(),
            messages: Counter::default(),
            bytes: Counter::default(),
            subscriptions: Mutex::default(),
        })
    }

    /// Whether there was room for it.
    pub fn enter(&self, client: &Arc<Client>) -> bool {
        let mut clients = locked(&self.clients);
        let fits = self
            .options()
            .max_connections
            .is_none_or(|most| clients.len() < most);
        if fits {
            clients.insert(client.number, Arc::clone(client));
        }
        fits
    }

    /// A client goes, and its subscriptions with it; where they are many, some of them, and the next when this is
    /// called again: then it says how long it took, in deliveries.
    pub fn leave(&self, client: &Client) -> Option<usize> {
        let (some, are_all) = {
            let mut own = locked(&client.subscriptions);
            own.at_last = own.at_last.max(own.by_sid.len());
            let some = own.by_sid.extract_if(|_, _| true).take(MOST_AT_ONCE);
            let some: Vec<_> = some.map(|(_, subscription)| subscription).collect();
            for subscription in &some {
                own.gone += subscription.end();
            }
            (some, own.by_sid.is_empty())
        };
        let work = self.index.remove(some.iter().map(|it| it.key()));
        if !are_all {
            return Some(work);
        }
        if locked(&self.clients).remove(&client.number).is_some() {
            let received = locked(&client.subscriptions).gone;
            let mut gone = locked(&self.gone);
            gone.0 += client.published();
            gone.1 += received;
        }
        None
    }

    /// A client's connection is gone, for this reason, and so are its subscriptions.
    pub fn close(&self, client: &Client, reason: &'static str, now: Instant) {
        let subscriptions = locked(&client.subscriptions).at_last;
        let client = ClientFigures {
            subscriptions,
            ..client.figures(now)
        };
        let figures = Arc::new(ClosedFigures {
            client,
            stopped: now,
            reason,
        });
        let mut closed = locked(&self.closed);
        closed.push_back(figures);
        if closed.len() > self.options().max_closed_clients {
            closed.pop_front();
        }
    }

    /// How long one more client may stay, now that the server stops.
    pub fn stay(&self) -> Duration {
        let place = self.leaving.fetch_add(1, Relaxed);
        let of = u32::try_from(locked(&self.clients).len()).unwrap_or(u32::MAX);
        self.options().stay(place, of)
    }

    /// All clients that are there, in the order in which they came.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        locked(&self.clients).values().cloned().collect()
    }

    /// The client with this number, if it is there.
    pub fn client_numbered(&self, number: u64) -> Option<Arc<Client>> {
        locked(&self.clients).get(&number).cloned()
    }

    /// The last that are gone, in the order in which they went.
    pub fn closed(&self) -> Vec<Arc<ClosedFigures>> {
        locked(&self.closed).iter().cloned().collect()
    }

    /// How many clients there were until now.
    pub fn clients_ever(&self) -> u64 {
        self.last_client.load(Relaxed)
    }

    /// What clients that are gone have published, and got.
    pub fn gone(&self) -> (Traffic, Traffic) {
        *locked(&self.gone)
    }

    // Subscriptions.

    /// Subscribes a client to a subject.
    pub fn subscribe(
        &self,
        client: &Arc<Client>,
        subject: &[u8],
        queue: Option<&[u8]>,
        sid: &[u8],
    ) -> Subscribed {
        let mut own = locked(&client.subscriptions);
        if own.by_sid.len() >= self.options().max_subscriptions {
            return Subscribed::TooMany;
        }
        if own.by_sid.contains_key(sid) {
            return Subscribed::Before;
        }
        if subject::kind(subject).is_none() {
            return Subscribed::Invalid;
        }
        let subscription = Arc::new(Subscription {
            id: client.id,
            sid: sid.into(),
            messages: AtomicU64::new(0),
            usual_bytes: AtomicU64::new(UNSET),
            unusual_bytes: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            client: Arc::clone(client),
            number: self.last_subscription.fetch_add(1, Relaxed),
            subject: subject.into(),
            queue: queue.map(Into::into),
        });
        own.by_sid.insert(sid.into(), Arc::clone(&subscription));
        Subscribed::Done(self.index.insert(subscription.key(), &subscription))
    }

    /// Ends a subscription: at once, or when it has got so many messages since it began. How long that took, in
    /// deliveries.
    pub fn unsubscribe(&self, client: &Client, sid: &[u8], after: Option<u64>) -> usize {
        let mut own = locked(&client.subscriptions);
        let Some(subscription) = own.by_sid.get(sid) else {
            return 0;
        };
        if let Some(after) = after.filter(|&after| after > subscription.messages.load(Relaxed)) {
            subscription.most.store(after, Relaxed);
            return 0;
        }
        let subscription = Arc::clone(subscription);
        self.remove(&mut own, &subscription)
    }

    /// A subscription has got all that it was to get. How long it took to end it, in deliveries.
    pub fn over(&self, subscription: &Subscription) -> usize {
        self.remove(&mut locked(&subscription.client.subscriptions), subscription)
    }

    fn remove(&self, own: &mut Subscriptions, subscription: &Subscription) -> usize {
        // Somebody else may have been faster, and the client may have used the name again.
        let is_there = own
            .by_sid
            .get(&subscription.sid)
            .is_some_and(|found| found.number == subscription.number);
        if !is_there {
            return 0;
        }
        own.by_sid.remove(&subscription.sid);
        own.gone += subscription.end();
        self.index.remove([subscription.key()].into_iter())
    }
}

impl Client {
    /// What it has published.
    pub fn published(&self) -> Traffic {
        Traffic {
            messages: self.messages.get(),
            bytes: self.bytes.get(),
        }
    }

    /// What was sent to it.
    pub fn received(&self) -> Traffic {
        let own = locked(&self.subscriptions);
        let mut received = own.gone;
        for subscription in own.by_sid.values() {
            received += subscription.traffic();
        }
        received
    }

    /// Looks whether something was delivered to it since the last look.
    pub fn notice(&self, now: Instant) {
        self.times.notice(self.received().messages, now);
    }

    /// How many subscriptions it has.
    pub fn subscriptions(&self) -> usize {
        locked(&self.subscriptions).by_sid.len()
    }

    /// Each of its subscriptions, in no order.
    pub fn each_subscription<R>(&self, see: impl FnMut(&Arc<Subscription>) -> R) -> Vec<R> {
        locked(&self.subscriptions).by_sid.values().map(see).collect()
    }

    /// As it is `now`.
    pub fn figures(&self, now: Instant) -> ClientFigures {
        let (published, delivered, subscriptions) = (self.published(), self.received(), self.subscriptions());
        self.times.notice(delivered.messages, now);
        let info = self.info();
        ClientFigures {
            number: self.number,
            id: self.id,
            address: self.address.get().copied(),
            name: info.name.clone(),
            lang: info.lang.clone(),
            version: info.version.clone(),
            user: info.user.clone(),
            subscriptions,
            published,
            delivered,
            since: self.times.opened(now),
            active: self.times.active(now),
            round_trip: self.times.round_trip(),
        }
    }

    /// What it has said of itself.
    pub fn info(&self) -> MutexGuard<'_, ClientInfo> {
        locked(&self.info)
    }
}

/// Nothing that can panic leaves these half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::found::Found;
    use super::super::route::{Reached, Route};
    use super::*;

    fn route_to(broker: &Broker, subject: &[u8]) -> Arc<Route<Subscription>> {
        match Found::default().take(&broker.index, subject).0 {
            Reached::All(route) => route,
            Reached::Some(_) => panic!("they are few"),
        }
    }

    #[test]
    fn a_subscription_is_over_after_what_was_said_also_if_many_send_at_once() {
        let broker = Broker::default();
        let client = broker.client(ConnectionId::new(0, 0, 0));
        assert!(broker.enter(&client));
        assert!(matches!(
            broker.subscribe(&client, b"a", None, b"1"),
            Subscribed::Done(_)
        ));
        assert_eq!(broker.subscribe(&client, b"b", None, b"1"), Subscribed::Before);
        broker.unsubscribe(&client, b"1", Some(1_000));
        let subscription = client.each_subscription(Arc::clone).pop().expect("one");
        let (broker, subscription) = (&broker, &subscription);
        let taken: usize = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(move || {
                        let takes = (0..400).map(|_| subscription.take(5));
                        takes
                            .filter(|&taken| {
                                if taken == Taken::Last {
                                    broker.over(subscription);
                                }
                                taken != Taken::No
                            })
                            .count()
                    })
                })
                .collect();
            takers
                .into_iter()
                .map(|taker| taker.join().expect("it counts"))
                .sum()
        });
        assert_eq!((taken, client.subscriptions()), (1_000, 0));
        let all = Traffic {
            messages: 1_000,
            bytes: 5_000,
        };
        assert_eq!(client.received(), all);
        assert_eq!(broker.leave(&client), None);
        assert_eq!(broker.gone().1, all);
        assert!(broker.clients().is_empty());
    }

    #[test]
    fn options_change_but_for_those_that_clients_were_told() {
        let broker = Broker::default();
        let before = broker.options();
        broker.change(|options| {
            options.max_subscriptions += 1;
            options.max_payload += 1;
            options.max_control_line += 1;
            options.server_name.push('x');
            options.server_id.push('x');
        });
        let now = broker.options();
        assert_eq!(now.max_subscriptions, before.max_subscriptions + 1);
        let stays = |options: &Options| {
            let names = [&options.server_name, &options.server_id].map(String::clone);
            (names, options.max_payload, options.max_control_line)
        };
        assert_eq!(stays(&now), stays(&before));
    }

    #[test]
    fn bytes_are_counted_whatever_the_sizes() {
        let broker = Broker::default();
        let client = broker.client(ConnectionId::new(0, 0, 0));
        broker.subscribe(&client, b"a", None, b"1");
        let subscription = client.each_subscription(Arc::clone).pop().expect("one");
        let mut bytes = 0;
        for (messages, size) in (1..).zip([0, 700, 3, 0, 700]) {
            assert_eq!(subscription.take(size), Taken::Yes);
            bytes += size as u64;
            assert_eq!(subscription.traffic(), Traffic { messages, bytes });
        }
        broker.subscribe(&client, b"a", None, b"2");
        let other = client.each_subscription(Arc::clone);
        let other = other.iter().find(|it| *it.sid == *b"2").expect("the second");
        assert_eq!(other.traffic(), Traffic::default());
        for size in [700, 3] {
            assert_eq!(other.take(size), Taken::Yes);
        }
        let all = Traffic {
            messages: 2,
            bytes: 703,
        };
        assert_eq!(other.traffic(), all);
    }

    #[test]
    fn a_client_that_leaves_disturbs_nobody() {
        let broker = Broker::default();
        let [stays, goes] = [1, 2].map(|slot| broker.client(ConnectionId::new(0, 0, slot)));
        broker.subscribe(&stays, b"room", None, b"1");
        for sid in 0..2 * MOST_AT_ONCE {
            let sid = sid.to_string();
            broker.subscribe(&goes, format!("own.{sid}").as_bytes(), None, sid.as_bytes());
        }
        let [route, own] = [&b"room"[..], b"own.9"].map(|subject| route_to(&broker, subject));
        assert_eq!((route.plain.len(), own.plain.len()), (1, 1));
        assert!(broker.leave(&goes).is_some(), "they are many");
        assert_eq!(broker.leave(&goes), None);
        assert!(route.is_current() && !own.is_current());
        let all = ["room", "own.0", "own.9"].map(|subject| route_to(&broker, subject.as_bytes()).plain.len());
        assert_eq!(all, [1, 0, 0]);
    }

    #[test]
    fn an_end_that_lies_behind_is_now() {
        let broker = Broker::default();
        let client = broker.client(ConnectionId::new(0, 0, 0));
        broker.subscribe(&client, b"a.>", Some(b"q"), b"1");
        let subscription = client.each_subscription(Arc::clone).pop().expect("one");
        assert_eq!(subscription.take(1), Taken::Yes);
        broker.unsubscribe(&client, b"1", Some(1));
        assert_eq!(client.subscriptions(), 0);
        broker.unsubscribe(&client, b"1", None);
        broker.over(&subscription);
    }
}
