//! What is expected of a trace: what a rehearsal of its protocol does, without sockets, threads or processes. Every
//! design is compared with that, and so with each other.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use threadgauge_reactor::testing::Rehearsal;
use threadgauge_reactor::{BuiltIn, CloseReason, ConnectionId, Protocol, Visitor};

use crate::differences::{Difference, is_documented};
use crate::trace::{End, Room, Talk, Trace, joined};
use crate::watched::{Seen, Watched};

/// What is expected of a trace.
#[derive(Debug)]
pub struct Expected {
    pub clients: Vec<OfClient>,
    /// What is counted of it while all its clients are connected, and have had what their openings ask for.
    pub connected: Counts,
    /// What is counted of it when all is over but for the stop, if it waits for that.
    pub settled: Counts,
    /// What is counted of it in the end.
    pub ended: Counts,
}

/// What is expected of a client.
#[derive(Debug)]
pub struct OfClient {
    /// What it gets for its opening, and after that.
    pub opening: Vec<u8>,
    pub rest: Vec<u8>,
    pub ending: Ending,
    /// What its session sees.
    pub used: Range,
    pub messages: Range,
    pub ended: bool,
    pub stopping: bool,
    pub reason: CloseReason,
}

/// How the client sees its connection end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It gets all, and then the end.
    End,
    /// It has read all, and ends it itself.
    Own,
    /// It gets a part, and then a reset.
    CutOff,
}

/// What a server has counted, by name.
pub type Counted = HashMap<String, u64>;

/// At least and at most.
pub type Range = RangeInclusive<u64>;

/// How often something is counted, by its name.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<&'static str, (u64, u64)>);

