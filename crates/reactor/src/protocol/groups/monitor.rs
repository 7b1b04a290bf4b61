//! What can be seen of it from outside, at any time and from any thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::broker::Broker;
use super::connect::{IMPLEMENTATION, VERSION};
use super::figures::{ClientFigures, ClosedFigures, ServerFigures, SubscriptionFigures};
use super::options::{Access, Options};

/// Reads the figures of a server's clients and of their messages. Clones read the same.
///
/// It holds up no client for longer than it takes to count its subscriptions. What the server as a whole counts, slow
/// clients too, is in its [`Meter`](crate::Meter).
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Broker>);

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
        clients.iter().map(|client| client.figures(now)).collect()
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
