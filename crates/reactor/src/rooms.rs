//! Who is together with whom: the shared state of protocols in which connections talk in groups.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::id::ConnectionId;
use crate::protocol::Io;

/// The rooms of one server by their names. Clones are the same rooms. A room begins with its first member and is gone
/// with its last.
///
/// A protocol that has one needs no locks of its own and knows no threads. Finding a room locks the list of rooms;
/// sending in a room locks that room alone.
#[derive(Clone, Debug, Default)]
pub struct Rooms(Arc<Mutex<ByName>>);

type ByName = HashMap<Box<[u8]>, Arc<Room>>;

/// The members of one room, in no order.
#[derive(Debug, Default)]
struct Room(Mutex<Vec<ConnectionId>>);

/// One connection in one room; leaves it when dropped.
#[derive(Debug)]
pub struct Member {
    id: ConnectionId,
    name: Box<[u8]>,
    room: Arc<Room>,
    rooms: Rooms,
}

impl Rooms {
    /// Takes the own connection into the room of this name, and tells the design to whom it talks from now on
    /// ([`Io::join`]). The members are as many as come; how long a name may be is for the protocol to say.
    pub fn join(&self, name: &[u8], io: &mut Io<'_>) -> Member {
        let mut group = DefaultHasher::new();
        name.hash(&mut group);
        io.join(group.finish());
        self.take_in(name, io.id())
    }

    fn take_in(&self, name: &[u8], id: ConnectionId) -> Member {
        let mut rooms = locked(&self.0);
        let room = rooms.entry(name.into()).or_default();
        locked(&room.0).push(id);
        Member {
            id,
            name: name.into(),
            room: Arc::clone(room),
            rooms: self.clone(),
        }
    }

    /// How many rooms have members.
    pub fn count(&self) -> usize {
        locked(&self.0).len()
    }
}

impl Member {
    /// Sends to every other member of the room.
    pub fn send_to_others(&self, io: &mut Io<'_>, bytes: &[u8]) {
        let members = locked(&self.room.0);
        io.send_to_all(members.iter().copied().filter(|&member| member != self.id), bytes);
    }

    /// How many members the room has, this one included.
    pub fn count(&self) -> usize {
        locked(&self.room.0).len()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The list before the room, as in `take_in`, so that nobody joins a room that is being removed.
        let mut rooms = locked(&self.rooms.0);
        let mut members = locked(&self.room.0);
        if let Some(place) = members.iter().position(|&member| member == self.id) {
            members.swap_remove(place);
        }
        if members.is_empty() {
            rooms.remove(&self.name);
        }
    }
}

/// Nothing that can panic leaves these lists half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_there_while_it_has_members() {
        let rooms = Rooms::default();
        let [a, b, c] = [0, 1, 2].map(|slot| ConnectionId::new(0, 0, slot));
        let (first, second) = (rooms.take_in(b"x", a), rooms.take_in(b"x", b));
        let other = rooms.take_in(b"y", c);
        assert_eq!((rooms.count(), first.count(), other.count()), (2, 2, 1));
        drop(first);
        assert_eq!((rooms.count(), second.count()), (2, 1));
        drop((second, other));
        assert_eq!(rooms.count(), 0);
    }

    #[test]
    fn many_join_and_leave_at_once() {
        let rooms = Rooms::default();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let rooms = &rooms;
                scope.spawn(move || {
                    for turn in 0..500u32 {
                        let own = rooms.take_in(b"one", ConnectionId::new(thread, turn, 0));
                        let more = rooms.take_in(&turn.to_be_bytes(), ConnectionId::new(thread, turn, 1));
                        assert!(own.count() >= 1 && more.count() >= 1);
                    }
                });
            }
        });
        assert_eq!(rooms.count(), 0);
    }
}
