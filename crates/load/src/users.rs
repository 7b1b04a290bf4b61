//! Users of a chat as VolanoMark has them: two blocking threads each, one that sends and one that receives.
//!
//! [`Groups`](crate::Groups) speaks for thousands from one thread, which is cheap, and what it sends in a turn goes out
//! together. Here each message is a system call of its own and each delivery wakes a thread, as with the clients of
//! that benchmark. Every delivery is checked all the same: sender, number, every byte.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::{LockResult, PoisonError, RwLock};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use threadgauge_machine::clock::process_cpu_ns;
use threadgauge_machine::{Resource, raise_to_hard};

use crate::codec::{Chat, Codec as _, CodecError};
use crate::error::LoadError;
use crate::faults::{Fault, FaultKind, Faults, MessageId};
use crate::groups::{Plan, Tally};
use crate::payload::{MOST_PAYLOAD_BYTES, Payloads};

/// Of a line: longer than any message, and than the answer to a greeting.
const MOST_LINE_BYTES: usize = 2 * MOST_PAYLOAD_BYTES;
/// How much of what comes beyond all messages is looked at.
const REST_BYTES: usize = 4 * 1024;
/// Of a thread that only sends or receives.
const STACK_BYTES: usize = 128 * 1024;

/// What a user does after each message that it has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSending {
    /// It sends the next.
    GoOn,
    /// It gives up the CPU once, as VolanoMark's clients do.
    Yield,
}

/// Users of the protocol `chat` who are in their rooms. Dropped, their connections are closed.
#[derive(Debug)]
pub struct Users {
    plan: Plan,
    payloads: Payloads,
    streams: Vec<TcpStream>,
}

impl Users {
    /// Connects all and has each join its room. Blocks meanwhile.
    ///
    /// # Errors
    ///
    /// If a connection fails, or the server does not answer within the plan's patience.
    ///
    /// # Panics
    ///
    /// If rooms do not come out even, or messages are smaller or larger than can be.
    pub fn connect(server: SocketAddr, plan: Plan) -> Result<Self, LoadError> {
        let Plan {
            connections,
            group_size,
            payload_bytes,
            ..
        } = plan;
        assert!(
            group_size > 1 && connections.is_multiple_of(group_size),
            "{connections} users make no rooms of {group_size}"
        );
        // Too low a hard limit shows when a connection fails.
        let _ = raise_to_hard(Resource::OpenFiles);
        let payloads = Payloads::of(payload_bytes);
        let streams = (0..connections).map(|user| join(server, user, plan));
        Ok(Self {
            plan,
            payloads,
            streams: streams.collect::<Result<_, _>>()?,
        })
    }

    /// Each sends so many messages as fast as its socket takes them, until each has what the others in its room have
    /// sent. Blocks meanwhile, for no longer than the patience after the last that came. Once only, since users number
    /// their messages from 1: what comes back is still connected, for a look at the server.
    ///
    /// The tally's CPU time is that of this process, all its threads, and its latencies are empty.
    ///
    /// # Errors
    ///
    /// If a thread cannot be made, a connection fails or ends, or with [`LoadError::Faulty`] if a delivery was not as
    /// it must be.
    pub fn talk(self, messages: u64, after: AfterSending) -> Result<(Talked, Tally), LoadError> {
        let (users, size) = (self.plan.connections, self.plan.group_size);
        // Whoever is there waits until all are, and goes home where one could not be made.
        let all_there = RwLock::new(false);
        let user = |user: usize| User {
            user,
            room: user / size * size..(user / size + 1) * size,
            messages,
            payloads: &self.payloads,
            patience: self.plan.patience,
            stream: &self.streams[user],
            all_there: &all_there,
        };
        let mut tally = Tally {
            messages: users as u64 * messages,
            ..Tally::default()
        };
        std::thread::scope(|scope| {
            let mut start = lock(all_there.write());
            let mut senders = Vec::with_capacity(users);
            let mut receivers = Vec::with_capacity(users);
            for number in 0..users {
                let (sends, receives) = (user(number), user(number));
                senders.push(thread(scope, move || sends.send(after))?);
                receivers.push(thread(scope, move || receives.receive())?);
            }
            *start = true;
            let (begun, cpu_ns) = (Instant::now(), process_cpu_ns());
            drop(start);
            senders.into_iter().try_for_each(joined)?;
            for receiver in receivers {
                let (delivered, faults) = joined(receiver)?;
                tally.deliveries += delivered;
                tally.faults.merge(&faults);
            }
            tally.elapsed = begun.elapsed();
            tally.cpu = Duration::from_nanos(process_cpu_ns().saturating_sub(cpu_ns));
            Ok::<_, LoadError>(())
        })?;
        match tally.faults.is_empty() {
            true => Ok((Talked(self.streams), tally)),
            false => Err(LoadError::Faulty(Box::new(tally))),
        }
    }
}

