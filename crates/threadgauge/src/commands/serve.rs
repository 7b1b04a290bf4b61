//! Serving: a protocol on a design, until a signal.
//!
//! Nothing here starts a thread, since some designs fork: signals write into the server's stop. The exceptions are
//! the monitor and who waits for further signals, which only a protocol has that no forking design serves.

mod changes;
mod choice;
mod groups;
mod list;
mod monitor;
pub mod settings;
mod signals;
pub mod values;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use threadgauge_machine::{Bound as Limit, Resource, free_at_once_from, raise_to_hard};
use threadgauge_reactor::protocol::groups::Groups;
use threadgauge_reactor::{
    AtOnce, Bound, BuiltIn, CloseReason, Design, Memory, Protocol, Stop, Totals, Visitor,
};
use threadgauge_results::units::counted;

use crate::cli::ServeOptions;
use crate::commands::serve::monitor::{Hosts, Monitor, Pages};
use crate::commands::serve::settings::Settings;
use crate::commands::serve::signals::{Source, Told};
use crate::output::{Done, Verdict, print, print_json, print_words, say};

/// What waits for a client that reads nothing is larger, most that is used again and again is smaller.
const LARGE_BYTES: u16 = 32 * 1024;

/// Serves until told to stop, then prints what happened; or lists what can be served.
pub fn serve(options: ServeOptions) -> Done {
    if options.list {
        ensure!(
            options.settings == Settings::default(),
            "--list shows all protocols and designs: neither their names nor settings go with it"
        );
        match options.json {
            true => print_json(&list::json())?,
            false => print_words(&list::text())?,
        }
        return Ok(Verdict::Done);
    }
    let typed = options.settings;
    let mut settings = match &options.config {
        Some(file) => typed.clone().over(Settings::read(file)?),
        None => typed.clone(),
    };
    let chosen = settings.choose();
    let (protocol, design) = settings.pair()?;
    free_at_once_from(LARGE_BYTES);
    let serve = Serve {
        protocol,
        design,
        settings: &settings,
        chosen: chosen.as_deref(),
    };
    let totals = match protocol {
        BuiltIn::Groups => {
            let most = settings.most_connections();
            let source = Source {
                typed,
                file: options.config,
                now: settings.clone(),
            };
            serve.groups(Groups::new(settings.groups.options(most)?), source)?
        }
        _ => protocol.visit(serve)?,
    };
    match options.json {
        true => print_json(&summary_json(protocol, design, &totals))?,
        false => print(&summary(protocol, design, &totals))?,
    }
    Ok(Verdict::Done)
}

/// What is done with the protocol that was chosen.
struct Serve<'a> {
    protocol: BuiltIn,
    design: Design,
    settings: &'a Settings,
    /// Why the design, where nobody has named it.
    chosen: Option<&'a str>,
}

impl Visitor for Serve<'_> {
    type Output = Result<Totals>;

    fn visit<P: Protocol>(self, protocol: P) -> Result<Totals> {
        let stop = stop()?;
        signals::stop_by_all(&stop).context("signals cannot be handled")?;
        Ok(self.bind(protocol)?.run(&stop)?)
    }
}

impl Serve<'_> {
    /// With its monitor, if one is asked for, and told more by signals.
    fn groups(self, protocol: Groups, settings: Source) -> Result<Totals> {
        let stop = stop()?;
        let told = Told {
            groups: protocol.clone(),
            stop: stop.clone(),
            settings,
        };
        let signals = signals::Waiting::start(told)?;
        let totals = self.with_pages(protocol, &stop)?;
        signals.end()?;
        Ok(totals)
    }

    fn with_pages(self, protocol: Groups, stop: &Stop) -> Result<Totals> {
        let figures = protocol.monitor();
        let bound = self.bind(protocol)?;
        let Some(address) = &self.settings.groups.monitor else {
            return Ok(bound.run(stop)?);
        };
        let pages = Pages {
            figures,
            meter: bound.meter(),
            waiting: bound.waiting(),
            most_waiting: self.settings.waiting().0,
            hosts: Hosts::new(self.settings.groups.monitor_hosts()),
            most_connections: self.settings.most_connections().get(),
            stop: stop.clone(),
            since: Timestamp::now(),
            began: Instant::now(),
            used: Mutex::default(),
        };
        let monitor = Monitor::start(pages, &address.0)?;
        say(&format!("monitor on http://{}", monitor.address()));
        let totals = bound.run(stop)?;
        monitor.end()?;
        Ok(totals)
    }

    /// Listening.
    fn bind<P: Protocol>(&self, protocol: P) -> Result<Bound<P>> {
        // What a shell gives is often far below what the system allows.
        let descriptors = raise_to_hard(Resource::OpenFiles).unwrap_or(Limit::Unlimited);
        let listen = self.settings.listen();
        let server = self.settings.server(protocol, self.design);
        let bound = match listen.localhost() {
            Some(addresses) => server.bind(&addresses[..]),
            None => server.bind(listen.0.as_str()),
        }?;
        let addresses: Vec<_> = bound.local_addrs().iter().map(SocketAddr::to_string).collect();
        say(&format!("listening on {}", addresses.join(" and ")));
        let about = self.design.about();
        say(&format!(
            "{} on {}: {}",
            self.protocol.name(),
            about.name,
            about.summary
        ));
        if let Some(chosen) = self.chosen {
            say(chosen);
        }
        if let Some(workers) = bound.workers() {
            let each = match about.at_once {
                AtOnce::Workers => ", each with one connection at a time; others wait",
                _ => "",
            };
            say(&format!("made of {workers}{each}"));
        }
        let set = self.settings.in_words();
        if !set.is_empty() {
            say(&format!("settings: {set}"));
        }
        let most = self.settings.most_connections().get() as u64;
        if let Some(few) = few_descriptors(descriptors, self.design, most) {
            say(&few);
        }
        Ok(bound)
    }
}

