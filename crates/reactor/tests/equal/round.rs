//! A round: a server of one design, its clients at once or one after the other, and what is compared.

use std::net::SocketAddr;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use threadgauge_reactor::{AtOnce, BuiltIn, Design, Sends};

use crate::client::{Client, Heard};
use crate::dates::undated;
use crate::differences::{Difference, is_documented};
use crate::model::{Counts, Ending, Expected, OfClient, expected, joins};
use crate::server::Running;
use crate::trace::{Piece, Round, Trace};
use crate::watched::Seen;

/// A design, and how it sends where that is to be other than its default.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub design: Design,
    pub sends: Option<Sends>,
}

impl Way {
    /// Whether a second client may have to wait for the end of the first.
    fn is_one_by_one(self) -> bool {
        let waits = self.design.about().at_once == AtOnce::One
            // The kernel gives connections to the workers by a hash.
            || self.design == Design::PreforkedReuseport;
        waits && is_documented(Difference::AtOnce)
    }
}

/// As many clients are played one after the other where each waits for seconds.
const FEW: usize = 3;

/// Plays it on a design.
///
/// # Errors
///
/// What is not as expected, and of which trace.
pub fn play(round: &Round, way: Way) -> Result<(), String> {
    let protocol = round.protocol;
    let places = (0..).zip(&round.traces);
    let expected: Vec<Expected> = places
        .map(|(place, trace)| expected(protocol, place, trace))
        .collect();
    let both = (0..).zip(round.traces.iter().zip(&expected));
    let players = both.map(|(place, (trace, expected))| Player {
        protocol,
        place,
        trace,
        expected,
        clients: Vec::new(),
        heard: Vec::new(),
    });
    if !way.is_one_by_one() {
        return serve(round, way, players.collect());
    }
    // Who waits for the stop keeps the others from being served, and so has a server of its own.
    let most = match round.waits_for_times() {
        true => FEW,
        false => usize::MAX,
    };
    let (last, others): (Vec<_>, Vec<_>) = players
        .take(most)
        .partition(|player| player.trace.waits_for_stop());
    serve(round, way, others)?;
    last.into_iter()
        .try_for_each(|player| serve(round, way, vec![player]))
}

/// Has a new server serve these.
fn serve(round: &Round, way: Way, mut players: Vec<Player<'_>>) -> Result<(), String> {
    let sends = way.sends.map(|sends| format!("sends={}", sends.name()));
    let settings: Vec<String> = round.settings.iter().cloned().chain(sends).collect();
    let clients: usize = players.iter().map(|player| player.trace.clients()).sum();
    let (workers, at_once) = match way.is_one_by_one() {
        true => (2, 1),
        false => (clients + 1, players.len().max(1)),
    };
    let mut server = Running::start(round.protocol.name(), way.design, workers, &settings);
    let stage = Stage {
        round,
        server: &mut server,
        at_once,
    };
    thread::scope(|scope| stage.play(scope, &mut players))?;
    let totals = server.end()?;
    let mut all = Counts::default();
    players.iter().for_each(|player| all.add(&player.expected.ended));
    if let Some(differs) = all.differ(&totals) {
        return Err(format!(
            "in the end {differs}\n  of the traces {:#?}",
            round.traces
        ));
    }
    players.iter().try_for_each(|player| player.compare(&server))
}

/// A server, and how many players it has at once.
struct Stage<'a> {
    round: &'a Round,
    server: &'a mut Running,
    at_once: usize,
}

impl Stage<'_> {
    /// Has all play, up to the end of the last connection.
    fn play<'scope>(
        mut self,
        scope: &'scope Scope<'scope, '_>,
        players: &'scope mut [Player<'_>],
    ) -> Result<(), String> {
        let played = self.play_and_stop(scope, players);
        if played.is_err() {
            // Nobody waits for it any more.
            self.server.kill();
        }
        played
    }

    fn play_and_stop<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        players: &'scope mut [Player<'_>],
    ) -> Result<(), String> {
        let address = self.server.address;
        let (mut counted, mut waiting) = (Counts::default(), Vec::new());
        for players in players.chunks_mut(self.at_once) {
            thread::scope(|opening| {
                each(
                    players
                        .iter_mut()
                        .map(|player| opening.spawn(move || player.open(address))),
                )
            })?;
            let mut connected = counted.clone();
            let traces: Vec<&Trace> = players.iter().map(|player| player.trace).collect();
            for player in players.iter() {
                connected.add(&player.expected.connected);
                counted.add(&player.expected.settled);
            }
            // Who is to be idle by its own will is not kept waiting.
            if !self.round.has_idle_clients() {
                self.until("while all clients are connected", &connected, &traces)?;
            }
            let mut finishing = Vec::new();
            for player in players {
                let waits = player.trace.waits_for_stop();
                let thread = scope.spawn(move || player.finish());
                match waits {
                    true => waiting.push(thread),
                    false => finishing.push(thread),
                }
            }
            each(finishing)?;
            self.until("before the stop", &counted, &traces)?;
        }
        self.server.tell_to_stop();
        each(waiting)
    }

    fn until(&mut self, when: &str, counts: &Counts, traces: &[&Trace]) -> Result<(), String> {
        let fault = |differs| format!("{when} {differs}\n  of the traces {traces:#?}");
        self.server.until(counts).map_err(fault)
    }
}

