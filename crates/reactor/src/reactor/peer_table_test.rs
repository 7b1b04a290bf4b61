//! Visits of one thread to one connection, without a design.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::peer_table::{PeerTable, SharedPeer, Visit, WorkerContext};
use crate::closing;
use crate::protocol::bytes::Bytes;
use crate::{Server, Stop};

const MIB: usize = 1024 * 1024;

/// Who has just connected comes to `test`, with that moment, and is closed by it.
fn connects(
    server: Server<Bytes>,
    test: impl Fn(
        &PeerTable<'_, Bytes>,
        &Arc<SharedPeer<Bytes>>,
        Instant,
        &mut WorkerContext<'_, Bytes>,
        TcpStream,
    ),
) {
    let stop = Stop::new().expect("a pipe");
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let run = bound.run_by(&stop, |serving| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (socket, _) = listener.accept().expect("accepts");
        let table = PeerTable::new(serving);
        let mut context = WorkerContext::new(serving.counters.block(0), 0);
        let now = Instant::now();
        let permit = table.slots.take(0).expect("a permit");
        let peer = table.open(permit, socket.into(), now, &mut context);
        test(&table, &peer, now, &mut context, client);
        assert!(peer.output().is_closed && table.at(peer.id.slot()).is_none());
        Ok(())
    });
    run.expect("served");
}

/// Who has its answer, and whose end has come after that, comes to `test`, with a moment.
fn lingers(
    test: impl Fn(&PeerTable<'_, Bytes>, &Arc<SharedPeer<Bytes>>, Instant, &mut WorkerContext<'_, Bytes>),
) {
    connects(Server::new(Bytes), |table, peer, now, context, _client| {
        table.visit(peer, Visit::Received(b"5\n"), now, context);
        table.flush(context);
        while let Some((peer, visit)) = context.visits.pop() {
            table.visit(&peer, visit, now, context);
        }
        assert!(peer.output().lingers && !peer.output().is_closed);
        test(table, peer, now, context);
    });
}

#[test]
fn who_has_said_what_waits_for_its_session_is_not_idle() {
    const LIMIT: Duration = Duration::from_secs(3600);
    connects(
        Server::new(Bytes).idle(LIMIT),
        |table, peer, now, context, _client| {
            let mut at = |after| {
                table.visit(peer, Visit::Timer, now + after, context);
                peer.output().lingers
            };
            peer.output().is_busy = true;
            assert!(!at(LIMIT));
            peer.output().is_busy = false;
            assert!(
                !at(2 * LIMIT - Duration::from_nanos(1)),
                "it has all of its time again"
            );
            assert!(at(2 * LIMIT));
            table.visit(peer, Visit::Ended, now, context);
        },
    );
}

#[test]
fn without_room_what_has_come_is_not_taken_for_the_clients_end() {
    connects(Server::new(Bytes), |table, peer, now, context, mut client| {
        client.write_all(b"5\n").expect("sent");
        let deadline = Instant::now() + Duration::from_secs(60);
        while closing::is_silent(&peer.socket, context.counters) {
            assert!(Instant::now() < deadline, "it did not come");
        }
        table.visit(peer, Visit::Readable(true), now, context);
        assert!(peer.output().wants_input);
        table.visit(peer, Visit::Received(b"5\n"), now, context);
        table.flush(context);
        client.read_exact(&mut [0; 5]).expect("the answer");
        while let Some((peer, visit)) = context.visits.pop() {
            table.visit(&peer, visit, now, context);
        }
        table.visit(peer, Visit::Ended, now, context);
    });
}

#[test]
fn who_sends_on_after_its_end_is_closed_when_so_much_has_come() {
    lingers(|table, peer, now, context| {
        let mut came = 0;
        while !peer.output().is_closed {
            assert!(came < 64 * MIB, "it is heard out for ever");
            table.visit(peer, Visit::Received(&vec![0; MIB]), now, context);
            came += MIB;
        }
        assert_eq!(came, 64 * MIB);
    });
}

#[test]
fn who_says_nothing_after_its_end_is_closed_in_time() {
    lingers(|table, peer, now, context| {
        let (at, slot) = context.timers.pop().expect("it is visited again");
        assert!(at > now && slot == peer.id.slot());
        table.visit(peer, Visit::Timer, now, context);
        assert!(!peer.output().is_closed);
        table.visit(peer, Visit::Timer, at, context);
    });
}
