//! The loops of a server without threads: a test takes their turns by hand, so that what comes between two turns is
//! no chance.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::loops::Kernel;
use super::manager::ReactorManager;
use super::peer::Link;
use super::serving_loop::{Acceptors, Loop, LoopsShared, ServingLoop};
use super::tasks::NewConnection;
use crate::id::ConnectionId;
use crate::protocol::Protocol;
use crate::reactor::Reactor;
use crate::{Server, Stop};

/// What a connection holds that nobody has read, at the server's end.
const HELD_BYTES: usize = 212_992;

/// The loops of one server.
pub(super) struct Loops<'a, P: Protocol> {
    pub shared: &'a LoopsShared<P::Session>,
    pub all: Vec<OneLoop<'a, P>>,
}

/// One of them, with its reactor.
pub(super) type OneLoop<'a, P> = (ServingLoop<'a, P>, Loop<<P as Protocol>::Session>);

/// One turn of a loop, which does not wait.
pub(super) fn turn<P: Protocol>((serving, reactor): &mut OneLoop<'_, P>) {
    reactor.again();
    let turn = reactor.turn(&mut Vec::with_capacity(16), serving);
    turn.expect("the kernel can wait");
}

/// Has `test` drive the loops that `manager` gives handles to.
pub(super) fn drive<P: Protocol>(
    server: Server<P>,
    manager: ReactorManager,
    kernel: Kernel,
    test: impl FnOnce(&mut Loops<'_, P>),
) {
    let stop = Stop::new().expect("a pipe");
    let bound = server.bind("127.0.0.1:0").expect("a port");
    let run = bound.run_by(&stop, |serving| {
        let reactors: Vec<_> = (0..manager.reactors())
            .map(|index| {
                let reactor = match kernel {
                    Kernel::Epoll => Reactor::counting(serving.counters.clone(), index),
                    Kernel::IoUring => Reactor::completing(serving.counters.clone(), index),
                };
                reactor.expect("a reactor")
            })
            .collect();
        let shared = LoopsShared::new(16, manager, Acceptors::First, None, reactors.iter());
        let all = reactors.into_iter().enumerate();
        let all =
            all.map(|(index, reactor)| (ServingLoop::new(index, serving, &shared, None, None), reactor));
        test(&mut Loops {
            shared: &shared,
            all: all.collect(),
        });
        Ok(())
    });
    run.expect("served");
}

impl<P: Protocol> Loops<'_, P> {
    /// A client whose halves are on these loops.
    pub fn connect(&mut self, reader: usize, writer: usize) -> (ConnectionId, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        set_socket_recv_buffer_size(&listener, HELD_BYTES).expect("a socket");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (socket, _) = listener.accept().expect("accepts");
        socket.set_nonblocking(true).expect("a socket");
        let permit = self.shared.slots.take(0).expect("a permit");
        let new = NewConnection {
            id: ConnectionId::new(writer as u8, permit.generation, permit.slot),
            link: Arc::new(Link {
                socket: socket.into(),
                waiting: AtomicUsize::new(0),
            }),
            reader,
            writer,
        };
        let id = new.id;
        self.all[writer].0.open_writer(new.clone());
        let (serving, reactor) = &mut self.all[reader];
        serving.open_reader(new, reactor);
        (id, client)
    }

    /// One turn of a loop, which does not wait.
    pub fn turn(&mut self, index: usize) {
        turn(&mut self.all[index]);
    }
}
