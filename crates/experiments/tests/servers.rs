//! Each server of each runtime that this machine has, in each experiment that it takes part in, by its smallest case.
#![allow(clippy::print_stderr)]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use threadgauge_experiments::runtimes::prepare::{Asked, prepare};
use threadgauge_experiments::runtimes::serving::{self, servers};
use threadgauge_experiments::runtimes::{KINDS, Serves};
use threadgauge_experiments::{chat, server_designs};
use threadgauge_lab::experiment::Experiment;
use threadgauge_lab::server::Cpus;
use threadgauge_lab::worker::{Order, Worker};
use threadgauge_results::{Params, Runtime, Sample, Status};

mod places;

fn worker(experiment: &Experiment, params: &Params, runtime: &Runtime) -> Worker {
    Worker::new(&Order {
        experiment: experiment.id.to_owned(),
        params: params.clone(),
        cpus: vec![0],
        handicap_percent: 0,
        launched_ns: 0,
        seed: 0,
        each: None,
        runtime: Some(runtime.clone()),
    })
}

fn sample(experiment: &Experiment, params: &Params, runtime: &Runtime) -> Sample {
    let mut worker = worker(experiment, params, runtime);
    let result = (experiment.run)(params, &mut worker);
    worker.finish(result)
}

fn cases(runtime: &str, server: &Serves) -> Vec<(&'static Experiment, Params)> {
    let of = || {
        Params::new()
            .with("runtime", runtime)
            .with("design", server.design)
    };
    let echo = of().with("clients", 3).with("requests", 50).with("cpus", 1);
    let talk = |clients: &str| {
        let talk = of().with("clients", clients).with("connections", 40);
        (&chat::EXPERIMENT, talk.with("messages", 3).with("cpus", 1))
    };
    let mut cases = vec![(&server_designs::EXPERIMENT, echo), talk("threads"), talk("loop")];
    if server.talks.is_some() {
        cases.extend(["same-jvm", "other-jvm"].map(talk));
    }
    cases
}

#[test]
fn each_server_that_is_here_serves_and_outlives_its_clients() {
    let prepared = prepare(&[Asked::All], &places::with_newer_java()).unwrap();
    let mut ran = 0;
    for (runtime, server, lack) in servers(&prepared.runtimes) {
        if let Some(lack) = lack {
            eprintln!("skipped: {}: {lack}", server.design);
            continue;
        }
        for (experiment, params) in cases(&runtime.name, server) {
            let sample = sample(experiment, &params, runtime);
            let which = format!(
                "{}/{params} with {} {}",
                experiment.id, runtime.kind, runtime.version
            );
            assert_eq!(sample.status, Status::Ok, "{which}: {:?}", sample.reason);
            assert!(
                sample.value("startup_ns").is_some_and(|ns| ns > 0.0),
                "{which}: {sample:?}"
            );
            ran += 1;
        }
        outlives(runtime, server);
    }
    // Python and a browser's driver, Node, are what other tests need as well.
    assert!(ran >= 4, "of {} kinds none is here", KINDS.len());
}

/// A client that leaves in the middle of a line, and one that does not speak the protocol: the others do not notice.
fn outlives(runtime: &Runtime, server: &Serves) {
    let which = format!("{} in {} {}", server.design, runtime.kind, runtime.version);
    let mut worker = worker(&chat::EXPERIMENT, &Params::new(), runtime);
    let cpus = Cpus::divided(1).unwrap();
    let served = serving::start(runtime, server, "chat", &cpus, &mut worker).unwrap();
    let connect = || {
        let client = TcpStream::connect(served.address()).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client
    };
    let heard = |client: &mut TcpStream, wanted: &str| {
        let mut said = vec![0; wanted.len()];
        client.read_exact(&mut said).unwrap();
        assert_eq!(String::from_utf8_lossy(&said), wanted, "{which}");
    };
    let member = || {
        let mut client = connect();
        client.write_all(b"join here\n").unwrap();
        heard(&mut client, "joined here\n");
        client
    };
    let [mut speaks, mut hears, mut leaves] = [(); 3].map(|()| member());
    leaves.write_all(b"half a li").unwrap();
    drop(leaves);
    let mut stranger = connect();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    stranger.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    // Its connection ends, in whatever way.
    let _ = stranger.read_to_end(&mut said);
    assert!(said.is_empty(), "{which}: {:?}", String::from_utf8_lossy(&said));
    for part in ["one\ntw", "o\n"] {
        speaks.write_all(part.as_bytes()).unwrap();
    }
    heard(&mut hears, "one\ntwo\n");
    hears.write_all(b"three\n").unwrap();
    heard(&mut speaks, "three\n");
    serving::end(served).unwrap();
}
