//! Building a server: a protocol, a design, an address, and what else can be set.

use std::any::type_name;
use std::fmt::Debug;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::counters::{CounterBlocks, Totals};
use crate::design::Design;
use crate::error::Error;
use crate::listen::Listener;
use crate::options::{Options, Overflow, Placement, Sends, WhenFull, as_typed};
use crate::protocol::Protocol;
use crate::serving::Serving;
use crate::setting::Setting;
use crate::stop::{Stop, measurable};
use crate::waiting::Waiting;

/// The most processes or threads that can be asked for as workers, readers or writers.
const MOST_UNITS: usize = 200;
/// The most connections: each has a number, a slot in tables and counters.
const MOST_CONNECTIONS: usize = 1 << 24;

/// A server to be: a protocol on a design.
///
/// ```
/// use threadgauge_reactor::{Design, Server, Stop, protocol::echo::Echo};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stop = Stop::new()?;
/// let server = Server::new(Echo).design(Design::Iterative).bind("127.0.0.1:0")?;
/// println!("listening on {}", server.local_addr());
/// # stop.stop();
/// let totals = server.run(&stop)?; // until `stop.stop()`
/// println!("{} connections", totals.accepted);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server<P> {
    protocol: P,
    design: Design,
    options: Options,
}

impl<P: Protocol> Server<P> {
    /// The protocol on the default design, one event loop, all settings at their defaults.
    pub fn new(protocol: P) -> Self {
        Self {
            protocol,
            design: Design::default(),
            options: Options::default(),
        }
    }

    /// How processes, threads and event loops are used.
    #[must_use]
    pub fn design(mut self, design: Design) -> Self {
        self.design = design;
        self
    }

    /// The number of processes or threads that serve. In a range they are as many as are busy and a few more, within
    /// it. By default the design's own number.
    #[must_use]
    pub fn workers(mut self, workers: RangeInclusive<usize>) -> Self {
        self.options.workers = Some(workers);
        self
    }

