//! A publication that was confirmed is with those who are subscribed before they are answered anything that they say
//! later: on each design whose connections send to each other, between clients on different loops or threads.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use threadgauge_reactor::protocol::groups::Groups;
use threadgauge_reactor::{BuiltIn, Design, Meter, Placement, Sends, Server, Setting, Stop};

/// On each design.
const REPETITIONS: usize = 3_000;
/// Publications that one answer confirms.
const MESSAGES: usize = 20;
const CLIENTS: usize = 6;
/// More than all that connect, where each has a thread.
const WORKERS: usize = 64;

/// A client of the server.
struct Client {
    stream: TcpStream,
    came: Vec<u8>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        let mut client = Self {
            stream,
            came: Vec::new(),
        };
        client.ask("CONNECT {\"verbose\":false}\r\n");
        client
    }

    fn say(&mut self, operations: &str) {
        self.stream.write_all(operations.as_bytes()).expect("sent");
    }

    /// Says this and asks whether it was heard: what comes up to the answer.
    fn ask(&mut self, operations: &str) -> String {
        const ANSWER: &str = "PONG\r\n";
        self.say(&format!("{operations}PING\r\n"));
        let mut room = [0; 4096];
        loop {
            let at = self
                .came
                .windows(ANSWER.len())
                .position(|text| text == ANSWER.as_bytes());
            if let Some(at) = at {
                let before = self.came.drain(..at + ANSWER.len());
                return String::from_utf8(before.collect()).expect("text");
            }
            match self.stream.read(&mut room) {
                Ok(0) => panic!("the server has ended it"),
                Ok(count) => self.came.extend_from_slice(&room[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
            }
        }
    }

    /// Which loop or thread reads from it and which writes to it, by their numbers among the server's parts.
    fn place(&mut self, meter: &Meter) -> [Option<usize>; 2] {
        let before = meter.parts();
        self.ask("");
        let after = meter.parts();
        let changed = |count: fn(&threadgauge_reactor::Totals) -> u64| {
            let mut both = before.iter().zip(&after);
            both.position(|(before, after)| count(before) < count(after))
        };
        [changed(|part| part.receives), changed(|part| part.sends)]
    }
}

/// So many clients, not all in one place where there are several.
fn clients(address: SocketAddr, meter: &Meter, several: bool) -> Vec<(Client, [Option<usize>; 2])> {
    let mut clients: Vec<(Client, [Option<usize>; 2])> = Vec::new();
    while clients.len() < CLIENTS || several && clients.iter().all(|(_, place)| *place == clients[0].1) {
        assert!(clients.len() < WORKERS / 2, "all are in one place");
        let mut client = Client::connect(address);
        let place = client.place(meter);
        clients.push((client, place));
    }
    clients
}

/// One publishes and is answered; then another, who is subscribed, leaves and is answered: it has got all before.
/// Meanwhile the first hears something from others, whose threads may then send it what its own has said.
fn publish_and_leave(server: Server<Groups>, name: &str, several: bool) {
    let bound = server.bind("127.0.0.1:0").expect("a free port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    let stop = Stop::new().expect("a pipe");
    thread::scope(|scope| {
        let serving = scope.spawn(|| bound.run(&stop));
        let _stopped = StopAtEnd(&stop);
        let mut clients = clients(address, &meter, several);
        let mut others = [(); 3].map(|()| Client::connect(address));
        let pairs: Vec<(usize, usize)> = (0..clients.len())
            .flat_map(|publisher| (0..clients.len()).map(move |hearer| (publisher, hearer)))
            .filter(|&(publisher, hearer)| publisher != hearer)
            .filter(|&(publisher, hearer)| !several || clients[publisher].1 != clients[hearer].1)
            .collect();
        let says = "PUB all 1\r\nx\r\n".repeat(MESSAGES);
        for repetition in 0..REPETITIONS {
            let (publisher, hearer) = pairs[repetition % pairs.len()];
            clients[publisher].0.ask("SUB other 1\r\n");
            clients[hearer].0.ask("SUB all 2\r\n");
            others
                .iter_mut()
                .for_each(|other| other.say("PUB other 1\r\ny\r\n"));
            clients[publisher].0.ask(&says);
            let came = clients[hearer].0.ask("UNSUB 2\r\n");
            let count = came.matches("MSG all").count();
            assert_eq!(count, MESSAGES, "{name}, repetition {repetition}");
            clients[publisher].0.ask("UNSUB 1\r\n");
        }
        stop.stop();
        serving.join().expect("no panic").expect("it serves");
    });
}

/// Stops a server also when a test fails, or its thread would be waited for, for ever.
struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn what_was_confirmed_is_ahead_of_what_others_say_later() {
    let designs = Design::ALL
        .iter()
        .filter(|&&design| BuiltIn::Groups.fits(design).is_ok());
    let by_call = designs.map(|&design| (design, None));
    let together = [Design::ReactorPool, Design::ReactorPerCore].map(|design| (design, Some(Sends::IoUring)));
    for (design, sends) in by_call.chain(together) {
        let mut server = Server::new(Groups::default()).design(design);
        let has_loops = matches!(
            design,
            Design::ReactorPool | Design::ReactorPerCore | Design::Proactor
        );
        if design.uses(Setting::Workers) {
            let workers = if has_loops { 3 } else { WORKERS };
            server = server.workers(workers..=workers);
        }
        if design.uses(Setting::Readers) {
            server = server.readers(2).writers(2).placement(Placement::LeastLoaded);
        }
        if let Some(sends) = sends {
            server = server.sends(sends);
        }
        publish_and_leave(server, &format!("{design:?} {sends:?}"), has_loops);
    }
}
