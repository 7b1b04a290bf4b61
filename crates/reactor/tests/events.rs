//! The event-driven designs over real sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use threadgauge_reactor::protocol::echo::Echo;
use threadgauge_reactor::{CloseReason, Design, Meter, Protocol, Server, Stop, Totals};

/// The designs of this file.
const DESIGNS: &[Design] = &[Design::Reactor];

/// Serves while `test` runs, then stops and returns what was counted.
fn serve<P: Protocol>(server: Server<P>, test: impl FnOnce(SocketAddr, &Meter, &Stop)) -> Totals {
    let stop = Stop::new().expect("a pipe");
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let (address, meter) = (bound.local_addr(), bound.meter());
    let stopped = stop.clone();
    let running = thread::spawn(move || bound.run(&stopped).expect("served"));
    let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        test(address, &meter, &stop);
    }));
    stop.stop();
    let totals = running.join().expect("the server does not panic");
    if let Err(panic) = tested {
        std::panic::resume_unwind(panic);
    }
    totals
}

fn read_back(client: &mut TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    client.read_exact(&mut back).expect("an answer");
    assert_eq!(back, bytes);
}

#[test]
fn echo_comes_back_in_pieces_of_any_size() {
    for &design in DESIGNS {
        let totals = serve(Server::new(Echo).design(design), |address, _, _| {
            let mut client = TcpStream::connect(address).expect("connects");
            let message: Vec<u8> = (0..=255).collect();
            for split in 0..message.len() {
                client.write_all(&message[..split]).expect("sent");
                client.write_all(&message[split..]).expect("sent");
                read_back(&mut client, &message);
            }
            let large: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
            let mut writer = client.try_clone().expect("a descriptor");
            thread::scope(|scope| {
                scope.spawn(|| {
                    writer.write_all(&large).expect("sent");
                    writer.shutdown(Shutdown::Write).expect("half closed");
                });
                let mut back = Vec::new();
                client.read_to_end(&mut back).expect("all of it");
                assert!(back == large, "{}: {} bytes", design.name(), back.len());
            });
        });
        assert_eq!((totals.accepted, totals.closed(CloseReason::PeerEnded)), (1, 1));
        assert_eq!(totals.bytes_in, totals.bytes_out);
    }
}
