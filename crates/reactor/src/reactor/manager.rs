//! Which reactor reads from a handle, and which writes to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use crate::options::Placement;

/// Gives each handle a reactor that reads and a reactor that writes, which may be the same. Reactors are numbers
/// below [`reactors`](Self::reactors): whoever has loops numbers them.
///
/// The two optimisations of JAWS, a framework for web servers, are `ReactorManager::split(1, 1)` (a reactor that reads
/// and one that writes) and `ReactorManager::split(r, w)` (pools of them).
#[derive(Debug)]
pub struct ReactorManager {
    /// What each reactor is for.
    roles: RwLock<Vec<Role>>,
    placement: Placement,
    /// Whether a handle has one handler, which waits to read or to write.
    has_one_handler: bool,
    /// How many halves of connections each reactor has.
    loads: Vec<AtomicUsize>,
    /// Where the groups are that sessions have joined.
    groups: Mutex<HashMap<u64, Group>>,
}

/// Connections that talk to each other.
#[derive(Debug)]
struct Group {
    /// The loops that read from and write to them.
    place: (usize, usize),
    members: usize,
}

/// What a reactor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Both,
    Reads,
    Writes,
}

impl Role {
    /// The other of reading and writing.
    pub fn opposite(self) -> Self {
        match self {
            Self::Both => Self::Both,
            Self::Reads => Self::Writes,
            Self::Writes => Self::Reads,
        }
    }
}

impl ReactorManager {
    /// `count` reactors, each of which reads from and writes to its own handles.
    pub fn joined(count: NonZeroUsize, placement: Placement) -> Self {
        Self::new(vec![Role::Both; count.get()], placement)
    }

    /// `readers` reactors that read, and after them `writers` that write.
    pub fn split(readers: NonZeroUsize, writers: NonZeroUsize, placement: Placement) -> Self {
        let mut roles = vec![Role::Reads; readers.get()];
        roles.resize(readers.get() + writers.get(), Role::Writes);
        Self::new(roles, placement)
    }

    /// How many of `reactors` read and how many write, at least one each, when they shall be as `read` to `write`: 1
    /// to 3 on 4 CPUs gives 1 and 3.
    ///
    /// # Panics
    ///
    /// If both shares are 0.
    pub fn numbers(read: usize, write: usize, reactors: NonZeroUsize) -> (NonZeroUsize, NonZeroUsize) {
        assert!(read + write > 0, "a ratio of nothing to nothing");
        let all = reactors.get().max(2);
        // Rounded to the nearest.
        let readers = ((2 * all * read + read + write) / (2 * (read + write))).clamp(1, all - 1);
        let count = |count| NonZeroUsize::new(count).expect("at least one, and not all");
        (count(readers), count(all - readers))
    }

    /// One reactor, on which a handle has one handler, which waits to read or to write: JAWS before its optimisations.
    pub(crate) fn of_one_handler() -> Self {
        Self {
            has_one_handler: true,
            ..Self::joined(NonZeroUsize::MIN, Placement::ByHandle)
        }
    }

    fn new(roles: Vec<Role>, placement: Placement) -> Self {
        let loads = roles.iter().map(|_| AtomicUsize::new(0)).collect();
        Self {
            roles: RwLock::new(roles),
            placement,
            has_one_handler: false,
            loads,
            groups: Mutex::default(),
        }
    }

    /// How many reactors there are.
    pub fn reactors(&self) -> usize {
        self.loads.len()
    }