impl Counts {
    fn of<const COUNT: usize>(counts: [(&'static str, Range); COUNT]) -> Self {
        let pairs = counts.map(|(name, range)| (name, range.into_inner()));
        Self(pairs.into_iter().collect())
    }

    /// Counts both.
    pub fn add(&mut self, other: &Self) {
        for (name, (least, most)) in &other.0 {
            let sum = self.0.entry(name).or_default();
            *sum = (sum.0 + least, sum.1 + most);
        }
    }

    /// Those that are not as expected, in words.
    pub fn differ(&self, counted: &Counted) -> Option<String> {
        let differ = self.0.iter().filter_map(|(name, &(least, most))| {
            let came = counted.get(*name).copied().unwrap_or(0);
            (came < least || most < came).then(|| format!("{came} {name} instead of {least} to {most}"))
        });
        let differ: Vec<String> = differ.collect();
        (!differ.is_empty()).then(|| format!("there are counted {}", differ.join(", ")))
    }
}

/// Of the trace in this place of its round.
pub fn expected(protocol: BuiltIn, place: usize, trace: &Trace) -> Expected {
    match trace {
        Trace::Talk(talk) => of_talk(protocol, talk),
        Trace::Room(room) => of_room(protocol, place, room),
    }
}

fn of_talk(protocol: BuiltIn, talk: &Talk) -> Expected {
    let (opening, last) = (joined(&talk.opening), joined(&talk.last));
    let mut acts = vec![Act::Connect, Act::Say(0, opening.clone()), Act::Lose(0)];
    let opened = rehearse(protocol, &acts).seen[0];
    acts.pop();
    acts.push(Act::Say(0, last.clone()));
    acts.push(match talk.end {
        End::HalfClose | End::Slow => Act::End(0),
        End::Stop => Act::Stop,
        // If it has not ended. But for the reason, its session sees the same.
        End::Session | End::Reset | End::Idle | End::Dribble | End::Deaf => Act::Lose(0),
    });
    let played = rehearse(protocol, &acts);
    let (seen, to_opening) = (played.seen[0], played.heard[1][0].clone());
    let rest = [&played.heard[2][0][..], &played.heard[3][0]].concat();
    let (reason, ending) = match talk.end {
        // Its first head has never come.
        End::Idle if opened.messages == 0 => (CloseReason::Handshake, Ending::End),
        End::Idle => (CloseReason::Idle, Ending::End),
        End::Dribble => (CloseReason::Handshake, Ending::End),
        End::Deaf => (CloseReason::WriteTimeout, Ending::CutOff),
        End::Reset => (CloseReason::Lost, Ending::Own),
        _ => (seen.reason.expect("it was closed"), Ending::End),
    };
    // Of who takes nothing, it is not said how far it comes.
    let range = |least: u64, most: u64| match ending {
        Ending::CutOff => least..=most,
        _ => most..=most,
    };
    let of_echo = protocol == BuiltIn::Echo && is_documented(Difference::MessagesOfEcho);
    let messages = |seen: &Seen, range: Range| match of_echo {
        true => u64::from(seen.used > 0)..=seen.used,
        false => range,
    };
    let in_all = messages(&seen, range(opened.messages, seen.messages));
    let sent = (opening.len() + last.len() + talk.tail.map_or(0, |tail| tail.count)) as u64;
    let used = match reason {
        // What comes with what is refused may be used with it.
        CloseReason::Refused => 0..=sent,
        _ => range(opened.used, seen.used),
    };
    let [asked, answered] = [opening.len(), to_opening.len()].map(|count| count as u64);
    let out = answered + rest.len() as u64;
    // Who dribbles sends on until it has read the end.
    let came = match talk.end {
        End::Dribble => asked..=sent,
        _ => range(asked, sent),
    };
    let counts = |closed: Range| {
        Counts::of([
            ("accepted", 1..=1),
            ("closed", closed.clone()),
            (reason.name(), closed),
            ("messages", in_all.clone()),
            ("bytes_in", came.clone()),
            ("bytes_out", range(answered, out)),
            ("deliveries", 0..=0),
            ("undeliverable", 0..=0),
        ])
    };
    Expected {
        connected: Counts::of([
            ("accepted", 1..=1),
            ("closed", 0..=0),
            ("messages", messages(&opened, opened.messages..=opened.messages)),
            ("bytes_in", asked..=asked),
            ("bytes_out", answered..=answered),
        ]),
        settled: match talk.end {
            End::Stop => counts(0..=0),
            _ => counts(1..=1),
        },
        ended: counts(1..=1),
        clients: vec![OfClient {
            opening: to_opening,
            rest,
            ending,
            used,
            messages: in_all,
            ended: seen.ended,
            stopping: seen.stopping,
            reason,
        }],
    }
}

fn of_room(protocol: BuiltIn, place: usize, room: &Room) -> Expected {
    let members = room.members.len();
    let join = joins(place);
    let lines: Vec<Vec<u8>> = room.members.iter().map(|(says, _)| joined(says)).collect();
    let mut acts = vec![Act::Connect; members];
    acts.extend((0..members).map(|member| Act::Say(member, join.clone())));
    acts.extend(
        lines
            .iter()
            .cloned()
            .enumerate()
            .map(|(member, said)| Act::Say(member, said)),
    );
    acts.extend((0..members).map(Act::End));
    let played = rehearse(protocol, &acts);
    let heard = |member: usize, acts: RangeInclusive<usize>| -> Vec<u8> {
        acts.flat_map(|act| played.heard[act][member].clone()).collect()
    };
    let clients: Vec<OfClient> = (0..members)
        .map(|member| {
            let seen = played.seen[member];
            OfClient {
                opening: heard(member, members..=2 * members - 1),
                rest: heard(member, 2 * members..=acts.len() - 1),
                ending: Ending::End,
                used: seen.used..=seen.used,
                messages: seen.messages..=seen.messages,
                ended: seen.ended,
                stopping: seen.stopping,
                reason: seen.reason.expect("it was closed"),
            }
        })
        .collect();
    let sum = |of: &dyn Fn(usize) -> usize| {
        let sum: usize = (0..members).map(of).sum();
        sum as u64..=sum as u64
    };
    let count = |line: &Vec<u8>| line.iter().filter(|&&byte| byte == b'\n').count();
    let each = members as u64..=members as u64;
    let ended = Counts::of([
        ("accepted", each.clone()),
        ("closed", each.clone()),
        (CloseReason::PeerEnded.name(), each.clone()),
        ("messages", sum(&|member| 1 + count(&lines[member]))),
        ("bytes_in", sum(&|member| join.len() + lines[member].len())),
        (
            "bytes_out",
            sum(&|member| clients[member].opening.len() + clients[member].rest.len()),
        ),
        ("deliveries", sum(&|member| (members - 1) * count(&lines[member]))),
        ("undeliverable", 0..=0),
    ]);
    Expected {
        connected: Counts::of([
            ("accepted", each.clone()),
            ("closed", 0..=0),
            ("messages", each),
            ("bytes_in", sum(&|_| join.len())),
            ("bytes_out", sum(&|member| clients[member].opening.len())),
            ("deliveries", 0..=0),
        ]),
        settled: ended.clone(),
        ended,
        clients,
    }
}

/// What a member of the room of the trace in this place says first.
pub fn joins(place: usize) -> Vec<u8> {
    format!("join room-{place}\n").into_bytes()
}

/// Something that a rehearsed client does, by its number.
#[derive(Clone)]
enum Act {
    Connect,
    Say(usize, Vec<u8>),
    End(usize),
    Lose(usize),
    Stop,
}

/// What came of acts.
struct Played {
    /// For each act, what each client was sent.
    heard: Vec<Vec<Vec<u8>>>,
    /// What each session has seen in the end.
    seen: Vec<Seen>,
}

fn rehearse(protocol: BuiltIn, acts: &[Act]) -> Played {
    protocol.visit(Rehearse(acts))
}

struct Rehearse<'a>(&'a [Act]);

impl Visitor for Rehearse<'_> {
    type Output = Played;

    fn visit<P: Protocol>(self, protocol: P) -> Played {
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&log);
        let watched = Watched::new(protocol, move |one| seen.lock().expect("no panic").push(*one));
        let mut server = Rehearsal::new(watched);
        let mut clients: Vec<ConnectionId> = Vec::new();
        let heard = self.0.iter().map(|act| {
            match act {
                Act::Connect => clients.push(server.connect()),
                Act::Say(_, bytes) if bytes.is_empty() => {}
                Act::Say(client, bytes) => server.receive(clients[*client], bytes),
                Act::End(client) => server.end(clients[*client]),
                Act::Lose(client) => server.lose(clients[*client]),
                Act::Stop => server.stop(),
            }
            while server.steps() > 0 {
                server.finish_step(0);
            }
            clients.iter().map(|&client| server.take_output(client)).collect()
        });
        let heard = heard.collect();
        let seen = log.lock().expect("no panic").clone();
        Played { heard, seen }
    }
}
