//! One helper, as its caller sees it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::{SendFlags, send};

use super::frame::{Inbox, ROOM, Received};
use super::helper::MARKER;

/// How long a program may take to call `helper`: one that never does must not hold the call up.
const STARTING: Duration = Duration::from_secs(30);

/// What to start, and how to treat it.
pub(super) struct Program {
    pub(super) path: Option<PathBuf>,
    pub(super) processor: &'static str,
    pub(super) largest: usize,
    pub(super) time_limit: Option<Duration>,
}

/// An object in the hands of a helper.
pub(super) struct Job<O> {
    pub(super) index: usize,
    pub(super) object: O,
    pub(super) sent_ns: u64,
}

pub(super) enum State<O> {
    /// It has not said yet that it is ready.
    Starting,
    Idle,
    AtWork(Job<O>),
}

/// A helper process. Dropped, it is killed and reaped.
pub(super) struct Helper<O> {
    child: Child,
    channel: UnixStream,
    inbox: Inbox,
    /// What has not been sent yet, and from where.
    outbox: Vec<u8>,
    sent: usize,
    pub(super) state: State<O>,
    /// It holds a permit, from a claim to the next.
    pub(super) held: bool,
    /// When it must be ready, or have answered.
    pub(super) due: Option<Instant>,
}

impl<O> Helper<O> {
    pub(super) fn start(program: &Program) -> io::Result<Self> {
        let path = match &program.path {
            Some(path) => path.clone(),
            None => this_program()?,
        };
        let (near, far) = UnixStream::pair()?;
        near.set_nonblocking(true)?;
        let arguments: [OsString; 4] = [
            MARKER.into(),
            program.processor.into(),
            program.largest.to_string().into(),
            std::process::id().to_string().into(),
        ];
        let child = Command::new(path)
            .args(arguments)
            .stdin(OwnedFd::from(far))
            // Ctrl-C is for the caller, which lets helpers end in peace.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            child,
            channel: near,
            inbox: Inbox::new(program.largest.max(ROOM)),
            outbox: Vec::new(),
            sent: 0,
            state: State::Starting,
            held: false,
            due: Instant::now().checked_add(STARTING),
        })
    }

    pub(super) fn at_work(&self) -> bool {
        matches!(self.state, State::AtWork(_))
    }

    /// Gives it an object, encoded as `frame`. Does not block.
    pub(super) fn give(&mut self, job: Job<O>, frame: Vec<u8>, time_limit: Option<Duration>) {
        self.state = State::AtWork(job);
        self.due = time_limit.and_then(|limit| Instant::now().checked_add(limit));
        self.outbox = frame;
        self.sent = 0;
        self.send();
    }

    /// Sends as much as the channel takes. That the other end is gone is seen when receiving.
    pub(super) fn send(&mut self) {
        while self.sent < self.outbox.len() {
            // Without a signal: the program may have given SIGPIPE its deadly meaning back.
            match send(&self.channel, &self.outbox[self.sent..], SendFlags::NOSIGNAL) {
                Ok(n) => self.sent += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => break,
            }
        }
        self.outbox = Vec::new();
        self.sent = 0;
    }

    pub(super) fn receive(&mut self) -> Received {
        self.inbox.receive(&mut self.channel)
    }

    pub(super) fn channel(&self) -> impl AsFd + '_ {
        &self.channel
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.outbox.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        }
    }

    /// Tells it that there is nothing more.
    pub(super) fn dismiss(&self) {
        // It fails only if the helper is gone already.
        let _ = self.channel.shutdown(std::net::Shutdown::Write);
    }

    /// Ends it, if it has not ended, and says how it did.
    pub(super) fn end(&mut self) -> Option<ExitStatus> {
        // One that is ending by itself keeps its own status: it was set before the channel closed.
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl<O> Drop for Helper<O> {
    fn drop(&mut self) {
        self.end();
    }
}

/// The file that this process runs: also when another one has taken its place since.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn this_program() -> io::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}
