//! Guests as servers: which there are, and starting one. What they are asked, and what is read off it, is in the files
//! of `server-designs` and `chat`.
//!
//! A server says where it listens as ours do, so that the same code waits for it; it is told to end by SIGTERM, and how
//! it then ends is its runtime's affair.

use std::process::Command;

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_lab::server::{Cpus, Server};
use threadgauge_results::Runtime;

use super::guest::given;
use super::{Kind, Name, Serves};

/// From the start of a server's program until it listens.
pub const STARTUP: Metric = metric("startup_ns", "ns");

/// Each server of each of these runtimes, with what it lacks there.
pub fn servers(runtimes: &[Runtime]) -> impl Iterator<Item = (&Runtime, &'static Serves, Option<Lack>)> {
    runtimes.iter().flat_map(|runtime| {
        let serves: &'static [Serves] = Kind::named(&runtime.kind).map_or(&[], |kind| kind.serves);
        serves
            .iter()
            .map(move |server| (runtime, server, server.lack(runtime)))
    })
}

/// What its program takes to start, as the catalogue has it.
#[must_use]
pub fn starts(runtime: &Runtime) -> Duration {
    Duration::from_millis(Kind::named(&runtime.kind).map_or(0, |kind| kind.starts_ms))
}

/// A server for tables and charts: with the runtime's name, where that is not its kind's.
#[must_use]
pub fn label(runtime: Name, design: Name) -> String {
    let runtime = runtime.name();
    match Kind::of(runtime).and_then(|kind| Some((kind, kind.server(design.name())?))) {
        Some((kind, server)) if kind.name == runtime => server.kind.to_owned(),
        Some((_, server)) => format!("{} ({runtime})", server.kind),
        None => format!("{} ({runtime})", design.name()),
    }
}

/// The worker's runtime, and its server of this design.
///
/// # Errors
///
/// Skipped where the runtime is lacking, or too old for it; failed where it has no such server, or the worker no
/// runtime: its run was not begun with one.
pub fn begin(
    params: &Params,
    design: Name,
    worker: &mut Worker,
) -> Result<(Runtime, &'static Serves), CaseError> {
    let runtime = given(params, worker)?;
    let serves: &'static [Serves] = Kind::named(&runtime.kind).map_or(&[], |kind| kind.serves);
    let server = serves.iter().find(|server| server.design == design.name());
    let server = server.ok_or_else(|| {
        let designs: Vec<&str> = serves.iter().map(|server| server.design).collect();
        match designs.is_empty() {
            true => CaseError::Failed(format!("this version has no server in {}", runtime.kind)),
            false => {
                let wanted = format!("one of {} of {}", designs.join(", "), runtime.kind);
                refused(params, "design", &wanted)
            }
        }
    })?;
    if let Some(lack) = server.lack(&runtime) {
        return Err(CaseError::Skipped(lack));
    }
    worker.tag(&format!("version-{}", runtime.version));
    Ok((runtime, server))
}

/// Starts it, comes back when it listens, and records what that took. Blocks as [`Server::start`] does.
///
/// # Errors
///
/// Those of [`Server::start`]: a guest that says something else, or ends instead, fails with what it said.
pub fn start(
    runtime: &Runtime,
    server: &Serves,
    protocol: &str,
    cpus: &Cpus,
    worker: &mut Worker,
) -> Result<Server, CaseError> {
    let (program, first) = runtime.command.split_first().ok_or_else(|| {
        let says = format!("the guest of {} has no program", runtime.name);
        CaseError::Failed(says)
    })?;
    let mut command = Command::new(program);
    command.args(first).args(["serve", server.design, protocol, "0"]);
    let watch = worker.stopwatch();
    let started = Server::start(command, cpus)?;
    worker.record(STARTUP, watch.stop().wall_ns as f64);
    Ok(started)
}