    /// What a reactor is for, in a word.
    pub(crate) fn role_name(&self, reactor: usize) -> &'static str {
        match self.role(reactor) {
            Role::Both => "reactor",
            Role::Reads => "reads",
            Role::Writes => "writes",
        }
    }

    /// The reactor that reads from `handle`, and one more handle for it.
    pub fn read_reactor(&self, handle: RawFd) -> usize {
        self.choose(handle, |role| role != Role::Writes)
    }

    /// The reactor that writes to `handle`, and one more handle for it.
    pub fn write_reactor(&self, handle: RawFd) -> usize {
        self.choose(handle, |role| role != Role::Reads)
    }

    /// Both at once: the same where reactors do both.
    pub fn place(&self, handle: RawFd) -> (usize, usize) {
        let reader = self.read_reactor(handle);
        match self.role(reader) {
            Role::Both => {
                self.loads[reader].fetch_add(1, Relaxed);
                (reader, reader)
            }
            _ => (reader, self.write_reactor(handle)),
        }
    }

    /// Both on this reactor, which does both.
    pub(crate) fn place_on(&self, reactor: usize) -> (usize, usize) {
        self.loads[reactor].fetch_add(2, Relaxed);
        (reactor, reactor)
    }

    /// A handle is closed that `reactor` has read from, or written to.
    pub fn release(&self, reactor: usize) {
        self.loads[reactor].fetch_sub(1, Relaxed);
    }

    fn role(&self, reactor: usize) -> Role {
        self.roles.read().unwrap_or_else(PoisonError::into_inner)[reactor]
    }

    /// Whether a handle has one handler.
    pub(crate) fn has_one_handler(&self) -> bool {
        self.has_one_handler
    }

    // What moves.

    pub(crate) fn placement(&self) -> Placement {
        self.placement
    }

    /// What each reactor is for.
    pub(crate) fn roles(&self) -> Vec<Role> {
        self.roles.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What each reactor is for from now on.
    pub(crate) fn set_roles(&self, roles: &[Role]) {
        self.roles
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .copy_from_slice(roles);
    }

    /// How many halves of connections each reactor has.
    pub(crate) fn loads(&self) -> Vec<usize> {
        self.loads.iter().map(|load| load.load(Relaxed)).collect()
    }

    /// A half of a connection has moved.
    pub(crate) fn moved(&self, from: usize, to: usize) {
        self.loads[from].fetch_sub(1, Relaxed);
        self.loads[to].fetch_add(1, Relaxed);
    }

    /// Whether connections move to their groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.placement == Placement::ByGroup
    }

    /// One more member, whose halves are at `place`. The first decides where the group is.
    pub(crate) fn join(&self, group: u64, place: (usize, usize)) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let group = groups.entry(group).or_insert(Group { place, members: 0 });
        group.members += 1;
    }

    /// Where a group is.
    pub(crate) fn group(&self, group: u64) -> Option<(usize, usize)> {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(&group).map(|group| group.place)
    }

    /// One member less. After the last, the group is nowhere.
    pub(crate) fn leave(&self, group: u64) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut entry) = groups.entry(group) {
            entry.get_mut().members -= 1;
            if entry.get().members == 0 {
                entry.remove();
            }
        }
    }

    fn choose(&self, handle: RawFd, fits: impl Fn(Role) -> bool) -> usize {
        let roles = self.roles.read().unwrap_or_else(PoisonError::into_inner);
        let fitting = || (0..roles.len()).filter(|&reactor| fits(roles[reactor]));
        let chosen = match self.placement {
            Placement::ByHandle | Placement::Adaptive => {
                fitting().nth(handle.unsigned_abs() as usize % fitting().count())
            }
            Placement::LeastLoaded | Placement::ByGroup => {
                fitting().min_by_key(|&reactor| self.loads[reactor].load(Relaxed))
            }
        };
        let chosen = chosen.expect("there is a reactor of each kind");
        self.loads[chosen].fetch_add(1, Relaxed);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).expect("not zero")
    }

    #[test]
    fn a_ratio_and_the_cpus_give_the_numbers() {
        for (read, write, cpus, expected) in [
            (1, 3, 4, (1, 3)),
            (1, 1, 2, (1, 1)),
            (1, 3, 2, (1, 1)),
            (1, 3, 8, (2, 6)),
            (3, 1, 4, (3, 1)),
            (0, 1, 4, (1, 3)),
            (1, 0, 4, (3, 1)),
            (1, 3, 1, (1, 1)),
        ] {
            let (readers, writers) = ReactorManager::numbers(read, write, count(cpus));
            assert_eq!(
                (readers.get(), writers.get()),
                expected,
                "{read}:{write} on {cpus}"
            );
        }
    }

    #[test]
    fn by_handle_is_the_sources_rule() {
        let manager = ReactorManager::split(count(1), count(3), Placement::ByHandle);
        for handle in 0..12 {
            assert_eq!(manager.place(handle), (0, 1 + handle as usize % 3));
        }
        let manager = ReactorManager::joined(count(3), Placement::ByHandle);
        assert_eq!(manager.place(4), (1, 1));
    }

    #[test]
    fn a_connection_with_both_halves_on_one_reactor_counts_twice() {
        let manager = ReactorManager::joined(count(2), Placement::LeastLoaded);
        assert_eq!(manager.place(7), (0, 0));
        assert_eq!([manager.place_on(1), manager.place_on(1)], [(1, 1); 2]);
        manager.release(1);
        // Two halves here and three there, then four.
        assert_eq!([manager.place(7), manager.place(7)], [(0, 0), (1, 1)]);
    }

    #[test]
    fn a_group_is_somewhere_as_long_as_it_has_members() {
        let manager = ReactorManager::joined(count(2), Placement::ByGroup);
        manager.join(7, (1, 1));
        // Who comes later moves to where it is.
        manager.join(7, (0, 0));
        manager.join(7, (0, 0));
        for place in [Some((1, 1)), Some((1, 1)), None] {
            manager.leave(7);
            assert_eq!(manager.group(7), place);
        }
        manager.leave(7);
        assert_eq!(manager.group(7), None, "it is nowhere");
    }

    #[test]
    fn the_least_loaded_is_taken() {
        let manager = ReactorManager::split(count(2), count(2), Placement::LeastLoaded);
        assert_eq!(manager.place(7), (0, 2));
        assert_eq!(manager.place(7), (1, 3));
        manager.release(1);
        manager.release(2);
        assert_eq!(manager.place(7), (1, 2));
    }
}
