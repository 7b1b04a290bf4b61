//! What experiments share whose clients are threads of the worker: whether there is room for them, where each runs, how
//! it is told what to do, and whether they are a part of what is measured.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::Cpus;
use threadgauge_load::{Needs, Record, preflight};
use threadgauge_machine::{Advice, CpuList, Severity, pin_thread};
use threadgauge_results::Table;

/// Before what is measured: until the server's memory and the clients' turns are as they stay.
pub const WARM_UP: Duration = Duration::from_millis(100);

/// How far the CPU time of what is served may then differ.
const UNCHANGED: [f64; 2] = [0.97, 1.03];

/// A thread of clients, which does as it is told. Dropped, they leave.
#[derive(Debug)]
pub struct Driver<Ask, Told> {
    /// Dropped, it ends the thread.
    asks: Option<Sender<Ask>>,
    /// Nothing, once it has connected.
    told: Receiver<Result<Option<Told>, CaseError>>,
    thread: Option<JoinHandle<()>>,
}

impl<Ask: Send + 'static, Told: Send + 'static> Driver<Ask, Told> {
    /// Starts it on these CPUs, where it connects. It is [connected](Self::connected) later.
    ///
    /// # Errors
    ///
    /// If there is no thread for it.
    pub fn start<Clients>(
        cpus: CpuList,
        connect: impl FnOnce() -> Result<Clients, CaseError> + Send + 'static,
        talk: impl Fn(&mut Clients, Ask) -> Result<Told, CaseError> + Send + 'static,
    ) -> Result<Self, CaseError> {
        let (asks, asked) = channel();
        let (tell, told) = channel();
        let serve = move || {
            let pinned = pin_thread(&cpus).map_err(|error| CaseError::failed("pinning clients", error));
            let mut clients = match pinned.and_then(|()| connect()) {
                Ok(clients) => clients,
                Err(error) => {
                    // Fails where nobody listens any more.
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let mut said = tell.send(Ok(None));
            while let (Ok(()), Ok(ask)) = (&said, asked.recv()) {
                said = tell.send(talk(&mut clients, ask).map(Some));
            }
        };
        let thread = thread::Builder::new()
            .name("clients".to_owned())
            .spawn(serve)
            .map_err(|error| CaseError::failed("starting a thread of clients", error))?;
        Ok(Self {
            asks: Some(asks),
            told,
            thread: Some(thread),
        })
    }

    /// Comes back when it has connected.
    ///
    /// # Errors
    ///
    /// If that failed.
    pub fn connected(&self) -> Result<(), CaseError> {
        self.next().map(|_| ())
    }

    /// Has it talk so. What it comes to is [told](Self::told).
    pub fn ask(&self, how: Ask) {
        // One that is gone says so when it is asked what it did.
        let _ = self.asks.as_ref().map(|asks| asks.send(how));
    }

    /// What it came to, once it has talked. Blocks meanwhile; it gives up by itself what does not come.
    ///
    /// # Errors
    ///
    /// What was wrong.
    pub fn told(&self) -> Result<Told, CaseError> {
        let gone = || CaseError::Failed("a thread of clients has told nothing".to_owned());
        self.next()?.ok_or_else(gone)
    }

    fn next(&self) -> Result<Option<Told>, CaseError> {
        let gone = |error| CaseError::failed("a thread of clients ended", error);
        self.told.recv().map_err(gone)?
    }
}

impl<Ask, Told> Drop for Driver<Ask, Told> {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It has told of what was wrong.
            let _ = thread.join();
        }
    }
}

/// Where each thread of clients runs: one for each of their CPUs, or for every other one that they share with the
/// server. Never more than `most`.
#[must_use]
pub fn places(cpus: &Cpus, most: usize) -> Vec<CpuList> {
    let clients = &cpus.clients;
    if clients.iter().all(|cpu| !cpus.server.contains(cpu)) {
        let own = clients.iter().map(|cpu| CpuList::new([cpu]));
        return own.take(most.max(1)).collect();
    }
    let count = (clients.len() / 2).clamp(1, most.max(1));
    vec![clients.clone(); count]
}

/// What the `part`-th of `parts` has of `whole`: as much as the others, or one more.
#[must_use]
pub const fn part_of(whole: usize, part: usize, parts: usize) -> usize {
    whole / parts + (part < whole % parts) as usize
}

/// From where clients connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// As many loopback addresses as they need ports of.
    Many,
    /// One, with the ports that the system has for it.
    One,
}

