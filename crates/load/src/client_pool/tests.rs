//! Connections against sockets of a test: what is kept, what comes again, and what a turn is bounded by.

use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::thread;
use std::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(120);

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

#[test]
fn a_connection_comes_from_the_address_that_was_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut pool = ClientPool::new().unwrap();
    let from = "127.0.0.2".parse().unwrap();
    pool.connect_from(Some(from), listener.local_addr().unwrap())
        .unwrap();
    assert_eq!(listener.accept().unwrap().1.ip(), from);
    let nobodys = "192.0.2.1".parse().unwrap();
    let refused = pool.connect_from(Some(nobodys), listener.local_addr().unwrap());
    assert!(matches!(refused, Err(LoadError::Connect { connection: 1, .. })));
}

#[test]
fn a_connection_is_awaited_for_as_long_as_that_is_wanted() {
    let (listener, at) = listener();
    // One waits to be accepted, and whoever comes after it is not answered.
    rustix::net::listen(&listener, 0).unwrap();
    let mut pool = ClientPool::new().unwrap();
    let connect = |pool: &mut ClientPool, yes: u32| {
        let mut asked = 0;
        let mut goes_on = || {
            asked += 1;
            asked <= yes
        };
        let made = pool.connect_while(None, at, &mut goes_on).unwrap();
        (made, pool.len(), asked)
    };
    assert_eq!(connect(&mut pool, 0), (false, 0, 1), "it is asked first");
    assert_eq!(
        connect(&mut pool, 1200),
        (true, 1, 1),
        "and never again where nothing is awaited"
    );
    assert_eq!(connect(&mut pool, 2), (false, 1, 3));
    // The first has a stream, which is not the one that was given up.
    assert!(pool.is_begun(0) && !pool.is_empty());
    drop(listener);
    let refused = pool.connect_while(None, at, &mut || true);
    assert!(matches!(refused, Err(LoadError::Connect { connection: 1, .. })));
}

#[test]
fn places_are_counted_from_0_and_one_that_began_is_made_at_its_place() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    assert!(pool.is_empty());
    assert_eq!([pool.place(), pool.place(), pool.place()], [0, 1, 2]);
    assert_eq!(pool.len(), 3);
    pool.begin(1, at).unwrap();
    assert_eq!([0, 1, 2].map(|place| pool.is_begun(place)), [false, true, false]);
    let mut made = Vec::new();
    while made.is_empty() {
        pool.turn(PATIENCE, |connection, told| {
            assert!(matches!(told, Told::Made), "{told:?}");
            made.push(connection);
            Ok(0)
        })
        .unwrap();
    }
    assert_eq!(made, [1]);
    assert!(format!("{pool:?}").starts_with("ClientPool of 3 by "), "{pool:?}");
    drop(listener);
}

#[test]
fn what_is_not_used_comes_again_with_more() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    let mut seen = Vec::new();
    for part in [&b"ab"[..], b"cd", b"ef"] {
        peer.write_all(part).unwrap();
        let before = seen.len();
        while seen.len() == before {
            pool.hear(PATIENCE, |_, bytes| {
                seen.push(bytes.to_vec());
                // Only four at once are a message.
                Ok(bytes.len() / 4 * 4)
            })
            .unwrap();
        }
    }
    assert_eq!(seen, [&b"ab"[..], b"abcd", b"ef"]);
}

#[test]
fn what_a_socket_does_not_take_goes_out_later_and_in_order() {
    const BYTES: usize = 16 << 20;
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    let all: Vec<u8> = (0..BYTES).map(|i| (i / 7) as u8).collect();
    pool.say(0, |unsent| unsent.extend_from_slice(&all));
    assert!(!pool.flush().unwrap(), "no socket holds so much");
    let reader = thread::spawn(move || {
        let mut received = vec![0; BYTES];
        peer.read_exact(&mut received).unwrap();
        received
    });
    let deadline = Instant::now() + PATIENCE;
    while !pool.flush().unwrap() {
        assert!(Instant::now() < deadline, "it does not go out");
        thread::yield_now();
    }
    assert!(reader.join().unwrap() == all);
}

#[test]
fn what_came_and_no_turn_told_is_counted_and_read_once() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let nowhere = pool.place();
    listener.accept().unwrap().0.write_all(b"more").unwrap();
    // Awaits it.
    pool.streams[0].as_ref().unwrap().peek(&mut [0; 4]).unwrap();
    assert_eq!(pool.rest(0), b"more");
    assert_eq!(pool.rest(0), b"");
    assert_eq!(pool.rest(nowhere), b"");
    assert_eq!(pool.take_received_bytes(), 4);
}

#[test]
fn who_had_nothing_to_say_at_first_says_it_once() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    pool.say(0, |_| {});
    assert_eq!(pool.unsent_bytes(), 0);
    pool.say(0, |unsent| unsent.extend_from_slice(b"once"));
    pool.say(0, |unsent| unsent.extend_from_slice(b", and more"));
    assert_eq!(pool.unsent_bytes(), 14);
    assert!(pool.flush().unwrap());
    assert_eq!(pool.unsent_bytes(), 0);
    // Behind it, so that what came twice would be seen.
    pool.say(0, |unsent| unsent.push(b'.'));
    assert!(pool.flush().unwrap());
    let mut heard = [0; 15];
    peer.read_exact(&mut heard).unwrap();
    assert_eq!(heard, *b"once, and more.");
}

