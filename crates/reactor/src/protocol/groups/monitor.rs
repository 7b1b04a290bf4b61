//! What can be seen of it from outside, at any time and from any thread.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::broker::{Broker, Client};
use super::connect::{IMPLEMENTATION, VERSION};
use super::options::{Access, Options};
use crate::id::ConnectionId;

/// Reads the figures of a server's clients and of their messages. Clones read the same.
///
/// It holds up no client for longer than it takes to count its subscriptions. What the server as a whole counts, slow
/// clients too, is in its [`Meter`](crate::Meter).
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Broker>);

/// Messages and their bytes: headers and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many messages.
    pub messages: u64,
    /// Of how many bytes together.
    pub bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// Figures of all clients together.
#[derive(Clone, Debug)]
pub struct ServerFigures {
    /// The version of the NATS server whose core protocol this is.
    pub version: &'static str,
    /// The server's own name and version.
    pub implementation: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether clients must say who they are.
    pub auth_required: bool,
    /// Clients that are there.
    pub clients: usize,
    /// Clients until now.
    pub clients_ever: u64,
    /// Subscriptions of all clients.
    pub subscriptions: usize,
    /// How many were not allowed to connect.
    pub violations: u64,
    /// What clients have published.
    pub published: Traffic,
    /// What was sent to clients: each message once for each who got it.
    pub delivered: Traffic,
}

/// Figures of one client.
#[derive(Clone, Debug)]
pub struct ClientFigures {
    /// Its number among all that ever connected, from 1.
    pub number: u64,
    /// Its connection.
    pub id: ConnectionId,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// What it calls itself.
    pub name: String,
    /// The language that it is written in.
    pub lang: String,
    /// The version of its library.
    pub version: String,
    /// As whom it has connected.
    pub user: String,
    /// How many subscriptions it has.
    pub subscriptions: usize,
    /// What it has published.
    pub published: Traffic,
    /// What was sent to it.
    pub delivered: Traffic,
    /// Since when it is there.
    pub since: Instant,
    /// When it last published, subscribed or was sent a message. That one was sent is only seen when these figures are
    /// asked for, and with each keep-alive: then it counts as sent just now.
    pub active: Instant,
    /// How long it took to answer, when it was greeted or last asked whether it is there.
    pub round_trip: Option<Duration>,
}

/// Figures of a client that is gone.
#[derive(Clone, Debug)]
pub struct ClosedFigures {
    /// As it was at its end, with as many subscriptions as it had then.
    pub client: ClientFigures,
    /// When it went.
    pub stopped: Instant,
    /// Why, in the words of the NATS server.
    pub reason: &'static str,
}

/// Figures of one subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionFigures {
    /// What it is for.
    pub subject: String,
    /// The queue that it is in.
    pub queue: Option<String>,
    /// The client's own name for it.
    pub sid: String,
    /// What it has got.
    pub delivered: Traffic,
    /// After how many messages it is over.
    pub most: Option<u64>,
}

impl Monitor {
    pub(super) fn new(broker: Arc<Broker>) -> Self {
        Self(broker)
    }

    /// How the server is set now.
    pub fn options(&self) -> Arc<Options> {
        self.0.options()
    }

    /// All clients together.
    pub fn server(&self) -> ServerFigures {
        let (mut published, mut delivered) = self.0.gone();
        let clients = self.0.clients();
        let mut subscriptions = 0;
        for client in &clients {
            published += client.published();
            delivered += client.received();
            subscriptions += client.subscriptions();
        }
        ServerFigures {
            version: VERSION,
            implementation: IMPLEMENTATION,
            address: self.0.address(),
            auth_required: self.0.options().access != Access::Everyone,
            clients: clients.len(),
            clients_ever: self.0.clients_ever(),
            subscriptions,
            violations: self.0.violations.load(Relaxed),
            published,
            delivered,
        }
    }

    /// Each client as it is `now`, in the order in which they came.
    pub fn clients(&self, now: Instant) -> Vec<ClientFigures> {
        let clients = self.0.clients();
        clients.iter().map(|client| figures(client, now)).collect()
    }

    /// The last clients that are gone, [as many as are kept](Options::max_closed_clients), in the order in which they
    /// went. One whose session panicked is not among them.
    pub fn closed(&self) -> Vec<Arc<ClosedFigures>> {
        self.0.closed()
    }

    /// The subscriptions of the client with this number, by their own names; none if it is gone.
    pub fn subscriptions(&self, number: u64) -> Vec<SubscriptionFigures> {
        let client = self.0.client_numbered(number);
        let mut all = client.map_or_else(Vec::new, |client| {
            client.each_subscription(|subscription| SubscriptionFigures {
                subject: text(&subscription.subject),
                queue: subscription.queue.as_deref().map(text),
                sid: text(&subscription.sid),
                delivered: subscription.traffic(),
                most: subscription.most(),
            })
        });
        all.sort_by(|a, b| a.sid.cmp(&b.sid));
        all
    }
}

pub(super) fn figures(client: &Client, now: Instant) -> ClientFigures {
    let (published, delivered, subscriptions) =
        (client.published(), client.received(), client.subscriptions());
    client.times.notice(delivered.messages, now);
    let info = client.info();
    ClientFigures {
        number: client.number,
        id: client.id,
        address: client.address.get().copied(),
        name: info.name.clone(),
        lang: info.lang.clone(),
        version: info.version.clone(),
        user: info.user.clone(),
        subscriptions,
        published,
        delivered,
        since: client.times.opened(now),
        active: client.times.active(now),
        round_trip: client.times.round_trip(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