/// Whether this machine has room for so many connections.
///
/// # Errors
///
/// Skipped where it has not, with what lacks and how to have it.
pub fn has_room(connections: u64, from: Addresses) -> Result<(), CaseError> {
    let needs = Needs {
        connections,
        is_local: true,
        server: None,
    };
    let serious = preflight(&needs).into_iter().find(|item| lacks(item, from));
    match serious {
        None => Ok(()),
        Some(item) => {
            let fix = item
                .fix
                .map_or_else(String::new, |fix| format!("; to have them: {fix}"));
            let says = format!("{}{fix}", item.says);
            Err(CaseError::Skipped(Lack::new(Need::System, says)))
        }
    }
}

/// Whether clients that connect `from` there could not, for this.
fn lacks(item: &Advice, from: Addresses) -> bool {
    item.severity == Severity::Serious && (item.subject != "local ports" || from == Addresses::One)
}

/// # Errors
///
/// Where a request has no answer, or a wrong one; or where none was asked.
pub fn all_answered(record: &Record) -> Result<(), CaseError> {
    let failed = record.failures.total() + record.unfinished;
    if failed == 0 && record.answered > 0 {
        return Ok(());
    }
    let kinds: Vec<String> = record
        .failures
        .each()
        .map(|(kind, count)| format!("{count} {}", kind.name()))
        .collect();
    Err(CaseError::Failed(format!(
        "{failed} of {} requests have no good answer: {} unfinished {}",
        record.sent,
        record.unfinished,
        kinds.join(", ")
    )))
}

/// Whether the clients are a part of what is measured: of each of `what`, the server's CPU time of a `unit` with `half`
/// the connections and with all. None where nothing was measured.
#[must_use]
pub fn halved(
    view: &View<'_>,
    (what, unit): (&str, &str),
    half: u64,
    halves: impl IntoIterator<Item = (String, Statistic, Statistic)>,
) -> Option<Table> {
    let row = |(name, half, whole): (String, Statistic, Statistic)| {
        let ratio = half.over(whole);
        let [low, high] = view.estimate(&ratio)?.ci95?;
        let unchanged = match UNCHANGED {
            [least, most] if least <= low && high <= most => "yes",
            [least, most] if high < least || most < low => "no",
            _ => "open",
        };
        Some(vec![name, view.shown(&ratio, "ratio"), unchanged.to_owned()])
    };
    let rows: Vec<_> = halves.into_iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| {
        table(
            "halved",
            "Half the connections",
            "Where it changes, the figure depends on how many clients there are, and is to be quoted with their number.",
            [
                what,
                &format!("CPU time of a {unit}: {half} connections over twice as many"),
                "within 3 %",
            ],
            rows,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_differ_by_one_at_most_and_are_the_whole() {
        let parts = |whole, of| (0..of).map(|part| part_of(whole, part, of)).collect::<Vec<_>>();
        assert_eq!(parts(11, 4), [3, 3, 3, 2]);
        assert_eq!(parts(8, 4), [2; 4]);
        assert_eq!(parts(2, 3), [1, 1, 0]);
    }

    #[test]
    fn who_has_many_addresses_lacks_no_ports() {
        let about = |subject: &str, severity| Advice {
            subject: subject.to_owned(),
            severity,
            says: String::new(),
            fix: None,
        };
        let lack = |subject, severity| {
            [Addresses::One, Addresses::Many].map(|from| lacks(&about(subject, severity), from))
        };
        assert_eq!(lack("local ports", Severity::Serious), [true, false]);
        assert_eq!(lack("open files", Severity::Serious), [true, true]);
        assert_eq!(lack("open files", Severity::Fine), [false, false]);
    }

    #[test]
    fn an_address_has_no_room_for_more_connections_than_there_are_ports() {
        let error = has_room(70_000, Addresses::One).unwrap_err();
        assert!(matches!(error, CaseError::Skipped(_)), "{error}");
        has_room(1, Addresses::Many).unwrap();
    }

    #[test]
    fn a_request_without_a_good_answer_fails_the_sample_in_words() {
        let good = Record {
            sent: 5,
            answered: 5,
            ..Record::default()
        };
        assert!(all_answered(&good).is_ok());
        let unfinished = Record {
            answered: 4,
            unfinished: 1,
            ..good
        };
        let error = all_answered(&unfinished).unwrap_err().to_string();
        assert!(error.contains("1 of 5 requests"), "{error}");
        assert!(all_answered(&Record::default()).is_err(), "nothing was measured");
    }
}
