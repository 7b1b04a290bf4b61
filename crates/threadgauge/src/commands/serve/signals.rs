//! What signals tell a server.
//!
//! SIGINT and SIGTERM stop it, and the second of them ends the process at once. Two more are for `groups`, as for the
//! NATS server: SIGHUP has it read its settings again, SIGUSR2 has it leave as a lame duck; a thread waits for them,
//! which only a protocol has that no forking design serves. Any other server stops by these as well, rather than being
//! killed by them. What was ignored at the start stays so ([`signals`]).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{SigId, flag, low_level};
use threadgauge_reactor::Stop;
use threadgauge_reactor::protocol::groups::{Groups, Options};

use crate::commands::serve::settings::Settings;
use crate::output::{in_one_line, say};
use crate::signals;

/// How long a lame duck stays where nobody has said it: as the NATS server.
const LAME_DUCK: Duration = Duration::from_secs(120);

/// The first of these signals stops the server; the second SIGINT or SIGTERM ends the process at once.
pub fn stop_by_all(stop: &Stop) -> io::Result<()> {
    signals::handle(&[SIGHUP, SIGUSR2], |signal| {
        low_level::pipe::register(signal, stop.trigger()?)
    })?;
    stop_by_two(stop).map(drop)
}

/// What SIGINT and SIGTERM do.
struct Two {
    /// The next of them ends the process at once.
    again: Arc<AtomicBool>,
    /// What is done at a SIGTERM.
    at_term: Vec<SigId>,
}

fn stop_by_two(stop: &Stop) -> io::Result<Two> {
    let again = Arc::new(AtomicBool::new(false));
    let at = |signal| {
        signals::handle(&[signal], |signal| {
            Ok([
                // In this order: what ends it at the second looks before the first is noted.
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&again))?,
                low_level::pipe::register(signal, stop.trigger()?)?,
                flag::register(signal, Arc::clone(&again))?,
            ])
        })
    };
    at(SIGINT)?;
    let at_term = at(SIGTERM)?.concat();
    Ok(Two { again, at_term })
}

impl Two {
    /// From now on SIGTERM does nothing, and SIGINT ends the process at once.
    fn leave(&self) {
        for &id in &self.at_term {
            low_level::unregister(id);
        }
        self.again.store(true, Ordering::Relaxed);
    }
}

/// What SIGHUP and SIGUSR2 do to a server of groups.
pub struct Told {
    pub groups: Groups,
    pub stop: Stop,
    /// From which file, and how.
    pub settings: Source,
}

/// Where settings came from, and those that hold now.
pub struct Source {
    /// What the command line said: it goes before the file.
    pub typed: Settings,
    pub file: Option<PathBuf>,
    pub now: Settings,
}

/// Signals that are waited for.
pub struct Waiting {
    handle: Handle,
    thread: JoinHandle<()>,
}

/// SIGHUP and SIGUSR2, to be waited for.
fn waiting() -> io::Result<(Signals, Handle)> {
    let waiting = Signals::new([0; 0])?;
    let handle = waiting.handle();
    signals::handle(&[SIGHUP, SIGUSR2], |signal| handle.add_signal(signal))?;
    Ok((waiting, handle))
}

impl Waiting {
    /// Waits for signals from now on, in a thread; SIGINT and SIGTERM stop the server as any other.
    ///
    /// # Errors
    ///
    /// If the system has no more descriptors or threads.
    pub fn start(mut told: Told) -> Result<Self> {
        let two = stop_by_two(&told.stop).context("signals cannot be handled")?;
        let (mut handled, handle) = waiting().context("signals cannot be handled")?;
        if signals::is_ignored(SIGHUP) && told.settings.file.is_some() {
            say("SIGHUP was ignored when this began, and still is: it does not have the settings read again");
        }
        let thread = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in handled.forever() {
                    match signal {
                        SIGHUP => told.reload(),
                        _ => told.leave(&two),
                    }
                }
            })
            .context("no thread to wait for signals")?;
        Ok(Self { handle, thread })
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// If it panicked.
    pub fn end(self) -> Result<()> {
        self.handle.close();
        self.thread
            .join()
            .map_err(|_| anyhow!("the thread that waits for signals panicked"))
    }
}

impl Told {
    fn reload(&mut self) {
        match self.settings.reload() {
            Ok((options, words)) => {
                self.groups.change(|now| *now = options);
                say(&format!("SIGHUP: {words}"));
            }
            Err(error) => say(&format!(
                "SIGHUP: everything stays as it is, since {}",
                in_one_line(&error)
            )),
        }
    }

    /// As a lame duck, unless it stops already. As with the NATS server SIGTERM does not cut that short: who sends
    /// both, one after the other, wants clients to have their time.
    fn leave(&self, two: &Two) {
        if self.stop.is_stopped() {
            return;
        }
        two.leave();
        let mut time = LAME_DUCK;
        self.groups.change(|options| {
            match options.lame_duck.is_zero() {
                true => options.lame_duck = time,
                false => time = options.lame_duck,
            };
        });
        say(&format!(
            "SIGUSR2: a lame duck, for {} s at most",
            time.as_secs_f64()
        ));
        self.stop.stop_within(self.settings.now.drain_after(time));
    }
}

impl Source {
    /// Reads the file again: the options from now on, and what has changed, in words.
    fn reload(&mut self) -> Result<(Options, String)> {
        let file = self.file.as_ref();
        let file = file.context("it was started without --config, so that there is no file to read again")?;
        let mut new = self.typed.clone().over(Settings::read(file)?);
        new.choose();
        new.pair()?;
        new.groups.options(new.most_connections())?;
        let changes = self.now.change_to(new);
        let options = self.now.groups.options(self.now.most_connections())?;
        let words = match changes.is_empty() {
            true => "nothing is otherwise".to_owned(),
            false => changes.to_string(),
        };
        Ok((options, format!("read {} again: {words}", file.display())))
    }
}
