//! Running a case: two lives of a server, one with a few requests and one with all.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;

use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_load::exchange::Echo;
use threadgauge_load::{Clients as Connections, LoadError, Pace, Ramp, Requests};
use threadgauge_machine::usage_children;

use super::case::{
    BYTES, CLIENTS, CPU, Case, Load, MEDIAN, MEMORY, P99, Program, RATE, START, SWITCHES, WHOLE,
};
use crate::servers::clients::{Addresses, all_answered, has_room};
use crate::servers::{ANSWER_FLOOR, Design, PROCESSES, Stevens, WORKERS};

/// Requests of a connection that is kept.
const KEPT: u64 = 100;
const MESSAGE_BYTES: usize = 128;
/// How long a server may leave one request without an answer; less than a worker's deadline, to say so.
const PATIENCE: Duration = Duration::from_secs(10);

/// What clients saw of one life of a server.
#[derive(Debug, Default)]
pub(super) struct Seen {
    requests: u64,
    wall_ns: f64,
    cpu_ns: f64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    /// Of the server while all were connected, where that can be seen.
    memory_bytes: Option<f64>,
    /// What a handicapped worker makes of every time.
    stretch: f64,
}

/// What a server used in its life.
#[derive(Debug)]
struct Used {
    cpu_ns: f64,
    waits: f64,
    seen: Seen,
}

pub(super) fn run(params: &Params, worker: &mut Worker) -> Result<(), CaseError> {
    let case = Case::possible(params)?;
    let cpus = Cpus::divided(1)?;
    let live = |clients: &dyn Fn(&Server) -> Result<Seen, CaseError>| {
        let server = serve(case, &cpus)?;
        let seen = clients(&server)?;
        // The clients are children too, and have been waited for.
        let before = usage_children().switches;
        let cpu = server.end()?;
        let waits = (usage_children().switches - before).voluntary as f64;
        let cpu_ns = cpu.as_nanos() as f64 * seen.stretch.max(1.0);
        Ok::<_, CaseError>(Used { cpu_ns, waits, seen })
    };
    let few = live(&|server| a_few(case, server, worker))?;
    let all = live(&|server| ask(case, server, case.requests, worker))?;
    record(worker, &few, &all)
}

/// What one more request takes: the difference of the lives over that of their requests.
fn record(worker: &mut Worker, few: &Used, all: &Used) -> Result<(), CaseError> {
    let more = all.seen.requests.saturating_sub(few.seen.requests);
    if more == 0 {
        let says = format!(
            "{} requests are too few: as many come before the clock runs",
            all.seen.requests
        );
        return Err(CaseError::Failed(says));
    }
    let Seen {
        requests,
        wall_ns,
        cpu_ns,
        p50_ns,
        p99_ns,
        stretch,
        ..
    } = all.seen;
    worker.record(CPU, (all.cpu_ns - few.cpu_ns) / more as f64);
    worker.record(WHOLE, all.cpu_ns);
    worker.record(START, few.cpu_ns);
    worker.record(SWITCHES, (all.waits - few.waits).max(0.0) / more as f64);
    worker.record(RATE, requests as f64 / (wall_ns * stretch) * 1e9);
    worker.record(CLIENTS, cpu_ns / requests as f64);
    let seen = [
        (MEDIAN, p50_ns.map(|ns| ns * stretch)),
        (P99, p99_ns.map(|ns| ns * stretch)),
        (MEMORY, few.seen.memory_bytes),
    ];
    for (metric, value) in seen {
        if let Some(value) = value {
            worker.record(metric, value);
        }
    }
    worker.tag("cold");
    Ok(())
}

/// One request or so of each client, all connected at once where the design can, while the server is looked at.
fn a_few(case: Case, server: &Server, worker: &Worker) -> Result<Seen, CaseError> {
    match case.load {
        Load::Echo => ask(case, server, 1, worker),
        Load::Accept => ask(case, server, 1, worker),
        Load::Short | Load::Long => {
            let count = case.clients.min(case.design.at_once());
            let held: Vec<TcpStream> = (0..count)
                .map(|_| kept(server.address()))
                .collect::<Result<_, _>>()?;
            Ok(Seen {
                requests: held.len() as u64,
                memory_bytes: memory_bytes(server)?,
                ..Seen::default()
            })
        }
    }
}

/// A connection that has had one answer and stays open.
fn kept(server: SocketAddr) -> Result<TcpStream, CaseError> {
    let asked = || {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{BYTES} keep")?;
        stream.read_exact(&mut [0; BYTES as usize])?;
        Ok::<_, std::io::Error>(stream)
    };
    asked().map_err(|e| CaseError::failed("asking a server for bytes", e))
}