#[test]
fn what_is_ended_here_is_reset() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    let mut peers = [(); 2].map(|()| {
        pool.connect(at).unwrap();
        listener.accept().unwrap().0
    });
    let is_reset = |peer: &mut TcpStream| {
        let read = peer.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(io::ErrorKind::ConnectionReset));
    };
    pool.end(0);
    is_reset(&mut peers[0]);
    drop(pool);
    is_reset(&mut peers[1]);
}

#[test]
fn an_end_that_comes_with_the_last_words_is_seen() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    peer.write_all(b"last words").unwrap();
    drop(peer);
    let mut said = Vec::new();
    loop {
        let heard = pool.hear(PATIENCE, |_, bytes| {
            said.extend_from_slice(bytes);
            Ok(bytes.len())
        });
        match heard {
            Ok(0) => panic!("the end was not seen"),
            Ok(_) => {}
            Err(LoadError::Closed(0)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(said, b"last words");
}

#[test]
fn who_sends_without_end_leaves_others_their_turn() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    for _ in 0..3 {
        pool.connect(at).unwrap();
    }
    let peers: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
    let floods = |mut peer: &TcpStream| while peer.write_all(&[b'x'; 1 << 20]).is_ok() {};
    thread::scope(|scope| {
        scope.spawn(|| floods(&peers[0]));
        scope.spawn(|| floods(&peers[1]));
        let deadline = Instant::now() + PATIENCE;
        let mut heard = [0; 3];
        // Both flood before the third says anything.
        for words in 0..60 {
            let enough = |heard: &[usize; 3]| heard[0] > 0 && heard[1] > 0 && heard[2] == 4 * words;
            while !enough(&heard) {
                assert!(Instant::now() < deadline, "{words} words: {heard:?}");
                pool.hear(PATIENCE, |connection, bytes| {
                    heard[connection] += bytes.len();
                    Ok(bytes.len())
                })
                .unwrap();
                let turn = pool.take_received_bytes();
                assert!(turn <= MOST_TURN_BYTES + (MOST_READS * BUFFER_BYTES) as u64);
            }
            (&peers[2]).write_all(b"word").unwrap();
        }
        drop(pool);
    });
}

#[test]
fn what_comes_to_no_message_and_answers_that_are_not_read_are_bounded() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    thread::spawn(move || peer.write_all(&vec![b'x'; 8 * MOST_UNUSED_BYTES]));
    let mut most = 0;
    let error = loop {
        let heard = pool.hear(PATIENCE, |_, bytes| {
            most = most.max(bytes.len());
            Ok(0)
        });
        match heard {
            Ok(some) => assert!(some > 0, "it is not ended"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("no whole message"), "{error}");
    assert!(most <= MOST_UNUSED_BYTES + BUFFER_BYTES);

    pool.connect(at).unwrap();
    let _silent = listener.accept().unwrap().0;
    pool.owe(1, b"PONG\r\n", MOST_OWED_BYTES / 6).unwrap();
    assert!(matches!(pool.owe(1, b"PONG\r\n", 1), Err(CodecError::Unread(_))));
    assert!(pool.unsent_bytes() <= MOST_OWED_BYTES);
    // What went out is not owed any more.
    assert!(pool.flush().unwrap());
    pool.owe(1, b"PONG\r\n", 1).unwrap();
}

#[test]
fn a_server_that_closes_is_named_by_its_connection() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    for _ in 0..3 {
        pool.connect(at).unwrap();
    }
    let mut peers: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
    drop(peers.remove(1));
    let heard = pool.hear(PATIENCE, |_, bytes| Ok(bytes.len()));
    assert!(matches!(heard, Err(LoadError::Closed(1))));
}

#[test]
fn what_does_not_fit_into_the_buffer_is_read_on() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.buffer.truncate(16);
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    peer.write_all(&[7; 40]).unwrap();
    let mut came = 0;
    while came < 40 {
        let told = pool.turn(PATIENCE, |_, told| {
            let Told::Bytes(bytes) = told else {
                panic!("{told:?}");
            };
            came += bytes.len();
            Ok(bytes.len())
        });
        assert_eq!(told.unwrap(), 1, "only {came} bytes came");
    }
}

#[test]
fn of_one_that_was_ended_no_event_that_waited_is_told() {
    let (listener, at) = listener();
    let mut pool = ClientPool::new().unwrap();
    pool.connect(at).unwrap();
    let mut peer = listener.accept().unwrap().0;
    peer.write_all(b"early").unwrap();
    let mut event = [const { MaybeUninit::uninit() }; 1];
    let (events, _) = epoll::wait(&pool.epoll, &mut event, None).unwrap();
    pool.left.push(events[0]);
    pool.end(0);
    let told = pool.turn(Duration::ZERO, |_, told| panic!("{told:?}")).unwrap();
    assert_eq!(told, 1, "the event itself is looked at");
}
