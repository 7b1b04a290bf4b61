//! One case: the server in its arrangement, its clients, and what they see of its crash.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::{Arrivals, Clients, Failure, LoadError, Pace, Ramp, Record, Requests, Watch};

use super::case::{
    BEFORE, BUSY, CPU, CRASHED, Case, LOST, Load, P50, P99, RATE, SILENCE, STAGES, SURVIVED, TIME, TIMED,
    TIMEOUT, WARM,
};
use super::message::{self, Kind, Silence, Transfers};
use crate::servers::clients::{Addresses, all_answered, has_room};
use crate::servers::cpu_since;

/// Without an answer for so long a message has lost it where no server crashes: on any machine, none has.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of the client's CPU, the most that it may use where the server is to be what is measured.
const BUSIEST: f64 = 0.85;

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::read(params)?;
    let cpus = Cpus::divided(case.server_cpus as usize)?;
    has_room(case.connections + 1, Addresses::One)?;
    let arguments: [&dyn ToString; 4] = [&case.arrangement.name(), &0, &case.message_bytes, &case.slots()];
    let server = STAGES.serve(&arguments, &cpus)?;
    let mut load = Talk::connect(&server, case)?;
    all_answered(&load.asks(Pace::FAST, WARM, &mut ())?)?;
    match case.load {
        Load::Saturated => load.timed(Pace::FAST, &server, worker)?,
        Load::Half => {
            let saturated = load.asks(Pace::FAST, TIMED, &mut ())?;
            all_answered(&saturated)?;
            let pace = Pace::Open {
                per_second: rate(&saturated) / 2.0,
                arrivals: Arrivals::Poisson,
                seed: 1,
            };
            load.timed(pace, &server, worker)?;
        }
        Load::Crash => {
            let mut crash = Crash::at(server.address(), case.message_bytes as usize);
            let record = load.asks(Pace::FAST, BEFORE + CRASHED, &mut crash)?;
            crash.done()?;
            tell_crash(worker, case, &record, &load.silence);
        }
    }
    drop(load);
    server.end()?;
    Ok(())
}

fn broken(error: LoadError) -> CaseError {
    CaseError::failed("the clients", error)
}

fn rate(record: &Record) -> f64 {
    record.answered as f64 / record.elapsed.as_secs_f64()
}

/// All connections, and when they heard.
struct Talk {
    requests: Requests<Transfers>,
    silence: Arc<Silence>,
}

impl Talk {
    fn connect(server: &Server, case: Case) -> Result<Self, CaseError> {
        let connections = NonZeroUsize::new(case.connections as usize).expect("its range begins at 1");
        let clients = Clients {
            target: server.address(),
            connections,
            pipeline: NonZeroUsize::MIN,
            timeout: match case.load {
                Load::Crash => TIMEOUT,
                Load::Saturated | Load::Half => PATIENCE,
            },
            go_on: false,
        };
        let silence = Arc::<Silence>::default();
        let transfers = Transfers::new(case.message_bytes as usize, connections.get(), silence.clone());
        Ok(Self {
            requests: Requests::connect(transfers, clients).map_err(broken)?,
            silence,
        })
    }

    fn asks(&mut self, pace: Pace, span: Duration, watch: &mut dyn Watch) -> Result<Record, CaseError> {
        self.silence.begin();
        let record = self.requests.run(pace, Ramp::hold(span), u64::MAX, watch);
        record.map_err(broken)
    }

    fn timed(&mut self, pace: Pace, server: &Server, worker: &mut Worker) -> Result<(), CaseError> {
        let before = server.activity()?;
        let record = self.asks(pace, TIMED, &mut ())?;
        let after = server.activity()?;
        all_answered(&record)?;
        tell(worker, &record, cpu_since(&before, &after));
        if pace == Pace::FAST {
            worker.record(SILENCE, self.silence.longest_ns() as f64);
        }
        Ok(())
    }
}

