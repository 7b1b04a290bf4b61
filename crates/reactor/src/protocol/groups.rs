//! Messages to groups, as core NATS speaks it: any NATS client works unchanged.
//!
//! A subject is a group. Clients subscribe to subjects, with the wildcards `*` and `>`; what is published to a subject
//! goes to all who are subscribed, and to one member of each queue group. Requests are answered on a subject of the
//! asker's own, and who asks nobody is told so. The options of `CONNECT` are understood but those for accounts, which
//! are refused. What is wrong is told in the words of the NATS server.
//!
//! There are no clusters, accounts, JetStream, nkeys or TLS. What is done otherwise than by the NATS server is little:
//! wrong arguments, say, are answered with `Parser Error` before the connection is closed, where it says nothing.
//!
//! Clients that do not take what is sent to them are the server's business: with
//! [`Overflow::Drop`](crate::Overflow::Drop) they are closed, as the NATS server does it.
//!
//! A server that is told to stop can be a [lame duck](Options::lame_duck) first: it tells its clients, serves them on
//! while they go elsewhere, and then closes those that are left one after the other, so that they do not all come to
//! another server at once.
//!
//! ```
//! use threadgauge_reactor::protocol::groups::{Groups, Options};
//! use threadgauge_reactor::testing::Rehearsal;
//!
//! let mut server = Rehearsal::new(Groups::new(Options::default()));
//! let (anna, ben) = (server.connect(), server.connect());
//! server.receive(anna, b"CONNECT {\"verbose\":false}\r\nSUB room.* 1\r\n");
//! server.take_output(anna); // the greeting
//! server.receive(ben, b"PUB room.blue 5\r\nhello\r\n");
//! assert_eq!(server.take_output(anna), b"MSG room.blue 1 5\r\nhello\r\n");
//! ```

mod broker;
mod connect;
mod connect_json;
mod ends;
mod figures;
mod found;
mod index;
mod member;
mod message_trace;
mod monitor;
mod options;
mod route;
mod search;
mod sending;
mod subject;
mod times;
mod tree;
mod wire;

#[cfg(test)]
#[allow(
    dead_code,
    reason = "where `nats-server` answers otherwise is for the tests beside it"
)]
#[path = "../../tests/common/groups_answers.rs"]
mod groups_answers;

use std::net::SocketAddr;
use std::sync::Arc;

use crate::catalogue::About;
use crate::id::ConnectionId;
use crate::protocol::Protocol;
use broker::Broker;

pub use figures::{ClientFigures, ClosedFigures, ServerFigures, SubscriptionFigures, Traffic};
pub use member::Member;
pub use monitor::Monitor;
pub use options::{Access, Options};

pub(crate) const ABOUT: About = About {
    name: "groups",
    summary: "publish and subscribe by subjects, as core NATS speaks it",
};

/// Brings each message to all who are subscribed to its subject.
#[derive(Clone, Debug, Default)]
pub struct Groups(Arc<Broker>);

impl Groups {
    /// With these options.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Broker::new(options)))
    }

    /// With this name and id, and else the defaults: so that what it says is the same each time.
    pub fn named(name: &str) -> Self {
        Self::new(Options {
            server_name: name.to_owned(),
            server_id: name.to_owned(),
            ..Options::default()
        })
    }

    /// Changes options while it serves, from now on and for clients that are there as well, but for who may connect,
    /// which they have said already, and alarms that are set. The server's name and id, `max_payload` and
    /// `max_control_line` stay as they are.
    pub fn change(&self, change: impl FnOnce(&mut Options)) {
        self.0.change(change);
    }

    /// To see from outside what it does.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(Arc::clone(&self.0))
    }
}

impl Protocol for Groups {
    type Session = Member;
    const SHARED: bool = true;
    const LOCATED: bool = true;

    fn open(&self, id: ConnectionId) -> Member {
        Member::new(Arc::clone(&self.0), id)
    }

    fn max_frame(&self) -> usize {
        self.0.limits.frame()
    }

    fn listens(&self, address: SocketAddr) {
        self.0.listens(address);
    }
}
