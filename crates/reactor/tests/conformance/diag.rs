//! One socket of a server as the kernel knows it (`sock_diag(7)`): unlike `/proc/net/tcp`, without a list of every
//! connection of the machine.

use std::net::{Ipv4Addr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A netlink header and `inet_diag_req_v2`, in bytes.
const REQUEST: usize = 16 + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
/// Where `inet_diag_msg` has the peer's port, `idiag_rqueue`, `idiag_wqueue` and `idiag_inode`, behind a header.
const PEER_PORT: std::ops::Range<usize> = 22..24;
const UNREAD: usize = 16 + 4 + 48 + 4;
const UNSENT: usize = UNREAD + 4;
const INODE: usize = UNREAD + 12;

/// The end of a connection.
pub struct End {
    /// How many bytes it has not received yet.
    pub unread: u32,
    /// How many bytes the other end has not acknowledged.
    pub unsent: u32,
    /// By which its descriptors can be known.
    pub inode: u32,
}

/// The end `own` of the connection from `peer`. `None` if there is none such.
pub fn end(own: SocketAddr, peer: SocketAddr) -> Option<End> {
    let (SocketAddr::V4(own), SocketAddr::V4(peer)) = (own, peer) else {
        panic!("servers of this program listen on 127.0.0.1");
    };
    let mut request = Vec::with_capacity(REQUEST);
    // The header: length, type, flags, number, port.
    request.extend((REQUEST as u32).to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    // AF_INET, IPPROTO_TCP, no extras; any state.
    request.extend([2, 6, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    // Which: ports and addresses as on the wire, no interface, no cookie.
    request.extend(own.port().to_be_bytes());
    request.extend(peer.port().to_be_bytes());
    for address in [own.ip(), peer.ip()] {
        request.extend(Ipv4Addr::octets(address));
        request.extend([0; 12]);
    }
    request.extend([0; 4]);
    request.extend([0xff; 8]);
    assert_eq!(request.len(), REQUEST);

    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )
    .expect("the kernel says what sockets hold");
    send(&kernel, &request, SendFlags::empty()).expect("it listens");
    let mut answer = [0; 4096];
    let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty()).expect("it answers");
    // Anything else is an error, or the socket that listens: there is no such connection.
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    let is_listener = answer[PEER_PORT] != peer.port().to_be_bytes();
    let field = |at: usize| u32::from_ne_bytes(answer[at..at + 4].try_into().expect("four bytes"));
    (kind == SOCK_DIAG_BY_FAMILY && length >= INODE + 4 && !is_listener).then(|| End {
        unread: field(UNREAD),
        unsent: field(UNSENT),
        inode: field(INODE),
    })
}
