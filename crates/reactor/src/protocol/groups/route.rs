//! Whom the messages of a subject go to, once that was found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::search::Search;

/// What is subscribed to a subject.
pub(super) trait Subscriber {
    /// Whether messages of a subject begin with the same where they come.
    fn is_alike(&self, other: &Self) -> bool;

    /// What that is.
    fn head(&self, subject: &[u8]) -> Box<[u8]>;
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
    pub bytes: usize,
    is_current: AtomicBool,
}

/// Whom a message goes to, as far as that is known.
#[derive(Debug)]
pub(super) enum Reached<S> {
    /// All of them.
    All(Arc<Route<S>>),
    /// The first of many.
    Some(Box<Search<S>>),
}

impl<S> Route<S> {
    /// How many subscriptions it has.
    pub fn len(&self) -> usize {
        self.plain.len() + self.queues.iter().map(Vec::len).sum::<usize>()
    }

    /// Forgets so many.
    pub fn drop_some(&mut self, most: usize) {
        let mut left = most;
        while left > 0
            && let Some(list) = self
                .queues
                .last_mut()
                .or(Some(&mut self.plain).filter(|it| !it.is_empty()))
        {
            let rest = list.len().saturating_sub(left);
            left -= list.len() - rest;
            list.truncate(rest);
            self.queues.pop_if(|queue| queue.is_empty());
        }
    }

    /// Whether a message of its subject goes there still.
    #[inline]
    pub fn is_current(&self) -> bool {
        // Acquire: pairs with `revoke`.
        self.is_current.load(Ordering::Acquire)
    }

    pub fn revoke(&self) {
        // Release: whoever was told of the change by the one who made it sees it revoked, and looks anew.
        self.is_current.store(false, Ordering::Release);
    }
}

impl<S: Subscriber> Route<S> {
    /// What a search has found.
    pub fn of(search: &mut Search<S>) -> Self {
        let plain = std::mem::take(&mut search.plain);
        let queues = std::mem::take(&mut search.queues);
        let first = plain.first().filter(|_| queues.is_empty());
        let common = first.filter(|first| plain.iter().all(|other| other.is_alike(first)));
        let head = common.map(|subscription| subscription.head(&search.subject));
        let mut route = Self {
            head,
            plain,
            queues,
            subject: search.subject.clone(),
            bytes: size_of::<Self>() + search.subject.len(),
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
            Self::Some(search) => (&search.plain, &[]),
        }
    }

    /// Whether nobody does.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::All(route) if route.len() == 0)
    }
}
