//! What one publisher keeps of what it has found.

use std::sync::{Arc, Weak};

use super::index::Index;
use super::route::{Reached, Route, Subscriber};

/// So many routes,
pub(super) const MOST_OWN: usize = 8;
/// and itself holds those of no more bytes each.
pub(super) const MOST_OWN_BYTES: usize = 512;

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
    pub fn put_back(&mut self, index: &Index<S>, reached: Reached<S>) {
        if let Reached::All(route) = reached {
            self.keep(index, route);
        }
    }

    /// Keeps a route that was taken.
    #[inline]
    pub fn keep(&mut self, index: &Index<S>, route: Arc<Route<S>>) {
        if self.0.len() == MOST_OWN {
            self.0.remove(0);
        }
        self.0.push(match route.bytes <= MOST_OWN_BYTES {
            true => Known::Held(route),
            false => {
                let named = Known::Named(route.subject.clone(), Arc::downgrade(&route));
                index.take_back(route);
                named
            }
        });
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
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
