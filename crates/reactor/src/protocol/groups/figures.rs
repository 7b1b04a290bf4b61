//! The figures that can be seen from outside: of the server, of its clients and of their subscriptions.

use std::net::SocketAddr;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use crate::id::ConnectionId;

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