/// Users who have said all. Dropped, their connections are closed.
#[derive(Debug)]
pub struct Talked(#[expect(dead_code, reason = "kept open")] Vec<TcpStream>);

/// A connection that has joined its room.
fn join(server: SocketAddr, user: usize, plan: Plan) -> Result<TcpStream, LoadError> {
    let failed = |source| LoadError::Connect {
        connection: user,
        source,
    };
    let made = TcpStream::connect_timeout(&server, plan.patience).and_then(|stream| {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(plan.patience))?;
        stream.set_write_timeout(Some(plan.patience))?;
        Ok(stream)
    });
    let stream = made.map_err(failed)?;
    let mut greeting = Vec::new();
    Chat.greet(user, user / plan.group_size, &mut greeting);
    (&stream).write_all(&greeting).map_err(failed)?;
    let (mut input, mut answer) = (BufReader::new(&stream), Vec::new());
    match read_line(&mut input, &mut answer, plan.patience) {
        // Nobody speaks yet, so nothing is behind the line.
        Ok(true) if answer == greeting_answer(&greeting) && input.buffer().is_empty() => Ok(stream),
        Ok(_) => Err(LoadError::Codec {
            connection: user,
            source: CodecError::foreign(Chat.name(), &answer),
        }),
        Err(error) if is_late(&error) => Err(LoadError::NotGreeted {
            connections: 1,
            patience: plan.patience,
            protocol: Chat.name(),
            said: None,
        }),
        Err(source) => Err(failed(source)),
    }
}

/// `join 7` is answered with `joined 7`, and the end of the line.
fn greeting_answer(greeting: &[u8]) -> Vec<u8> {
    let room = greeting.strip_prefix(b"join ").unwrap_or(greeting);
    [b"joined ", room.trim_ascii_end()].concat()
}

/// The next line without its end, over what `line` holds; without one the connection has ended. Each read waits as long
/// as the stream has it, and a line that comes piece by piece is awaited for the patience.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, patience: Duration) -> io::Result<bool> {
    line.clear();
    let mut begun = None;
    loop {
        let held = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            held => held?,
        };
        if held.is_empty() {
            return Ok(false);
        }
        if let Some(end) = memchr::memchr(b'\n', held) {
            line.extend_from_slice(&held[..end]);
            input.consume(end + 1);
            return Ok(true);
        }
        line.extend_from_slice(held);
        let held = held.len();
        input.consume(held);
        if line.len() > MOST_LINE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a line without an end",
            ));
        }
        if begun.get_or_insert_with(Instant::now).elapsed() > patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// The read timeout is over.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A thread with a small stack.
fn thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    does: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, LoadError> {
    let builder = Builder::new().stack_size(STACK_BYTES);
    builder.spawn_scoped(scope, does).map_err(LoadError::Thread)
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Nobody changes it and panics.
fn lock<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// One user, as each of its threads knows it.
struct User<'a> {
    user: usize,
    /// Those in its room, itself among them.
    room: Range<usize>,
    /// Of each user.
    messages: u64,
    payloads: &'a Payloads,
    /// How long a line is awaited.
    patience: Duration,
    stream: &'a TcpStream,
    all_there: &'a RwLock<bool>,
}

