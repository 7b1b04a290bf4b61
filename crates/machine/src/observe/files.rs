//! The files of a process and of a thread that are read again and again.
//!
//! They are kept open and read from their start by one call, which costs a quarter of opening them each time. A kept
//! descriptor belongs to that process or thread for good: once it has ended reading fails, whoever has its number then.
//! Where no more descriptors may be open, a file is opened for each reading.

use crate::source::{SMALL, Source, read_small};
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// How many descriptors may still be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptors {
    left: usize,
    /// Some file was not kept open for lack of them.
    pub(super) were_short: bool,
}

impl Descriptors {
    pub(super) fn of(left: usize) -> Self {
        Self {
            left,
            were_short: false,
        }
    }

    fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.were_short |= !is_left;
        is_left
    }

    /// So many files that were kept are closed.
    pub(super) fn give_back(&mut self, files: usize) {
        self.left += files;
    }
}

/// A file that is read again and again.
#[derive(Debug)]
pub(super) enum Kept {
    Open(File),
    ByPath(PathBuf),
}

impl Kept {
    /// Opens it once, to see whether it is there and may be read.
    pub(super) fn open(source: &Source, path: &str, descriptors: &mut Descriptors) -> io::Result<Self> {
        let path = source.path(path);
        let file = File::open(&path)?;
        Ok(match descriptors.take() {
            true => Self::Open(file),
            false => Self::ByPath(path),
        })
    }

    pub(super) fn read<'a>(&self, buffer: &'a mut [u8; SMALL]) -> io::Result<Cow<'a, str>> {
        match self {
            Self::Open(file) => read_small(file, buffer),
            Self::ByPath(path) => read_small(&File::open(path)?, buffer),
        }
    }

    fn descriptors(&self) -> usize {
        usize::from(matches!(self, Self::Open(_)))
    }
}

/// The files of a thread.
#[derive(Debug)]
pub(super) struct ThreadFiles {
    pub(super) stat: Kept,
    pub(super) sched: Option<Kept>,
    /// Where a user may not see in which call the thread is, the place in the kernel where it waits.
    pub(super) waits: Waits,
}

/// Which file tells what a thread waits for.
#[derive(Debug)]
pub(super) enum Waits {
    Syscall(Kept),
    Wchan(Kept),
    Nothing,
}

impl ThreadFiles {
    /// Opens what there is.
    ///
    /// # Errors
    ///
    /// If there is no such thread (any more).
    pub(super) fn open(
        source: &Source,
        pid: i32,
        tid: i32,
        shows_calls: bool,
        descriptors: &mut Descriptors,
    ) -> io::Result<Self> {
        let folder = format!("/proc/{pid}/task/{tid}");
        let stat = Kept::open(source, &format!("{folder}/stat"), descriptors)?;
        let mut kept = |name: &str| Kept::open(source, &format!("{folder}/{name}"), descriptors).ok();
        let sched = kept("schedstat");
        let waits = match shows_calls.then(|| kept("syscall")).flatten() {
            Some(file) => Waits::Syscall(file),
            None => kept("wchan").map_or(Waits::Nothing, Waits::Wchan),
        };
        Ok(Self { stat, sched, waits })
    }

    /// How many descriptors it keeps.
    pub(super) fn descriptors(&self) -> usize {
        let waits = match &self.waits {
            Waits::Syscall(file) | Waits::Wchan(file) => file.descriptors(),
            Waits::Nothing => 0,
        };
        self.stat.descriptors() + self.sched.as_ref().map_or(0, Kept::descriptors) + waits
    }
}

/// The files of a process.
#[derive(Debug)]
pub(super) struct ProcessFiles {
    pub(super) stat: Kept,
    pub(super) io: Option<Kept>,
}

impl ProcessFiles {
    /// Opens what there is.
    ///
    /// # Errors
    ///
    /// If there is no such process (any more), or it is hidden.
    pub(super) fn open(source: &Source, pid: i32, descriptors: &mut Descriptors) -> io::Result<Self> {
        let stat = Kept::open(source, &format!("/proc/{pid}/stat"), descriptors)?;
        let io = Kept::open(source, &format!("/proc/{pid}/io"), descriptors).ok();
        Ok(Self { stat, io })
    }

    /// How many descriptors it keeps.
    pub(super) fn descriptors(&self) -> usize {
        self.stat.descriptors() + self.io.as_ref().map_or(0, Kept::descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_descriptors_a_file_is_opened_for_each_reading() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::new(root.path());
        std::fs::write(root.path().join("a"), "first").unwrap();
        let mut descriptors = Descriptors::of(1);
        let files = [(); 2].map(|()| Kept::open(&source, "/a", &mut descriptors).unwrap());
        assert_eq!([files[0].descriptors(), files[1].descriptors()], [1, 0]);
        assert!(descriptors.were_short);
        std::fs::write(root.path().join("a"), "second").unwrap();
        for file in &files {
            assert_eq!(file.read(&mut [0; SMALL]).unwrap(), "second");
        }
        std::fs::remove_file(root.path().join("a")).unwrap();
        assert!(files[1].read(&mut [0; SMALL]).is_err());
        descriptors.give_back(1);
        assert!(descriptors.take() && !descriptors.take());
        assert!(Kept::open(&source, "/a", &mut descriptors).is_err());
    }

    #[test]
    fn what_a_thread_waits_for_is_read_where_it_is_shown() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::new(root.path());
        let folder = root.path().join("proc/7/task/8");
        std::fs::create_dir_all(&folder).unwrap();
        let mut descriptors = Descriptors::of(100);
        let mut open = |shows_calls| ThreadFiles::open(&source, 7, 8, shows_calls, &mut descriptors);
        assert!(open(true).is_err());
        std::fs::write(folder.join("stat"), "").unwrap();
        assert!(matches!(open(true).unwrap().waits, Waits::Nothing));
        std::fs::write(folder.join("wchan"), "0").unwrap();
        assert!(matches!(open(true).unwrap().waits, Waits::Wchan(_)));
        std::fs::write(folder.join("syscall"), "running").unwrap();
        let files = open(true).unwrap();
        assert!(matches!(files.waits, Waits::Syscall(_)));
        assert_eq!(files.descriptors(), 2);
        assert!(matches!(open(false).unwrap().waits, Waits::Wchan(_)));
    }
}
