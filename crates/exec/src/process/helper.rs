//! The helper: this program started anew, which takes objects from its channel until that is closed.

use std::any::Any;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::frame::{Answer, ROOM, Unsendable, decode, encode, read};

/// The first argument of a helper. An environment variable would be inherited by what a processor starts.
pub(super) const MARKER: &str = "--threadgauge-exec-helper";
/// Of a panic's message, and of the reason why something cannot be encoded, so many characters are told.
const TOLD: usize = ROOM / 8;
/// The status of a helper after a panic, as of any program.
const PANICKED: i32 = 101;

/// Set in a helper that serves.
static SERVING: AtomicBool = AtomicBool::new(false);

/// A function that helpers can run, by its name.
///
/// Make it a `static`, and pass it to [`helper`] and to [`Processes::for_each`](super::Processes::for_each).
#[derive(Clone, Copy, Debug)]
pub struct Processor<O, R> {
    name: &'static str,
    run: fn(O) -> R,
}

impl<O, R> Processor<O, R> {
    /// The name must be unique in the program.
    #[must_use]
    pub const fn new(name: &'static str, run: fn(O) -> R) -> Self {
        Self { name, run }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A [`Processor`] of any type. It is sealed.
pub trait Registered: sealed::Serve {}

mod sealed {
    pub trait Serve {
        fn name(&self) -> &'static str;
        /// Serves until the channel is closed.
        fn serve(&self, channel: std::os::unix::net::UnixStream, largest: usize) -> std::io::Result<()>;
    }
}

impl<O: DeserializeOwned, R: Serialize> Registered for Processor<O, R> {}

impl<O: DeserializeOwned, R: Serialize> sealed::Serve for Processor<O, R> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn serve(&self, mut channel: UnixStream, largest: usize) -> io::Result<()> {
        answer(&mut channel, &Answer::<()>::Ready, ROOM)?;
        while let Some(content) = read(&mut channel, largest)? {
            let object = match decode(&content) {
                Ok(object) => object,
                Err(why) => {
                    answer(&mut channel, &Answer::<()>::Object(short(&why)), ROOM)?;
                    continue;
                }
            };
            drop(content);
            let started_ns = monotonic_ns();
            match catch_unwind(AssertUnwindSafe(|| (self.run)(object))) {
                Ok(result) => {
                    let done = Answer::Done {
                        started_ns,
                        ended_ns: monotonic_ns(),
                        result,
                    };
                    answer(&mut channel, &done, largest)?;
                }
                Err(panic) => {
                    let message = short(message(&*panic));
                    answer(&mut channel, &Answer::<()>::Panicked(message), ROOM)?;
                    // What a panic leaves in a process is not to meet the next object.
                    exit(PANICKED);
                }
            }
        }
        Ok(())
    }
}

/// In a process that was started as a helper: processes objects and does not return. In any other: returns at once.
///
/// Call it **first thing in `main`**, with all processors of the program: what stands before it runs in each
/// helper too.
///
/// # Panics
///
/// If two processors have the same name.
pub fn helper(processors: &[&dyn Registered]) {
    for (i, processor) in processors.iter().enumerate() {
        assert!(
            processors[..i]
                .iter()
                .all(|other| other.name() != processor.name()),
            "two processors are named {:?}: a helper could not tell them apart",
            processor.name()
        );
    }
    if !is_marked() {
        return;
    }
    SERVING.store(true, Ordering::Relaxed);
    let status = match serve(processors) {
        Ok(()) => 0,
        // The caller is gone, and there is nobody to tell.
        Err(_) => 1,
    };
    exit(status);
}

/// Stops a helper that does not serve before it starts helpers of its own, which would do the same.
pub(super) fn refuse_if_unserved() {
    assert!(
        !is_marked() || SERVING.load(Ordering::Relaxed),
        "this process was started as a helper, but `process::helper` was not called first thing in main"
    );
}

fn is_marked() -> bool {
    env::args_os().nth(1).as_deref() == Some(OsStr::new(MARKER))
}

fn serve(processors: &[&dyn Registered]) -> io::Result<()> {
    // The first two are the program, which may be no text, and the marker.
    let mut arguments = env::args_os().skip(2);
    let mut argument = || {
        arguments
            .next()
            .and_then(|argument| argument.into_string().ok())
            .ok_or_else(|| io::Error::other("a helper is started by its caller, not by hand"))
    };
    let name = argument()?;
    let largest = argument()?.parse().map_err(io::Error::other)?;
    let caller = argument()?.parse().map_err(io::Error::other)?;
    end_with(caller)?;
    let mut channel = channel()?;
    match processors.iter().find(|processor| processor.name() == name) {
        Some(processor) => processor.serve(channel, largest),
        None => answer(&mut channel, &Answer::<()>::Unregistered, ROOM),
    }
}

/// The channel came as standard input. It goes where no processor looks, and standard input is empty from now on.
fn channel() -> io::Result<UnixStream> {
    let channel = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(channel)
}

/// Has the kernel kill this process when its caller ends without a word.
#[cfg(target_os = "linux")]
fn end_with(caller: i32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before.
    if getppid().map(|parent| parent.as_raw_nonzero().get()) == Some(caller) {
        Ok(())
    } else {
        Err(io::Error::other("the caller is gone"))
    }
}

/// Elsewhere a helper ends when it next looks at its channel.
#[cfg(not(target_os = "linux"))]
fn end_with(_: i32) -> io::Result<()> {
    Ok(())
}

fn answer<R: Serialize>(channel: &mut UnixStream, answer: &Answer<R>, largest: usize) -> io::Result<()> {
    let frame = match encode(answer, largest) {
        Ok(frame) => frame,
        Err(why) => {
            let why = match why {
                Unsendable::Encoding(why) => Answer::<()>::Result(short(&why)),
                Unsendable::TooLarge(bytes) => Answer::TooLarge(bytes),
            };
            encode(&why, ROOM).map_err(|why| io::Error::other(format!("{why:?}")))?
        }
    };
    channel.write_all(&frame)
}

/// The clock that all processes of the machine share, and that [`std::time::Instant`] reads.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a payload that is no text",
    }
}

fn short(text: &str) -> String {
    text.chars().take(TOLD).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_panic_is_told_by_its_text_and_not_at_length() {
        let texts: [(Box<dyn Any + Send>, _); 3] = [
            (Box::new("borrowed"), "borrowed"),
            (Box::new("owned".to_owned()), "owned"),
            (Box::new(7), "a payload that is no text"),
        ];
        for (panic, text) in texts {
            assert_eq!(message(&*panic), text);
        }
        assert_eq!(short("kurz, aber ä"), "kurz, aber ä");
        assert_eq!(short(&"ä".repeat(TOLD + 1)), "ä".repeat(TOLD));
    }

    #[test]
    fn the_clock_is_the_one_of_the_machine() {
        let clock = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let (before, ns, after) = (clock(), monotonic_ns(), clock());
        assert!((before..=after).contains(&Duration::from_nanos(ns)));
    }
}
