//! `bytes`: every design under Stevens' client, ours beside a plain C program, and his table beside both.

use std::fmt::{self, Write as _};

use anyhow::{Result, ensure};

use super::published::{Published, SYSTEMS};
use crate::rig::designs::{DESIGNS, Design, ITERATIVE, named};
use crate::rig::figures::{NOTHING, at_most, difference, estimate, middle, spread};
use crate::rig::profile::{Calls, Profile};
use crate::rig::programs::{Programs, Whose};
use crate::rig::rounds::Rounds;
use crate::rig::{Part, Site};
use threadgauge_lab::server::Server;

/// Of the client, as in Stevens' measurement.
const PROCESSES: u64 = 5;
const CONNECTIONS: u64 = 1000;
const BYTES: u64 = 4000;
const CLIENT_DEADLINE_S: u64 = 120;
/// Of two traced runs, all processes together.
const TRACED_CONNECTIONS: [u64; 2] = [100, 1100];
/// The most of a twin's CPU time that ours may use.
const LIMIT: f64 = 1.15;
/// Nanoseconds of a client's CPU time that make a millisecond of a thousand clients'.
const MS_OF_THOUSAND: f64 = 1e3;

/// A server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    design: &'static str,
    whose: Whose,
    clients: Clients,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Clients {
    /// Stevens'.
    All,
    /// Only to see what starting and ending takes.
    None,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unused = match self.clients {
            Clients::All => "",
            Clients::None => ", without clients",
        };
        write!(f, "bytes, {}, {}{unused}", self.design, self.whose)
    }
}

/// The measurement and its tables.
pub fn measure(site: &mut Site) -> Result<Part> {
    let published = Published::read()?;
    let connections = site.share_of(CONNECTIONS);
    let groups = DESIGNS
        .iter()
        .map(|design| [runs(design, Clients::All), runs(design, Clients::None)].concat())
        .collect();
    let (rounds, programs, cpus) = (site.rounds, &site.programs, site.everywhere());
    let measured = Rounds::measure("bytes", groups, rounds, &mut site.rng, |run| {
        let server = Server::start(programs.server(run.whose, named(run.design), "bytes"), &cpus)?;
        if run.clients == Clients::All {
            client(programs, server.port(), PROCESSES, connections)?;
        }
        Ok(server.end()?.as_nanos() as f64 / (PROCESSES * connections) as f64)
    });
    let served = DESIGNS
        .iter()
        .flat_map(|design| runs(design, Clients::All))
        .filter(|&run| measured.spread(run).is_some());
    let profile = Profile::measure(served, |run| {
        let server = programs.server(run.whose, named(run.design), "bytes");
        Calls::count(&server, &cpus, TRACED_CONNECTIONS, |port, connections| {
            client(programs, port, PROCESSES, connections / PROCESSES)?;
            Ok(connections)
        })
    });
    Ok(Part {
        text: text(
            &measured,
            &profile,
            &published,
            connections,
            &cpus.server.to_string(),
        ),
        values: measured.json(),
    })
}

/// Both servers of a design.
fn runs(design: &Design, clients: Clients) -> [Run; 2] {
    [Whose::Ours, Whose::Twin].map(|whose| Run {
        design: design.name,
        whose,
        clients,
    })
}

/// Stevens' client, to its end.
pub fn client(programs: &Programs, port: u16, processes: u64, connections: u64) -> Result<()> {
    let arguments = [
        u64::from(port),
        processes,
        connections,
        1,
        BYTES,
        CLIENT_DEADLINE_S,
    ]
    .map(|n| n.to_string());
    let output = programs.client().args(arguments).output()?;
    ensure!(
        output.status.success(),
        "the client says: {}",
        String::from_utf8_lossy(&output.stdout).trim_end()
    );
    Ok(())
}

fn text(
    measured: &Rounds<Run>,
    profile: &Profile<Run>,
    published: &Published,
    connections: u64,
    cpus: &str,
) -> String {
    let run = |design: &Design, whose| Run {
        design: design.name,
        whose,
        clients: Clients::All,
    };
    let mut text = format!(
        "## `bytes`: Stevens' client

{PROCESSES} client processes, {connections} connections each, {BYTES} bytes a connection; server and clients on CPUs {cpus}. CPU is user and \
system time of all of a server's threads and processes, start and end included, in ms for 1,000 clients: median (least – most). Ratios and \
differences are Hodges–Lehmann estimates over rounds [95 % interval]. What start and end alone take was measured without clients and is \
spread over them.

| design | threadgauge | C twin | ratio | ≤ {LIMIT} | of it start and end: threadgauge, C twin |
|---|---:|---:|---:|---|---|
"
    );
    for design in DESIGNS {
        let (ours, twin) = (run(design, Whose::Ours), run(design, Whose::Twin));
        let ratio = measured.ratio(ours, twin);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            design.name,
            spread(measured.spread(ours), MS_OF_THOUSAND),
            spread(measured.spread(twin), MS_OF_THOUSAND),
            estimate(ratio.as_ref()),
            at_most(ratio.as_ref(), LIMIT),
            runs(design, Clients::None)
                .map(|run| middle(measured.spread(run), MS_OF_THOUSAND))
                .join(", ")
        );
    }
    let _ = write!(
        text,
        "
### Process control

What a design uses beyond the iterative server of the same kind in the same round, in ms for 1,000 clients; beside it Stevens' \
figures, in seconds for his number of clients, comparable only down a column.

| design | threadgauge | C twin | {} |
|---|---:|---:|---:|---:|---:|
",
        SYSTEMS.join(" | ")
    );
    for design in DESIGNS.iter().filter(|design| design.name != ITERATIVE) {
        let over = |whose| measured.difference(run(design, whose), run(named(ITERATIVE), whose));
        let stevens = SYSTEMS.map(|system| {
            published
                .seconds(design.published, system)
                .map_or_else(|| NOTHING.to_owned(), |seconds| seconds.to_string())
        });
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            design.name,
            difference(over(Whose::Ours).as_ref(), MS_OF_THOUSAND),
            difference(over(Whose::Twin).as_ref(), MS_OF_THOUSAND),
            stevens.join(" | ")
        );
    }
    text.push_str("\n### System calls a connection\n\nTraced, in runs that were not timed.\n\n| design | threadgauge | C twin |\n|---|---|---|\n");
    for design in DESIGNS {
        let shown = |whose| profile.show(run(design, whose));
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            design.name,
            shown(Whose::Ours),
            shown(Whose::Twin)
        );
    }
    text + &measured.missing() + &profile.missing()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::programs::tests::c_programs;
    use threadgauge_lab::server::Cpus;
    use threadgauge_machine::allowed_cpus;

    #[test]
    fn a_twin_serves_a_handful_of_clients_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let programs = c_programs(folder.path(), &["processes", "stevens_client"]);
        let everywhere = allowed_cpus().unwrap();
        let cpus = Cpus {
            server: everywhere.clone(),
            clients: everywhere,
        };
        let twin = programs.server(Whose::Twin, named("preforked-descriptor"), "bytes");
        let server = Server::start(twin, &cpus).unwrap();
        client(&programs, server.port(), 2, 5).unwrap();
        server.end().expect("it ends with 0 once its children have ended");
    }
}