pub(super) fn memory_bytes(server: &Server) -> Result<Option<f64>, CaseError> {
    Ok(server.activity()?.pss_kib.map(|kib| kib as f64 * 1024.0))
}

/// Lets all clients ask so often.
fn ask(case: Case, server: &Server, requests: u64, worker: &Worker) -> Result<Seen, CaseError> {
    let deadline = case.planned().deadline();
    if case.load == Load::Echo {
        let mut clients = connected(case.clients, server)?;
        let seen = exchange(&mut clients, case.clients * requests, deadline, worker)?;
        return Ok(Seen {
            memory_bytes: memory_bytes(server)?,
            ..seen
        });
    }
    let stevens = Stevens {
        clients: case.clients,
        requests,
        kept: if case.load == Load::Long { KEPT } else { 1 },
        bytes: if case.load == Load::Accept { 0 } else { BYTES },
    };
    let found = stevens.ask(worker, server.port(), deadline)?;
    let answered = found.figures;
    let total = case.clients * requests;
    Ok(Seen {
        requests: total,
        wall_ns: answered.wall_ns as f64,
        cpu_ns: answered.cpu_ns as f64,
        p50_ns: Some(answered.p50_ns as f64),
        // Of fewer it is one of a few.
        p99_ns: (total >= 1_000).then_some(answered.p99_ns as f64),
        memory_bytes: None,
        stretch: found.stretch,
    })
}

/// What messages took on connections that were there before, where the server's CPU time is that between two looks.
pub(super) fn record_messages(worker: &mut Worker, seen: &Seen, server: Duration) {
    let each = |ns: f64| ns / seen.requests as f64;
    worker.record(CPU, each(server.as_nanos() as f64 * seen.stretch));
    worker.record(RATE, 1e9 / each(seen.wall_ns * seen.stretch));
    worker.record(CLIENTS, each(seen.cpu_ns));
    for (metric, ns) in [(MEDIAN, seen.p50_ns), (P99, seen.p99_ns)] {
        if let Some(ns) = ns {
            worker.record(metric, ns * seen.stretch);
        }
    }
}

fn not_sent(error: LoadError) -> CaseError {
    CaseError::failed("sending messages to a server", error)
}

/// Connections for messages that come back.
pub(super) fn connected(clients: u64, server: &Server) -> Result<Requests<Echo>, CaseError> {
    has_room(clients, Addresses::One)?;
    let plan = Connections {
        target: server.address(),
        connections: NonZeroUsize::new(clients as usize).expect("a case has at least one client"),
        pipeline: NonZeroUsize::MIN,
        timeout: PATIENCE,
        go_on: false,
    };
    Requests::connect(Echo::new(MESSAGE_BYTES), plan).map_err(not_sent)
}

/// For so long, as many messages as come back: how many a second.
pub(super) fn exchange_for(
    clients: &mut Requests<Echo>,
    span: Duration,
    worker: &Worker,
) -> Result<f64, CaseError> {
    let watch = worker.stopwatch();
    let record = clients.run(Pace::FAST, Ramp::hold(span), u64::MAX, &mut ());
    let record = record.map_err(not_sent)?;
    all_answered(&record)?;
    Ok(record.answered as f64 / watch.stop().wall_ns as f64 * 1e9)
}

/// So many messages, one on its way on each connection, every byte compared.
pub(super) fn exchange(
    clients: &mut Requests<Echo>,
    messages: u64,
    deadline: Duration,
    worker: &Worker,
) -> Result<Seen, CaseError> {
    let watch = worker.stopwatch();
    let record = clients
        .run(Pace::FAST, Ramp::hold(deadline), messages, &mut ())
        .map_err(not_sent)?;
    let wall_ns = record.elapsed.as_nanos() as f64;
    let stretch = watch.stop().wall_ns as f64 / wall_ns.max(1.0);
    if record.answered != messages {
        let says = format!(
            "{} of {messages} messages came back as they were sent",
            record.answered
        );
        return Err(CaseError::Failed(says));
    }
    let quantile = |q| record.service.ns(q).map(|ns| ns as f64);
    Ok(Seen {
        requests: record.answered,
        wall_ns,
        cpu_ns: record.cpu.as_nanos() as f64,
        p50_ns: quantile(0.5),
        p99_ns: quantile(0.99),
        memory_bytes: None,
        stretch: stretch.max(1.0),
    })
}