    /// The number of reactors that read.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.options.readers = Some(readers);
        self
    }

    /// The number of reactors that write.
    #[must_use]
    pub fn writers(mut self, writers: usize) -> Self {
        self.options.writers = Some(writers);
        self
    }

    /// Which reactors a connection gets.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.options.placement = Some(placement);
        self
    }

    /// How event loops send what a turn has produced: a system call for each client, or one for all of them.
    #[must_use]
    pub fn sends(mut self, sends: Sends) -> Self {
        self.options.sends = Some(sends);
        self
    }

    /// The most connections at once, 16,384 by default and 16,777,216 at most: the next is not accepted before one has
    /// ended, and waits in the backlog.
    #[must_use]
    pub fn max_connections(mut self, most: NonZeroUsize) -> Self {
        self.options.max_connections = most.get().min(MOST_CONNECTIONS);
        self
    }

    /// What happens to the next, where that is not to wait.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.options.when_full = Some(when_full);
        self
    }

    /// How many connections the kernel keeps ready to be accepted, 4,096 by default; its own limit may be lower.
    #[must_use]
    pub fn backlog(mut self, backlog: u16) -> Self {
        self.options.backlog = backlog.into();
        self
    }

    /// How many bytes may wait for one client, 1 MiB by default, and what happens to one that does not take them.
    #[must_use]
    pub fn output_limit(mut self, bytes: NonZeroUsize, overflow: Overflow) -> Self {
        self.options.output_limit = bytes.get();
        self.options.overflow = overflow;
        self
    }

    /// Closes a connection from which nothing has come for so long, while the server would have received it: time in
    /// which the server does not read from the client, since that has too much waiting, is held up by others or waits
    /// for its session, does not count. By default never.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.options.idle = Some(measurable(limit));
        self
    }

    /// Closes a connection whose client takes longer to send the head of a message: of the first from the moment on in
    /// which it has connected, of each other from its first byte on. A client that rests between messages is
    /// [idle](Self::idle). What is a head, the protocol says ([`Session::awaits_head`](crate::Session::awaits_head)).
    /// By default never.
    #[must_use]
    pub fn handshake(mut self, limit: Duration) -> Self {
        self.options.handshake = Some(measurable(limit));
        self
    }

    /// Closes a connection whose client has taken nothing for so long of what waits for it, 10 s by default; what waits
    /// is dropped. A byte that the client's kernel has acknowledged is taken: so one who reads slowly is waited for,
    /// however slowly that is, as long as its kernel acknowledges something in seven eighths of this time (it does so
    /// in steps, of some 100 KB where it has much room). One who stops reading is closed an eighth later at most.
    #[must_use]
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        self.options.write_timeout = measurable(limit);
        self
    }

    /// How long connections may go on after the stop, 5 s by default.
    #[must_use]
    pub fn drain(mut self, limit: Duration) -> Self {
        self.options.drain = measurable(limit);
        self
    }

    /// Takes the address; with port 0, one that is free. From now on clients can connect. `0.0.0.0` and `[::]` stand
    /// for all addresses of both families, where the machine has both. Of several addresses, as a name can stand for,
    /// it takes the first of each family that can be had.
    ///
    /// # Errors
    ///
    /// If the protocol does not fit the design, a setting is not used by it or out of its range, the kernel refuses
    /// io_uring where it is needed, or the address cannot be had.
    pub fn bind(self, address: impl ToSocketAddrs + Debug) -> Result<Bound<P>, Error> {
        self.check()?;
        self.options.sends.unwrap_or_default().check()?;
        let Self {
            protocol,
            design,
            options,
        } = self;
        let listener = Listener::bind(address, options.backlog)?;
        protocol.listens(listener.address());
        let counters = CounterBlocks::new(options.max_connections.max(MOST_UNITS) + 2)
            .map_err(Error::io("making memory for the counters"))?;
        Ok(Bound {
            design,
            serving: Serving {
                design: design.name(),
                protocol: Arc::new(protocol),
                listener,
                options,
                counters: Arc::new(counters),
                waiting: Waiting::default(),
                stop: None,
            },
        })
    }

    fn check(&self) -> Result<(), Error> {
        let about = self.design.about();
        if P::SHARED {
            self.design.accepts_shared().map_err(|apart| Error::SharedState {
                protocol: type_name::<P>(),
                design: about.name,
                apart,
            })?;
        }
        if let Some(setting) = self.options.given().find(|&setting| !self.design.uses(setting)) {
            let used: Vec<_> = about.settings.iter().map(Setting::to_string).collect();
            return Err(Error::UnusedSetting {
                design: about.name,
                setting,
                uses: match used.is_empty() {
                    true => "it uses none of its kind".to_owned(),
                    false => format!("it uses {}", used.join(", ")),
                },
            });
        }
        let Options {
            workers,
            readers,
            writers,
            ..
        } = &self.options;
        let bad = |setting, value: String, why| Err(Error::BadSetting { setting, value, why });
        if let Some(workers) = workers {
            let value = as_typed(workers);
            if workers.is_empty() {
                return bad(Setting::Workers, value, "the least is above the most");
            }
            if *workers.start() == 0 || *workers.end() > MOST_UNITS {
                return bad(Setting::Workers, value, "1 to 200 are possible");
            }
        }
        for (setting, count) in [(Setting::Readers, readers), (Setting::Writers, writers)] {
            if let Some(count) = *count
                && !(1..=MOST_UNITS / 2).contains(&count)
            {
                return bad(setting, count.to_string(), "1 to 100 are possible");
            }
        }
        (about.check)(&self.options)
    }
}

/// A server that listens, and does not serve yet.
#[derive(Debug)]
pub struct Bound<P> {
    design: Design,
    serving: Serving<P>,
}

impl<P: Protocol> Bound<P> {
    /// Where it listens; the first address, where a name stands for several.
    pub fn local_addr(&self) -> SocketAddr {
        self.serving.listener.address()
    }

    /// All addresses where it listens: two where a name stands for some of both families, all with one port.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.serving.listener.addresses().collect()
    }

    /// How many processes, threads or loops it serves with, in words, the defaults of its design included; none where
    /// the design leaves no choice.
    pub fn workers(&self) -> Option<String> {
        (self.design.about().made_of)(&self.serving.options)
    }

    /// To read the counters while it runs.
    pub fn meter(&self) -> Meter {
        Meter(Arc::clone(&self.serving.counters))
    }

    /// To see how much waits for its clients while it runs. Of designs in separate address spaces, and of those where
    /// connections do not send to each other, nothing is told.
    pub fn waiting(&self) -> Waiting {
        self.serving.waiting.clone()
    }

    /// Serves on this thread and those it makes, until `stop` is set and all connections are drained. Blocks until
    /// then; every thread and process that it made has ended when it returns.
    ///
    /// # Errors
    ///
    /// If a system call fails that the design cannot do without, or it forks and the process has several threads.
    pub fn run(self, stop: &Stop) -> Result<Totals, Error> {
        let design = self.design;
        self.run_by(stop, |serving| design.run(serving))
    }

    /// Serves by `design` until that is done.
    pub(crate) fn run_by(
        mut self,
        stop: &Stop,
        design: impl FnOnce(&Serving<P>) -> Result<(), Error>,
    ) -> Result<Totals, Error> {
        self.serving.stop = Some(stop.clone());
        let outcome = design(&self.serving);
        self.serving.waiting.forget();
        outcome?;
        Ok(self.serving.counters.totals())
    }
}