/// What clients saw of a server that lives, and what it used for it.
fn tell(worker: &mut Worker, record: &Record, used: Duration) {
    let busy = record.cpu.as_secs_f64() / record.elapsed.as_secs_f64();
    if busy > BUSIEST {
        worker.tag("client-busy");
    }
    worker.record(TIME, 1e9 / rate(record));
    worker.record(RATE, rate(record));
    for (metric, share) in [(P50, 0.5), (P99, 0.99)] {
        if let Some(ns) = record.good.ns(share) {
            worker.record(metric, ns as f64);
        }
    }
    worker.record(CPU, used.as_nanos() as f64 / record.answered as f64);
    worker.record(BUSY, busy);
}

/// What they saw of one that crashed. A connection whose end is met while it sends is a failure alone.
fn tell_crash(worker: &mut Worker, case: Case, record: &Record, seen: &Silence) {
    let failed = [Failure::Closed, Failure::Reset].map(|kind| record.failures.of(kind));
    let ended = seen.ended().max(failed.iter().sum()) as f64 / case.connections as f64;
    worker.record(SURVIVED, 1.0 - ended.min(1.0));
    worker.record(LOST, (record.failures.total() + record.unfinished) as f64);
    worker.record(SILENCE, seen.longest_ns() as f64);
}

/// Sends the message that crashes the logic, from a connection of its own, once it is time.
struct Crash {
    server: SocketAddr,
    bytes: usize,
    begun: Instant,
    sent: Option<io::Result<TcpStream>>,
}

impl Crash {
    fn at(server: SocketAddr, bytes: usize) -> Self {
        Self {
            server,
            bytes,
            begun: Instant::now(),
            sent: None,
        }
    }

    fn send(&self) -> io::Result<TcpStream> {
        let mut message = Vec::new();
        message::write(&mut message, Kind::Crash, 0, 0, self.bytes);
        let mut stream = TcpStream::connect(self.server)?;
        stream.write_all(&message)?;
        Ok(stream)
    }

    fn done(self) -> Result<(), CaseError> {
        let failed = |error| CaseError::failed("sending the message that crashes the logic", error);
        let unsent = || CaseError::Failed("the load was over before the crash".to_owned());
        self.sent.ok_or_else(unsent)?.map(drop).map_err(failed)
    }
}

impl Watch for Crash {
    fn goes_on(&mut self) -> bool {
        if self.sent.is_none() && self.begun.elapsed() >= BEFORE {
            self.sent = Some(self.send());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use threadgauge_lab::testing;

    use super::super::EXPERIMENT;
    use super::super::case::Arrangement;
    use super::*;

    const BYTES: usize = 128;
    /// For what comes at once on an idle machine.
    const GENEROUS: Duration = Duration::from_secs(60);

    fn served(arrangement: Arrangement) -> Server {
        let arguments: [&dyn ToString; 4] = [&arrangement.name(), &0, &BYTES, &1024];
        STAGES.serve(&arguments, &Cpus::divided(1).unwrap()).unwrap()
    }

    fn client(server: &Server) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(GENEROUS)).unwrap();
        stream
    }