fn serve(case: Case, cpus: &Cpus) -> Result<Server, CaseError> {
    let Case { design, .. } = case;
    let server = match (case.program, case.load) {
        (Program::C, Load::Short | Load::Long) => design.serve_in_c(cpus),
        (Program::C, Load::Accept) => PROCESSES.serve(&[&"preforked-poll", &0, &WORKERS], cpus),
        (Program::C, Load::Echo) => ANSWER_FLOOR.serve(&[&0], cpus),
        (Program::Ours, Load::Short | Load::Long) => design.serve("bytes", cpus),
        (Program::Ours, Load::Accept) => design.serve("null", cpus),
        (Program::Ours, Load::Echo) => design.serve("echo", cpus),
    };
    server.map_err(|error| match error {
        // Not everyone may use it, and a message of the command says so.
        CaseError::Failed(says) if design == Design::Proactor && says.contains("io_uring") => {
            CaseError::Skipped(Lack::new(Need::System, says))
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use threadgauge_lab::testing;

    use super::super::EXPERIMENT;
    use super::super::case::{FORK, accept, echo, short};
    use super::*;

    /// This test is a program that does not serve.
    #[test]
    fn a_server_that_does_not_start_is_a_failure_unless_the_kernel_refuses_it() {
        // It leaves its thread on other CPUs.
        let started = std::thread::spawn(|| {
            let case = short(Program::Ours, Design::Proactor);
            serve(case, &Cpus::divided(1).unwrap()).map(drop)
        });
        let error = started.join().unwrap().unwrap_err();
        assert!(matches!(error, CaseError::Failed(_)), "{error}");
    }

    #[test]
    fn programs_in_c_serve_every_load() {
        let clients = |case: Case| case.clients(3).requests(40);
        let loads = [
            short(Program::C, Design::Iterative),
            short(Program::C, Design::PreforkedReuseport),
            short(Program::C, FORK).load(Load::Long),
            short(Program::C, Design::ReactorPerCore).load(Load::Long),
            accept(Program::C, Design::PreforkedAccept),
            echo(Program::C, Design::Reactor, 3),
        ];
        for case in loads.map(clients) {
            let sample = testing::measured(&EXPERIMENT, &case.params());
            let value = |metric: Metric| sample.value(metric.name);
            assert!(
                value(RATE).unwrap() > 0.0 && value(WHOLE).unwrap() > 0.0,
                "{case:?}: {sample:?}"
            );
            let seen = value(MEMORY).is_some_and(|bytes| bytes > 4096.0);
            assert_eq!(seen, case.load != Load::Accept, "{case:?}: {sample:?}");
            assert_eq!(value(P99), None, "of 120 there is no 99th percentile: {case:?}");
        }
    }

    #[test]
    fn what_a_request_takes_is_what_the_longer_life_took_more() {
        let case = short(Program::C, Design::Iterative);
        let few = Used {
            cpu_ns: 1_000.0,
            waits: 30.0,
            seen: Seen {
                requests: 10,
                memory_bytes: Some(9.0),
                ..Seen::default()
            },
        };
        let all = Used {
            cpu_ns: 51_000.0,
            waits: 130.0,
            seen: Seen {
                requests: 210,
                wall_ns: 5e8,
                cpu_ns: 4_200.0,
                p50_ns: Some(3.0),
                p99_ns: None,
                memory_bytes: None,
                stretch: 2.0,
            },
        };
        let recorded = |few: &Used, all: &Used| {
            let mut worker = testing::worker(&EXPERIMENT, &case.params());
            let result = record(&mut worker, few, all);
            worker.finish(result)
        };
        let sample = recorded(&few, &all);
        let figures = [CPU, WHOLE, START, SWITCHES, RATE, CLIENTS, MEDIAN, MEMORY];
        assert_eq!(
            figures.map(|metric| sample.value(metric.name).unwrap()),
            [250.0, 51_000.0, 1_000.0, 0.5, 210.0, 20.0, 6.0, 9.0]
        );
        assert_eq!(sample.value(P99.name), None);
        let reason = recorded(&few, &few).reason.expect("there is no difference");
        assert!(reason.contains("requests are too few"), "{reason}");
    }

    #[test]
    fn a_herd_is_seen_as_wake_ups() {
        let herd = accept(Program::C, Design::PreforkedAccept).requests(200);
        let woken = testing::sample(&EXPERIMENT, &herd.params())
            .value(SWITCHES.name)
            .unwrap();
        // Of fifteen; some are still awake when the next connection comes.
        assert!(woken > 5.0, "{woken}");
    }
}