/// Reads a server's counters, at any time and from any thread.
#[derive(Clone, Debug)]
pub struct Meter(Arc<CounterBlocks>);

impl Meter {
    /// What has been counted until now, also of clients that are connected, and where processes serve them. A message
    /// counts when its session has used it, and bytes when the kernel has given or taken them; another thread sees that
    /// a moment later, as it sees any memory.
    pub fn totals(&self) -> Totals {
        self.0.totals()
    }

    /// The same for each loop, thread or process that has counted anything, in the design's order: which of them
    /// accepts, reads and writes.
    pub fn parts(&self) -> Vec<Totals> {
        self.0.parts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::echo::Echo;

    #[test]
    fn a_setting_without_use_is_refused() {
        let error = Server::new(Echo)
            .design(Design::Iterative)
            .workers(1..=4)
            .bind("127.0.0.1:0")
            .expect_err("iterative has no workers");
        assert_eq!(
            error.to_string(),
            "the design `iterative` does not use workers; it uses none of its kind"
        );
        let server = Server::new(Echo).design(Design::ReactorPool);
        let error = server.when_full(WhenFull::Wait).bind("127.0.0.1:0");
        let error = error.expect_err("several loops").to_string();
        assert!(error.contains("does not use when-full"), "{error}");
    }

    #[test]
    fn a_value_that_is_none_for_the_design_is_refused_before_it_listens() {
        for design in [
            Design::PreforkedReuseport,
            Design::ReactorPerCore,
            Design::Proactor,
        ] {
            let server = Server::new(Echo).design(design).workers(1..=3);
            let error = server.bind("127.0.0.1:0").expect_err("a range").to_string();
            assert!(error.starts_with("workers cannot be 1..3: "), "{error}");
        }
        let server = Server::new(Echo).design(Design::ReactorPerCore);
        let error = server.placement(Placement::ByHandle).bind("127.0.0.1:0");
        let error = error.expect_err("the kernel decides").to_string();
        assert!(error.starts_with("placement cannot be by-handle: "), "{error}");
    }

    #[test]
    fn it_says_how_many_it_serves_with() {
        let of = |server: Server<Echo>| server.bind("127.0.0.1:0").expect("a port").workers();
        let pool = Server::new(Echo).design(Design::HalfSyncHalfAsync).workers(1..=4);
        assert_eq!(of(pool).as_deref(), Some("a loop and 1 to 4 workers"));
        assert_eq!(of(Server::new(Echo).design(Design::Iterative)), None);
    }

    #[test]
    fn there_are_1_to_200_units_of_a_design() {
        let server = |design| Server::new(Echo).design(design);
        let workers = |count| server(Design::PreforkedMutex).workers(count..=count);
        let readers = |count| server(Design::ReactorPool).readers(count);
        let writers = |count| server(Design::ReactorPool).writers(count);
        let is_possible = |server: Server<Echo>| server.bind("127.0.0.1:0").is_ok();
        assert_eq!(
            [0, 1, 200, 201].map(workers).map(is_possible),
            [false, true, true, false]
        );
        assert_eq!(
            [0, 1, 100, 101].map(readers).map(is_possible),
            [false, true, true, false]
        );
        assert_eq!(
            [0, 1, 100, 101].map(writers).map(is_possible),
            [false, true, true, false]
        );
    }

    #[test]
    fn without_a_bound_there_are_as_many_connections_as_have_numbers() {
        let most = |most| Server::new(Echo).max_connections(most).options.max_connections;
        assert_eq!(
            [NonZeroUsize::MIN, NonZeroUsize::MAX].map(most),
            [1, MOST_CONNECTIONS]
        );
    }

    #[test]
    fn what_cannot_be_looked_up_is_named() {
        for address in ["127.0.0.1", "a name without end:7000"] {
            let error = Server::new(Echo).bind(address).expect_err("no address");
            assert!(error.to_string().contains(address), "{error}");
        }
    }

    #[test]
    fn a_port_in_use_is_named() {
        let first = Server::new(Echo).bind("127.0.0.1:0").expect("a free port");
        let address = first.local_addr();
        let error = Server::new(Echo).bind(address).expect_err("in use").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