fn stop() -> Result<Stop> {
    Stop::new().context("the server cannot be made stoppable")
}

/// What to say where a process that has all connections may have fewer descriptors than they need.
fn few_descriptors(allowed: Limit, design: Design, most: u64) -> Option<String> {
    let about = design.about();
    let has_all = about.memory == Memory::Shared && about.at_once == AtOnce::Many;
    let few = allowed.value().filter(|&few| has_all && few <= most)?;
    Some(format!(
        "the limit on open files is {few} (see `ulimit -Hn`): fewer than that connect at once, and others wait"
    ))
}

/// System calls a message; none if there was no message.
fn calls_per_message(totals: &Totals) -> Option<f64> {
    (totals.messages > 0).then(|| totals.system_calls() as f64 / totals.messages as f64)
}

fn reasons(totals: &Totals) -> impl Iterator<Item = (&'static str, u64)> {
    CloseReason::ALL
        .into_iter()
        .map(|reason| (reason.name(), totals.closed(reason)))
        .filter(|&(_, count)| count > 0)
}

fn summary(protocol: BuiltIn, design: Design, totals: &Totals) -> String {
    let mut text = format!("{} on {}\n", protocol.name(), design.name());
    let _ = writeln!(
        text,
        "accepted       {} ({} failed)",
        totals.accepted,
        counted(totals.accept_errors as usize, "attempt")
    );
    if totals.units_created > 0 {
        // Fewer than asked for, where the system has no more: the server goes on with those.
        let _ = writeln!(
            text,
            "units          {} made, {} lost",
            totals.units_created, totals.units_lost
        );
    }
    let closed: Vec<String> = reasons(totals)
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let _ = writeln!(
        text,
        "closed         {}{}",
        totals.all_closed(),
        match closed.is_empty() {
            true => String::new(),
            false => format!(" ({})", closed.join(", ")),
        }
    );
    let _ = writeln!(
        text,
        "bytes          {} in, {} out",
        totals.bytes_in, totals.bytes_out
    );
    let _ = writeln!(
        text,
        "messages       {}, {} delivered to others, {} came too late for them",
        totals.messages, totals.deliveries, totals.undeliverable
    );
    let _ = writeln!(
        text,
        "system calls   {}{}",
        totals.system_calls(),
        calls_per_message(totals).map_or_else(String::new, |calls| format!(", {calls:.2} a message"))
    );
    text
}

fn summary_json(protocol: BuiltIn, design: Design, totals: &Totals) -> Value {
    let closed: Map<String, Value> = reasons(totals)
        .map(|(reason, count)| (reason.to_owned(), count.into()))
        .collect();
    let counters: Map<String, Value> = totals
        .each()
        .map(|(name, count)| (name.to_owned(), count.into()))
        .collect();
    json!({
        "protocol": protocol.name(),
        "design": design.name(),
        "closed": closed,
        "counters": counters,
        "system_calls": totals.system_calls(),
        "system_calls_per_message": calls_per_message(totals),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_said_where_some_were_made_and_calls_a_message_where_there_was_one() {
        let mut totals = Totals::default();
        totals.waits = 3;
        totals.sends = 3;
        let nobody = summary(BuiltIn::Echo, Design::Reactor, &totals);
        assert_eq!(
            nobody,
            "echo on reactor\n\
             accepted       0 (0 attempts failed)\n\
             closed         0\n\
             bytes          0 in, 0 out\n\
             messages       0, 0 delivered to others, 0 came too late for them\n\
             system calls   6\n"
        );
        assert_eq!(calls_per_message(&totals), None);
        totals.units_created = 2;
        totals.units_lost = 1;
        totals.messages = 4;
        let some = summary(BuiltIn::Echo, Design::Reactor, &totals);
        for line in [
            "units          2 made, 1 lost\n",
            "system calls   6, 1.50 a message\n",
        ] {
            assert!(some.contains(line), "{line:?} in {some}");
        }
        assert_eq!(calls_per_message(&totals), Some(1.5));
    }
}