/// Ends it.
///
/// # Errors
///
/// If it has ended before it was told to, or does not end.
pub fn end(mut server: Server) -> Result<(), CaseError> {
    if let Some(status) = server.ended()? {
        let says = format!("the server ended by itself, with {status}");
        return Err(CaseError::Failed(says));
    }
    server.stop().map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use threadgauge_lab::testing;

    use super::super::{JAVA, KINDS};
    use super::*;
    use crate::runtimes::guest::testing::script;

    #[test]
    fn each_server_has_a_name_of_its_own_and_is_told_by_it() {
        let all = || KINDS.into_iter().flat_map(|kind| kind.serves);
        let kinds: BTreeSet<&str> = all().map(|server| server.kind).collect();
        assert_eq!(kinds.len(), all().count());
        for kind in KINDS {
            for server in kind.serves {
                assert!(server.least >= kind.least, "{}", server.design);
                let unit = server.talks.map(|unit| kind.unit(unit).map(|unit| unit.name));
                assert_eq!(unit, server.talks.map(Some), "{}", server.design);
            }
        }
        let label = |runtime, design| label(Name::new(runtime), Name::new(design));
        assert_eq!(label("go", "goroutine-per-connection"), "Go, goroutines");
        assert_eq!(label("java-25", "selector"), "Java, one selector (java-25)");
        assert_eq!(label("ruby", "fibres"), "fibres (ruby)");
    }

    #[test]
    fn a_server_that_a_version_does_not_have_is_a_lack_and_a_runtime_that_is_not_there_lacks_all() {
        let old = [script("java", "17.0.13", "")];
        let lacks: Vec<(&str, Option<String>)> = servers(&old)
            .map(|(_, server, lack)| (server.design, lack.map(|lack| lack.says)))
            .collect();
        let [(_, None), (_, Some(says)), (_, None)] = &lacks[..] else {
            panic!("{lacks:?}");
        };
        let wanted = "the server virtual-thread-per-connection needs java 21 or later, and java is 17.0.13";
        assert!(says.starts_with(wanted), "{says}");
        let gone = [Runtime::lacking("java", "java", JAVA.not_found())];
        assert!(servers(&gone).all(|(_, _, lack)| lack == Some(JAVA.not_found())));
        assert_eq!(servers(&[script("erlang", "27", "")]).count(), 0);
    }

    #[test]
    fn what_does_not_serve_says_why() {
        let why = |text: &str| {
            let runtime = script("go", "1.26", text);
            let mut worker = testing::worker(&crate::probes::EXPERIMENT, &Params::new());
            let server = Kind::named("go")
                .unwrap()
                .server("goroutine-per-connection")
                .unwrap();
            let cpus = Cpus::divided(1).unwrap();
            start(&runtime, server, "echo", &cpus, &mut worker)
                .and_then(end)
                .unwrap_err()
                .to_string()
        };
        // It is told what to serve, how and where.
        let refuses = "[ \"$*\" = 'serve goroutine-per-connection echo 0' ] && echo error no memory; exit 1";
        let says = why(refuses);
        assert_eq!(says, "the server ended with exit status: 1: error no memory");
        assert!(why("kill -9 $$").contains("signal: 9"));
        let leaves = "echo listening on 127.0.0.1:4; sleep 0.2; exit 3";
        let runtime = script("go", "1.26", leaves);
        let mut worker = testing::worker(&crate::probes::EXPERIMENT, &Params::new());
        let server = Kind::named("go")
            .unwrap()
            .server("goroutine-per-connection")
            .unwrap();
        let mut started = start(&runtime, server, "echo", &Cpus::divided(1).unwrap(), &mut worker).unwrap();
        while started.ended().unwrap().is_none() {
            std::thread::yield_now();
        }
        let says = end(started).unwrap_err().to_string();
        assert!(says.contains("ended by itself, with exit status: 3"), "{says}");
    }

    #[test]
    fn a_case_of_a_run_without_its_runtime_or_of_no_such_server_is_refused() {
        use threadgauge_lab::worker::{Order, Worker};
        let params = Params::new().with("runtime", "go").with("design", "fibres");
        let refusal = |runtime: Option<Runtime>| {
            let mut worker = Worker::new(&Order {
                experiment: "chat".to_owned(),
                params: params.clone(),
                cpus: vec![0],
                handicap_percent: 0,
                launched_ns: 0,
                seed: 0,
                each: None,
                runtime,
            });
            let refused = begin(&params, Name::new("fibres"), &mut worker);
            refused.unwrap_err().to_string()
        };
        assert!(refusal(None).contains("begin again with --runtime go"));
        assert_eq!(
            refusal(Some(script("go", "1.26", ""))),
            "the parameter design is fibres; it must be one of goroutine-per-connection of go"
        );
        assert!(refusal(Some(script("erlang", "27", ""))).contains("no server in erlang"));
    }
}
