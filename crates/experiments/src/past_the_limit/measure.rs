//! One case: a server with little left, those it serves, those who come, and what becomes of all of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::Instant;

use rustix::process::getuid;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::exchange::Echo;
use threadgauge_load::{Arrivals, Clients, LoadError, Pace, Ramp, Record, Requests};
use threadgauge_machine::{Resource, as_user, descendants, lower_limit_of, tasks_of, unused_user};

use super::case::{
    ANSWERED, Case, EXIT, LATE_SHARE, LONGEST, LOST, Lacking, RECOVERS, RECOVERY, REFUSED, RUNS_ON, WAITING,
};
use crate::servers::clients::{Addresses, Driver, has_room};

/// Until every one of those who are there was served.
const WARM: Duration = Duration::from_millis(20);
/// From the beginning of the load that is measured until the limit.
const BEFORE: Duration = Duration::from_millis(10);
/// For how long the newcomers stay: longer than a server waits before it tries again.
const CROWDED: Duration = Duration::from_millis(120);
/// For how long those who were there ask by schedule: until after the newcomers have left.
const HELD: Duration = Duration::from_millis(180);
/// Requests a second of each.
const EACH_PER_S: f64 = 100.0;
/// What is answered so long after it was due is late: no client on this machine waits so long for a turn.
const LATE: Duration = Duration::from_millis(50);
/// A request without an answer for so long is lost.
const TIMEOUT: Duration = Duration::from_millis(300);
/// How long a new client tries to be answered.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two tries.
const LOOK: Duration = Duration::from_millis(1);
const BYTES: usize = 128;

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(case.server_cpus as usize)?;
    has_room(case.connections + case.newcomers + 1, Addresses::One)?;
    let user = match case.lacking {
        Lacking::Units => limited_user()?,
        Lacking::Nothing | Lacking::Descriptors => None,
    };
    let mut server = case.design.serve_as(user, "echo", &cpus)?;
    let address = server.address();
    let connect = move || served(address, case.connections);
    let load = Driver::start(cpus.clients, connect, move |clients: &mut Requests<Echo>, ()| {
        let pace = Pace::Open {
            per_second: EACH_PER_S * case.connections as f64,
            arrivals: Arrivals::Uniform,
            seed: 1,
        };
        let record = clients.run(pace, Ramp::hold(HELD), u64::MAX, &mut ());
        record.map_err(broken)
    })?;
    load.connected()?;
    load.ask(());
    sleep(BEFORE);
    limit(case, &server, user)?;
    let crowd: Vec<io::Result<TcpStream>> =
        (0..case.newcomers).map(|_| newcomer(address, PATIENCE)).collect();
    sleep(CROWDED);
    let fates: Vec<Fate> = crowd.iter().map(Fate::of).collect();
    drop(crowd);
    let recovery = answered_after(address, PATIENCE);
    let record = load.told()?;
    drop(load);
    let ended = server.ended()?;
    let exit = server.stop()?;
    tell(worker, &record, &fates, recovery, ended.is_none(), exit);
    Ok(())
}

fn broken(error: LoadError) -> CaseError {
    CaseError::failed("the clients", error)
}

/// The user as whom a program meets a limit on units, where it is not this one: the kernel holds no superuser to it.
pub(super) fn limited_user() -> Result<Option<u32>, CaseError> {
    if !getuid().is_root() {
        return Ok(None);
    }
    let lack = || Lack::new(Need::System, "needs a user whom nobody is, and there is none");
    unused_user().map(Some).ok_or_else(|| CaseError::Skipped(lack()))
}

/// Connections each of which was served.
fn served(target: SocketAddr, connections: u64) -> Result<Requests<Echo>, CaseError> {
    let clients = Clients {
        target,
        connections: NonZeroUsize::new(connections as usize).expect("its range begins at 1"),
        pipeline: NonZeroUsize::MIN,
        timeout: TIMEOUT,
        go_on: false,
    };
    let mut requests = Requests::connect(Echo::new(BYTES), clients).map_err(broken)?;
    let record = requests.run(Pace::FAST, Ramp::hold(WARM), u64::MAX, &mut ());
    let record = record.map_err(broken)?;
    let failed = record.failures.total() + record.unfinished;
    if failed > 0 || record.answered < connections {
        let says = format!(
            "of {connections} connections before the limit not all were served: {failed} requests without an answer"
        );
        return Err(CaseError::Failed(says));
    }
    Ok(requests)
}