/// What went wrong first.
fn each<'scope>(
    threads: impl IntoIterator<Item = ScopedJoinHandle<'scope, Result<(), String>>>,
) -> Result<(), String> {
    let threads: Vec<_> = threads.into_iter().collect();
    let outcomes: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    outcomes
        .into_iter()
        .try_for_each(|outcome| outcome.expect("no panic"))
}

/// The clients of a trace, as they are played.
struct Player<'a> {
    protocol: BuiltIn,
    place: usize,
    trace: &'a Trace,
    expected: &'a Expected,
    clients: Vec<Client>,
    heard: Vec<Heard>,
}

impl Player<'_> {
    /// Connects, and has its opening answered.
    fn open(&mut self, address: SocketAddr) -> Result<(), String> {
        let join = [Piece {
            bytes: joins(self.place),
            pause: Duration::ZERO,
        }];
        let says: Vec<_> = match self.trace {
            Trace::Talk(talk) => vec![(&talk.opening[..], &talk.reader)],
            Trace::Room(room) => room
                .members
                .iter()
                .map(|(_, reader)| (&join[..], reader))
                .collect(),
        };
        for ((opening, reader), expected) in says.into_iter().zip(&self.expected.clients) {
            let opened = Client::connect(address, reader).map_err(|error| error.to_string());
            let heard = opened.and_then(|client| {
                let heard = client.say_and_hear(opening, reader, expected.opening.len())?;
                self.clients.push(client);
                Ok(heard)
            });
            let differs = match heard {
                Ok(heard) => other_bytes(self.protocol, &heard, &expected.opening),
                Err(error) => Some(error),
            };
            if let Some(differs) = differs {
                return Err(self.fault(&format!("at its opening {differs}")));
            }
        }
        Ok(())
    }

    /// Plays the rest of it.
    fn finish(&mut self) -> Result<(), String> {
        let clients = self.clients.iter().zip(&self.expected.clients);
        self.heard = match self.trace {
            Trace::Talk(talk) => clients
                .map(|(client, expected)| client.finish(talk, expected.rest.len()))
                .collect(),
            Trace::Room(room) => thread::scope(|scope| {
                let members: Vec<_> = clients
                    .zip(&room.members)
                    .map(|((client, expected), (says, reader))| {
                        scope.spawn(|| client.say_hear_and_leave(says, reader, expected.rest.len()))
                    })
                    .collect();
                let members = members.into_iter();
                members.map(|member| member.join().expect("no panic")).collect()
            }),
        };
        self.clients.iter().for_each(Client::leave);
        for (heard, expected) in self.heard.iter().zip(&self.expected.clients) {
            let differs = match &heard.ending {
                Err(error) => Some(error.clone()),
                Ok(came) if *came != expected.ending => {
                    Some(format!("its end was {came:?} instead of {:?}", expected.ending))
                }
                Ok(Ending::CutOff) => None,
                Ok(_) => other_bytes(self.protocol, &heard.bytes, &expected.rest),
            };
            if let Some(differs) = differs {
                let (came, of) = (heard.bytes.len(), expected.rest.len());
                return Err(self.fault(&format!("after {came} of {of} bytes {differs}")));
            }
        }
        Ok(())
    }

    /// What is known once the server has ended.
    fn compare(&self, server: &Running) -> Result<(), String> {
        for (client, expected) in self.clients.iter().zip(&self.expected.clients) {
            if expected.ending == Ending::End && client.was_reset() {
                return Err(self.fault("a reset came after the end"));
            }
            let seen = server.seen(client.port);
            if !seen.is_some_and(|seen| expected.is(&seen)) {
                return Err(self.fault(&format!("its session has seen {seen:?}, and not {expected:?}")));
            }
        }
        Ok(())
    }

    fn fault(&self, what: &str) -> String {
        format!("{what}\n  of the trace {}: {:#?}", self.place, self.trace)
    }
}

impl OfClient {
    fn is(&self, seen: &Seen) -> bool {
        self.used.contains(&seen.used)
            && self.messages.contains(&seen.messages)
            && (self.ended, self.stopping, Some(self.reason)) == (seen.ended, seen.stopping, seen.reason)
    }
}

/// How bytes differ from those expected, but for what may.
fn other_bytes(protocol: BuiltIn, came: &[u8], expected: &[u8]) -> Option<String> {
    let (came, expected) = (comparable(protocol, came), comparable(protocol, expected));
    if came == expected {
        return None;
    }
    let equal = came
        .iter()
        .zip(&expected)
        .take_while(|(came, expected)| came == expected);
    let equal = equal.count();
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    let (came, expected) = (shown(&came[equal..]), shown(&expected[equal..]));
    Some(format!(
        "after {equal} equal bytes {came:?} came instead of {expected:?}"
    ))
}

/// Bytes without what may differ from one time to another.
fn comparable(protocol: BuiltIn, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let lines = |bytes: &[u8]| {
        bytes
            .split_inclusive(|&byte| byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    let mut lines: Vec<Vec<u8>> = match protocol {
        BuiltIn::Http => {
            undated(&mut bytes);
            return bytes;
        }
        BuiltIn::Numbered if is_documented(Difference::OrderOfSteps) => lines(&bytes),
        BuiltIn::Chat => lines(&bytes),
        _ => return bytes,
    };
    match protocol {
        // In the order of each who has spoken.
        BuiltIn::Chat => lines.sort_by_key(|line| line[0]),
        _ => lines.sort(),
    }
    lines.concat()
}