impl User<'_> {
    /// Whether all threads could be made. Blocks until that is known.
    fn waits(&self) -> bool {
        *lock(self.all_there.read())
    }

    fn send(&self, after: AfterSending) -> Result<(), LoadError> {
        if !self.waits() {
            return Ok(());
        }
        let (mut payload, mut line) = (Vec::new(), Vec::new());
        for number in 1..=self.messages {
            self.payloads.write(self.user, number, &mut payload);
            line.clear();
            Chat.publish(0, &payload, &mut line);
            let mut stream = self.stream;
            stream.write_all(&line).map_err(|source| LoadError::Socket {
                connection: self.user,
                source,
            })?;
            if after == AfterSending::Yield {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Until all has come, or nothing comes any more: good deliveries, and what was wrong with the others.
    fn receive(&self) -> Result<(u64, Faults), LoadError> {
        let mut heard = HeardBy {
            user: self.user,
            room: self.room.clone(),
            messages: self.messages,
            payloads: self.payloads,
            last: vec![0; self.room.len()],
            holes: HashSet::new(),
            delivered: 0,
            faults: Faults::default(),
        };
        if !self.waits() {
            return Ok((0, heard.faults));
        }
        let expected = self.messages * (self.room.len() as u64 - 1);
        let mut input = BufReader::new(self.stream);
        let mut line = Vec::new();
        let connection = self.user;
        for _ in 0..expected {
            match read_line(&mut input, &mut line, self.patience) {
                Ok(true) => heard.hears(&line),
                Ok(false) => return Err(LoadError::Closed(connection)),
                Err(error) if is_late(&error) => break,
                Err(source) => return Err(LoadError::Socket { connection, source }),
            }
        }
        // What has come beyond that is wrong, and says how.
        let mut rest = input.buffer().to_vec();
        let mut more = [0; REST_BYTES];
        if let Ok((received, _)) = recv(self.stream, &mut more, RecvFlags::DONTWAIT) {
            rest.extend_from_slice(&more[..received]);
        }
        let lines = rest.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.for_each(|line| heard.hears(line));
        Ok(heard.finish())
    }
}

/// What one user has heard of the others.
struct HeardBy<'a> {
    user: usize,
    room: Range<usize>,
    messages: u64,
    payloads: &'a Payloads,
    /// By place in the room, the largest number heard.
    last: Vec<u64>,
    /// By sender and number: passed over, and not heard since. Empty but for faults.
    holes: HashSet<(usize, u64)>,
    delivered: u64,
    faults: Faults,
}

impl HeardBy<'_> {
    fn hears(&mut self, payload: &[u8]) {
        let Some((sender, number)) = self.payloads.read(payload) else {
            let beginning = &payload[..payload.len().min(64)];
            let text = String::from_utf8_lossy(beginning).into_owned();
            return self.wrong(FaultKind::Corrupted, MessageId::Unreadable(text));
        };
        let message = MessageId::Known { sender, number };
        let is_for_it = self.room.contains(&sender) && sender != self.user && number <= self.messages;
        if !is_for_it || number == 0 {
            return self.wrong(FaultKind::Misdelivered, message);
        }
        let last = &mut self.last[sender - self.room.start];
        if number > *last {
            self.holes
                .extend((*last + 1..number).map(|earlier| (sender, earlier)));
            *last = number;
        } else if self.holes.remove(&(sender, number)) {
            self.wrong(FaultKind::Reordered, message.clone());
        } else {
            return self.wrong(FaultKind::Duplicated, message);
        }
        match self.payloads.is_whole(payload, sender, number) {
            true => self.delivered += 1,
            false => self.wrong(FaultKind::Corrupted, message),
        }
    }

    fn wrong(&mut self, kind: FaultKind, message: MessageId) {
        self.faults.record(Fault {
            kind,
            connection: self.user,
            message,
        });
    }

    /// What has not come is lost.
    fn finish(mut self) -> (u64, Faults) {
        for (place, last) in std::mem::take(&mut self.last).into_iter().enumerate() {
            let sender = self.room.start + place;
            if sender != self.user {
                self.holes
                    .extend((last + 1..=self.messages).map(|number| (sender, number)));
            }
        }
        let mut lost: Vec<_> = std::mem::take(&mut self.holes).into_iter().collect();
        lost.sort_unstable();
        for (sender, number) in lost {
            self.wrong(FaultKind::Lost, MessageId::Known { sender, number });
        }
        (self.delivered, self.faults)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{Ipv4Addr, Shutdown, TcpListener};
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::testing::{PATIENCE, serve};

    const BYTES: usize = 64;

    fn plan(connections: usize, patience: Duration) -> Plan {
        Plan {
            connections,
            group_size: 2,
            payload_bytes: BYTES.into(),
            patience,
        }
    }

    /// A server of rooms that has each message go through `change` once for each who is to hear it.
    fn server(change: impl Fn(&[u8]) -> Vec<Vec<u8>> + Clone + Send + 'static) -> SocketAddr {
        type Members = Vec<(Vec<u8>, Arc<TcpStream>)>;
        let all = Arc::new(Mutex::new(Members::new()));
        serve(move |stream| {
            let stream = Arc::new(stream);
            let mut lines = BufReader::new(&*stream).split(b'\n').map_while(Result::ok);
            let room = lines.next().unwrap_or_default();
            all.lock().unwrap().push((room.clone(), Arc::clone(&stream)));
            let _ = (&*stream).write_all(&[&greeting_answer(&room)[..], b"\n"].concat());
            for line in lines {
                let all = all.lock().unwrap();
                let others = all
                    .iter()
                    .filter(|(of, to)| *of == room && !Arc::ptr_eq(to, &stream));
                for (_, to) in others {
                    for line in change(&line) {
                        let _ = (&**to).write_all(&[&line[..], b"\n"].concat());
                    }
                }
            }
        })
    }

    #[test]
    fn a_greeting_is_answered_by_its_room() {
        assert_eq!(greeting_answer(b"join 7\n"), b"joined 7");
    }

    #[test]
    fn each_message_of_an_honest_server_reaches_the_others_in_the_room() {
        let honest = server(|line| vec![line.to_vec()]);
        for (after, group_size) in [(AfterSending::GoOn, 2), (AfterSending::Yield, 3)] {
            let plan = Plan {
                group_size,
                ..plan(6, PATIENCE)
            };
            let (_, tally) = Users::connect(honest, plan).unwrap().talk(20, after).unwrap();
            assert_eq!(
                (tally.messages, tally.deliveries),
                (120, 120 * (group_size as u64 - 1))
            );
        }
    }

    /// What is wrong where the server does this to message 7 of the first user of each room.
    fn faults(change: impl Fn(&[u8]) -> Vec<Vec<u8>> + Clone + Send + 'static) -> Faults {
        let payloads = Arc::new(Payloads::of(BYTES.into()));
        let faulty = server(move |line| match payloads.read(line) {
            Some((0, 7)) => change(line),
            _ => vec![line.to_vec()],
        });
        let users = Users::connect(faulty, plan(2, Duration::from_millis(300))).unwrap();
        match users.talk(10, AfterSending::GoOn) {
            Err(LoadError::Faulty(tally)) => tally.faults,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_mistake_is_counted_under_its_own_word() {
        let counts = |faults: &Faults| FaultKind::ALL.map(|kind| faults.count(kind));
        assert_eq!(counts(&faults(|_| Vec::new())), [1, 0, 0, 0, 0]);
        let changed = |line: &[u8]| {
            let mut line = line.to_vec();
            line[40] ^= 1;
            vec![line]
        };
        assert_eq!(counts(&faults(changed)), [0, 0, 0, 0, 1]);
        // Who gets one twice does not wait for the last, which is then lost to it.
        let twice = faults(|line| vec![line.to_vec(), line.to_vec()]);
        assert_eq!(twice.count(FaultKind::Duplicated), 1);
    }

    #[test]
    fn a_late_message_was_reordered_and_a_foreign_one_misdelivered() {
        let payloads = Payloads::of(BYTES.into());
        let mut heard = HeardBy {
            user: 2,
            room: 2..4,
            messages: 3,
            payloads: &payloads,
            last: vec![0; 2],
            holes: HashSet::new(),
            delivered: 0,
            faults: Faults::default(),
        };
        for (sender, number) in [(3, 1), (3, 3), (3, 2), (9, 1), (2, 1), (3, 4)] {
            let mut payload = Vec::new();
            payloads.write(sender, number, &mut payload);
            heard.hears(&payload);
        }
        let (delivered, faults) = heard.finish();
        assert_eq!(delivered, 3);
        assert_eq!(FaultKind::ALL.map(|kind| faults.count(kind)), [0, 0, 1, 3, 0]);
    }

    #[test]
    fn a_line_is_read_in_pieces_up_to_its_limits() {
        let longest = vec![b'x'; MOST_LINE_BYTES];
        let mut line = Vec::new();
        let mut input = longest[..].chain(&b"\n\nnext"[..]);
        for bytes in [MOST_LINE_BYTES, 0] {
            assert!(read_line(&mut input, &mut line, PATIENCE).unwrap());
            assert_eq!(line.len(), bytes);
        }
        // The connection ended within a line.
        assert!(!read_line(&mut input, &mut line, PATIENCE).unwrap());
        let too_long = [&longest[..], b"x"].concat();
        let mut input = too_long[..].chain(&b"\n"[..]);
        let refused = read_line(&mut input, &mut line, PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_line_that_does_not_end_ends_the_run_and_fills_no_memory() {
        let endless = |at_once: bool| {
            serve(move |mut stream| {
                let mut line = Vec::new();
                let _ = BufReader::new(&stream).read_until(b'\n', &mut line);
                let answer = [&greeting_answer(&line)[..], b"\n"].concat();
                let mut begun = stream.write_all(if at_once { b"" } else { &answer });
                while begun.is_ok() {
                    begun = stream.write_all(&[b'x'; 4096]);
                }
            })
        };
        let refused = Users::connect(endless(true), plan(2, PATIENCE)).unwrap_err();
        assert!(refused.to_string().contains("without an end"), "{refused}");
        let users = Users::connect(endless(false), plan(2, PATIENCE));
        let refused = users
            .and_then(|users| users.talk(10, AfterSending::GoOn))
            .unwrap_err();
        assert!(
            refused.to_string().contains("without an end") || matches!(refused, LoadError::Codec { .. }),
            "{refused}"
        );
    }

    #[test]
    fn what_comes_beyond_all_messages_is_a_fault() {
        let payloads = Payloads::of(BYTES.into());
        let after_the_last = move |line: &[u8]| match payloads.read(line) {
            // In one write, so that it is there.
            Some((_, 10)) => vec![[line, b"\n", line].concat()],
            _ => vec![line.to_vec()],
        };
        let faulty = server({
            let after = Arc::new(after_the_last);
            move |line| after(line)
        });
        let users = Users::connect(faulty, plan(2, PATIENCE)).unwrap();
        match users.talk(10, AfterSending::GoOn) {
            Err(LoadError::Faulty(tally)) => {
                assert!(tally.faults.count(FaultKind::Duplicated) > 0, "{}", tally.faults);
                assert_eq!(tally.faults.count(FaultKind::Lost), 0, "{}", tally.faults);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nobody_speaks_or_listens_where_not_all_are_there() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let user = User {
            user: 0,
            room: 0..2,
            messages: 1,
            payloads: &Payloads::of(BYTES.into()),
            patience: PATIENCE,
            stream: &stream,
            all_there: &RwLock::new(false),
        };
        user.send(AfterSending::GoOn).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut said = Vec::new();
        server.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"");
        drop(server);
        let (delivered, faults) = user.receive().unwrap();
        assert!(delivered == 0 && faults.is_empty(), "{faults}");
    }

    #[test]
    fn who_is_not_greeted_says_so() {
        let silent = serve(|stream| {
            let _ = io::copy(&mut &stream, &mut io::sink());
        });
        let refused = Users::connect(silent, plan(2, Duration::from_millis(50))).unwrap_err();
        assert!(matches!(refused, LoadError::NotGreeted { .. }), "{refused}");
        let foreign = serve(|stream| {
            let _ = (&stream).write_all(b"220 mail.example\n");
            let _ = io::copy(&mut &stream, &mut io::sink());
        });
        let refused = Users::connect(foreign, plan(2, PATIENCE)).unwrap_err();
        assert!(matches!(refused, LoadError::Codec { .. }), "{refused}");
    }
}