/// Leaves the server only so much room.
fn limit(case: Case, server: &Server, user: Option<u32>) -> Result<(), CaseError> {
    // The server is the only child of a worker.
    let processes = || descendants().into_iter();
    let set = match case.lacking {
        Lacking::Nothing => return Ok(()),
        Lacking::Descriptors => processes().try_for_each(|pid| match open_descriptors(pid) {
            Ok(open) => lower_limit_of(pid, Resource::OpenFiles, leaving(&open, case.room)),
            Err(error) if pid == server.pid() => Err(error),
            // A child that has ended meanwhile.
            Err(_) => Ok(()),
        }),
        Lacking::Units => return leave_units(case.room, user),
    };
    set.map_err(not_limited)
}

/// Leaves all that runs below this process, as this user or the calling one, only so many more units.
pub(super) fn leave_units(room: u64, user: Option<u32>) -> Result<(), CaseError> {
    let counted = user.unwrap_or_else(|| getuid().as_raw());
    let unknown = || CaseError::Failed("the units of a user cannot be counted here".to_owned());
    let most = tasks_of(counted).ok_or_else(unknown)? + room;
    let all = || {
        let mut processes = descendants().into_iter();
        processes.try_for_each(|pid| lower_limit_of(pid, Resource::Processes, most))
    };
    user.map_or_else(all, |user| as_user(user, all))
        .map_err(not_limited)
}

fn not_limited(error: io::Error) -> CaseError {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let says = format!("a limit cannot be set on a running program here: {error}");
            CaseError::Skipped(Lack::new(Need::System, says))
        }
        _ => CaseError::failed("setting a limit on a program that runs", error),
    }
}

fn open_descriptors(pid: i32) -> io::Result<BTreeSet<u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(number).collect())
}

/// The limit that leaves room for so many more beside those that are open. It bounds their numbers, of which the least
/// free one is always taken.
fn leaving(open: &BTreeSet<u64>, room: u64) -> u64 {
    let mut free = (0..).filter(|number| !open.contains(number));
    free.nth(room as usize - 1).map_or(u64::MAX, |last: u64| last + 1)
}

/// Connects and asks.
fn newcomer(server: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.write_all(&[b'?'; BYTES])?;
    Ok(stream)
}

/// What has become of a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Refused,
    Waiting,
}

impl Fate {
    fn of(newcomer: &io::Result<TcpStream>) -> Self {
        let heard = newcomer.as_ref().map(|mut stream| {
            stream.set_nonblocking(true)?;
            stream.read(&mut [0; BYTES])
        });
        match heard {
            Ok(Ok(1..)) => Self::Answered,
            Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => Self::Waiting,
            Ok(_) | Err(_) => Self::Refused,
        }
    }
}

/// How long it takes a new client to be answered, which tries again when it is refused; `None` if it gives up. Blocks
/// meanwhile.
fn answered_after(server: SocketAddr, patience: Duration) -> Option<Duration> {
    let begun = Instant::now();
    let asks = |left: Duration| {
        let mut stream = newcomer(server, left)?;
        stream.set_read_timeout(Some(left))?;
        stream.read_exact(&mut [0; BYTES])
    };
    loop {
        let left = patience
            .checked_sub(begun.elapsed())
            .filter(|left| !left.is_zero())?;
        if asks(left).is_ok() {
            return Some(begun.elapsed());
        }
        sleep(LOOK);
    }
}

fn tell(
    worker: &mut Worker,
    record: &Record,
    fates: &[Fate],
    recovery: Option<Duration>,
    runs_on: bool,
    exit: ExitStatus,
) {
    let lost = record.failures.total() + record.unfinished;
    let due = (record.answered + lost).max(1) as f64;
    let late_ns = LATE.as_nanos() as u64;
    let late = record.good.spans(&[late_ns])[1];
    if record.lag.most_ns() > Some(late_ns) {
        worker.tag("client-late");
    }
    let share = |is_so: bool| f64::from(u8::from(is_so));
    worker.record(LOST, lost as f64 / due);
    worker.record(LATE_SHARE, late as f64 / due);
    if let Some(longest_ns) = record.good.most_ns() {
        worker.record(LONGEST, longest_ns as f64);
    }
    let of = |fate| fates.iter().filter(|&&of| of == fate).count() as f64 / fates.len() as f64;
    worker.record(ANSWERED, of(Fate::Answered));
    worker.record(REFUSED, of(Fate::Refused));
    worker.record(WAITING, of(Fate::Waiting));
    worker.record(RECOVERS, share(recovery.is_some()));
    if let Some(recovery) = recovery {
        worker.record(RECOVERY, recovery.as_nanos() as f64);
    }
    worker.record(RUNS_ON, share(runs_on));
    worker.record(EXIT, code(exit));
}