    /// The answer, or nothing where the connection was ended.
    fn asked(mut stream: &TcpStream, message: &[u8]) -> Option<Vec<u8>> {
        let mut answer = vec![0; BYTES];
        stream.write_all(message).ok()?;
        match stream.read_exact(&mut answer) {
            Ok(()) => Some(answer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no answer in {GENEROUS:?}"),
            Err(_) => None,
        }
    }

    fn add(account: u64, amount: u64) -> Vec<u8> {
        let mut made = Vec::new();
        message::write(&mut made, Kind::Add, account, amount, BYTES);
        made
    }

    fn sum(answer: &[u8]) -> u64 {
        u64::from_be_bytes(answer[24..32].try_into().unwrap())
    }

    #[test]
    fn each_arrangement_gives_the_same_answers() {
        let answers = Arrangement::ALL.map(|arrangement| {
            let server = served(arrangement);
            let clients = [client(&server), client(&server)];
            let mut broken = add(1, 1);
            broken[40] ^= 1;
            let said = (0..300_u64).flat_map(|i| add(i % 5, i)).collect::<Vec<u8>>();
            let said = said.chunks(BYTES).chain([&broken[..], &[0xff; BYTES]]);
            let answers: Vec<Vec<u8>> = said
                .enumerate()
                .map(|(i, message)| asked(&clients[i % 2], message).expect("an answer"))
                .collect();
            drop(clients);
            server.end().unwrap();
            answers
        });
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
        // 4 + 9 + … + 299
        assert_eq!(sum(&answers[0][299]), 9_090);
        let kinds: Vec<u8> = answers[0].iter().map(|answer| answer[7]).collect();
        assert_eq!((&kinds[..300], &kinds[300..]), (&[3; 300][..], &[4, 4][..]));
    }

    #[test]
    fn more_messages_than_there_is_room_for_are_answered_in_order_and_pieces_make_a_message() {
        for arrangement in Arrangement::ALL {
            let server = served(arrangement);
            let (stream, count) = (client(&server), 3_000_u64);
            let mut writes = stream.try_clone().unwrap();
            let all: Vec<u8> = (0..count).flat_map(|_| add(1, 1)).collect();
            let writer = std::thread::spawn(move || {
                for piece in all.chunks(100) {
                    writes.write_all(piece).unwrap();
                }
            });
            let (mut reads, mut answer) = (&stream, [0; BYTES]);
            for sum_of_all in 1..=count {
                reads.read_exact(&mut answer).unwrap();
                assert_eq!(sum(&answer), sum_of_all, "{arrangement:?}");
            }
            writer.join().unwrap();
            server.end().unwrap();
        }
    }

    #[test]
    fn a_crash_of_the_logic_leaves_the_connections_where_message_io_is_a_process() {
        for arrangement in Arrangement::ALL {
            let server = served(arrangement);
            let clients: Vec<TcpStream> = (0..20).map(|_| client(&server)).collect();
            for each in &clients {
                asked(each, &add(1, 1)).unwrap();
            }
            let _crash = Crash::at(server.address(), BYTES).send().unwrap();
            // Sums are gone with the process that had them: a new client sees when that is so.
            let deadline = Instant::now() + GENEROUS;
            let begun_anew = || asked(&client(&server), &add(1, 0)).is_some_and(|answer| sum(&answer) == 0);
            while !begun_anew() {
                assert!(Instant::now() < deadline, "{arrangement:?} serves again");
            }
            let survive = clients.iter().filter(|each| asked(each, &add(2, 1)).is_some());
            let wanted = if arrangement == Arrangement::Threads {
                0
            } else {
                20
            };
            assert_eq!(survive.count(), wanted, "{arrangement:?}");
            server.end().unwrap();
        }
    }

    fn small(arrangement: Arrangement, load: Load) -> Params {
        Case::of(arrangement, load, 1).connections(8).params()
    }

    #[test]
    fn a_case_of_each_load_has_its_figures() {
        for load in [Load::Saturated, Load::Half] {
            let sample = testing::measured(&EXPERIMENT, &small(Arrangement::Staged, load));
            let value = |metric: Metric| sample.value(metric.name).unwrap();
            assert!(value(RATE) > 0.0 && value(CPU) > 0.0);
            // Where the clients had few turns meanwhile, or none, too few were answered to have both.
            let [median, most] = [P50, P99].map(|metric| sample.value(metric.name));
            assert!(most.is_none() || median <= most, "{median:?}, {most:?}");
            let sum = value(RATE) * value(TIME);
            assert!((sum / 1e9 - 1.0).abs() < 1e-9, "{sum}");
        }
        let sample = testing::measured(&EXPERIMENT, &small(Arrangement::Threads, Load::Crash));
        let value = |metric: Metric| sample.value(metric.name).unwrap();
        // All ask in turns: some may have had their answer and not asked again, and where the machine is crowded all.
        assert_eq!(value(SURVIVED), 0.0);
        assert!(value(LOST) <= 8.0 && value(SILENCE) > 0.0);
        let sample = testing::measured(&EXPERIMENT, &small(Arrangement::Processes, Load::Crash));
        assert_eq!(sample.value(SURVIVED.name), Some(1.0));
    }
}
