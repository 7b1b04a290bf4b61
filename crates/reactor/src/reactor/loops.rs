//! The loops of one server: starting them, and asking all of them.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::balance::Watch;
use super::event_loop::{Mailbox, Reactor};
use super::manager::ReactorManager;
use super::serving_loop::{Acceptors, Loop, LoopsShared, ServingLoop};
use super::tasks::Task;
use crate::error::Error;
use crate::id::ConnectionId;
use crate::listen::Listener;
use crate::options::{Placement, Sends};
use crate::protocol::Protocol;
use crate::ring::JointSends;
use crate::serving::Serving;

/// What the loops wait with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// epoll, which says what can be done.
    Epoll,
    /// io_uring, which says what was done.
    IoUring,
}

/// How long whoever asks waits for all loops.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks all loops how much waits for their clients.
fn query_pending<S>(mailboxes: &[Mailbox<Task<S>>]) -> Vec<(ConnectionId, usize)> {
    let (answer, answers) = channel();
    for mailbox in mailboxes {
        mailbox.post([Task::QueryPending(answer.clone())]);
    }
    drop(answer);
    let until = Instant::now() + PATIENCE;
    let next = || answers.recv_timeout(until.saturating_duration_since(Instant::now()));
    std::iter::from_fn(|| next().ok()).flatten().collect()
}

/// Serves on the loops that `manager` gives handles to: the first runs on this thread, the others on threads of their
/// own. Blocks until the server has stopped and all are done.
///
/// # Errors
///
/// If a loop cannot be made, or cannot go on.
pub(crate) fn serve<P: Protocol>(
    serving: &Serving<P>,
    manager: ReactorManager,
    acceptors: Acceptors,
    kernel: Kernel,
) -> Result<(), Error> {
    let watch = (manager.placement() == Placement::Adaptive).then(|| Watch::new(manager.reactors()));
    serve_watched(serving, manager, acceptors, kernel, watch)
}

/// The same, where connections move as `watch` has them.
pub(super) fn serve_watched<P: Protocol>(
    serving: &Serving<P>,
    manager: ReactorManager,
    acceptors: Acceptors,
    kernel: Kernel,
    watch: Option<Watch>,
) -> Result<(), Error> {
    let sends_jointly = kernel == Kernel::IoUring || serving.options.sends == Some(Sends::IoUring);
    let mut reactors = Vec::new();
    for index in 0..manager.reactors() {
        let reactor = match kernel {
            Kernel::Epoll => Reactor::counting(serving.counters.clone(), index),
            Kernel::IoUring => Reactor::completing(serving.counters.clone(), index),
        };
        let reactor = reactor.map_err(Error::io("making an event loop"))?;
        let sends = sends_jointly.then(JointSends::new).transpose();
        reactors.push((reactor, sends.map_err(Error::io("making a ring for sends"))?));
    }
    let mut siblings = Vec::new();
    if acceptors == Acceptors::Each {
        for _ in 1..reactors.len() {
            siblings.push(serving.listener.sibling()?);
        }
    }
    for listener in siblings.iter().chain([&serving.listener]) {
        listener.set_nonblocking(true)?;
    }
    let listener_of = |index: usize| -> Option<&Listener> {
        match index {
            0 => Some(&serving.listener),
            _ => siblings.get(index - 1),
        }
    };
    let shared = LoopsShared::new(
        serving.options.max_connections,
        manager,
        acceptors,
        watch,
        reactors.iter().map(|(reactor, _)| reactor),
    );
    let mailboxes = shared.mailboxes.clone();
    serving.waiting.by(move || query_pending(&mailboxes));
    let run = |index, (reactor, sends): (Loop<P::Session>, Option<JointSends>)| {
        ServingLoop::new(index, serving, &shared, listener_of(index), sends).run(reactor)
    };
    thread::scope(|scope| {
        let mut reactors = reactors.into_iter().enumerate();
        let first = reactors.next();
        let mut threads = Vec::new();
        let mut result = Ok(());
        for (index, reactor) in reactors {
            let name = format!("{}-{index}", shared.manager.role_name(index));
            match thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || run(index, reactor))
            {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    result = Err(Error::io("starting a thread")(error));
                    break;
                }
            }
        }
        serving.counters.block(0).units_created.add(threads.len() as u64);
        match (&result, first) {
            (Ok(()), Some((index, reactor))) => result = run(index, reactor),
            _ => {
                for mailbox in &shared.mailboxes {
                    mailbox.post([Task::Exit]);
                }
            }
        }
        for thread in threads {
            let ended = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(ended);
        }
        result
    })
}