/// As a shell says how a program ended.
pub(super) fn code(exit: ExitStatus) -> f64 {
    let signal = exit.signal().map(|signal| 128 + signal);
    f64::from(exit.code().or(signal).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use threadgauge_lab::testing;
    use threadgauge_load::Failures;

    use super::super::EXPERIMENT;
    use super::*;
    use crate::servers::Design;

    #[test]
    fn a_limit_leaves_exactly_the_room_that_is_asked_for() {
        let open = |numbers: &[u64]| numbers.iter().copied().collect();
        assert_eq!(leaving(&open(&[0, 1, 2]), 1), 4);
        assert_eq!(leaving(&open(&[0, 1, 2]), 4), 7);
        // Holes are filled first, and what lies above the limit stays open.
        assert_eq!(leaving(&open(&[0, 2, 3, 9]), 2), 5);
        assert_eq!(leaving(&open(&[0, 2, 3, 9]), 7), 11);
    }

    #[test]
    fn a_newcomer_is_answered_or_refused_or_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let patience = Duration::from_secs(60);
        let comes = || newcomer(address, patience);
        let mut ask = [0; BYTES];

        let answered = comes();
        let mut at_server = listener.accept().unwrap().0;
        at_server.read_exact(&mut ask).unwrap();
        assert_eq!(Fate::of(&answered), Fate::Waiting);
        at_server.write_all(&ask).unwrap();
        // Until it is there.
        answered.as_ref().unwrap().set_nonblocking(false).unwrap();
        assert_eq!(answered.as_ref().unwrap().peek(&mut [0]).unwrap(), 1);
        assert_eq!(Fate::of(&answered), Fate::Answered);

        let refused = comes();
        drop(listener.accept().unwrap());
        // Ended, or reset since nobody has read what it asked.
        refused.as_ref().unwrap().set_nonblocking(false).unwrap();
        assert!(!matches!(refused.as_ref().unwrap().peek(&mut [0]), Ok(1..)));
        assert_eq!(Fate::of(&refused), Fate::Refused);

        drop(listener);
        assert_eq!(Fate::of(&comes()), Fate::Refused);
        assert_eq!(answered_after(address, Duration::from_millis(5)), None);
    }

    #[test]
    fn a_new_client_that_is_refused_tries_again_until_it_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            drop(listener.accept().unwrap());
            let mut client = listener.accept().unwrap().0;
            let mut ask = [0; BYTES];
            client.read_exact(&mut ask).unwrap();
            client.write_all(&ask).unwrap();
        });
        assert!(answered_after(address, Duration::from_secs(60)).is_some());
        server.join().unwrap();
    }

    #[test]
    fn what_was_seen_becomes_shares_and_a_code() {
        let case = Case::of(Design::Reactor, Lacking::Descriptors, 1);
        let told = |record: &Record, recovery, exit| {
            let mut worker = testing::worker(&EXPERIMENT, &case.params());
            let fates = [Fate::Answered, Fate::Waiting, Fate::Waiting, Fate::Refused];
            let runs_on = ExitStatus::from_raw(exit);
            tell(&mut worker, record, &fates, recovery, exit == 0, runs_on);
            worker.finish(Ok(()))
        };
        let mut record = Record {
            answered: 15,
            unfinished: 5,
            failures: Failures::default(),
            ..Record::default()
        };
        record.good.record_many(1_000_000, 13);
        record.good.record_many(80_000_000, 2);
        let sample = told(&record, Some(Duration::from_millis(2)), 0);
        let value = |metric: Metric| sample.value(metric.name);
        assert_eq!([LOST, LATE_SHARE].map(value), [Some(0.25), Some(0.1)]);
        assert_eq!(
            [ANSWERED, REFUSED, WAITING].map(value),
            [Some(0.25), Some(0.25), Some(0.5)]
        );
        assert_eq!(
            [RECOVERS, RUNS_ON, EXIT].map(value),
            [Some(1.0), Some(1.0), Some(0.0)]
        );
        assert_eq!(value(RECOVERY), Some(2e6));
        assert!(value(LONGEST).unwrap() >= 8e7);

        // Killed by SIGSEGV.
        let dead = told(&Record::default(), None, 11);
        let value = |metric: Metric| dead.value(metric.name);
        assert_eq!(
            [RECOVERS, RUNS_ON, EXIT].map(value),
            [Some(0.0), Some(0.0), Some(139.0)]
        );
        assert_eq!([RECOVERY, LONGEST].map(value), [None, None]);
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3.0);
    }
}
