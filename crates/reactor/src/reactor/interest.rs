//! What a handler asks to be told of a handle, under which name, and what it is told.

use rustix::event::epoll;

/// Names for a handler who or what an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub(super) u32);

impl Token {
    /// A token with a number of the handler's choice.
    ///
    /// # Panics
    ///
    /// With `u32::MAX`.
    pub const fn new(number: u32) -> Self {
        assert!(number != NOBODY, "a token's number is below u32::MAX");
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// In place of a token's number: no interest.
pub(super) const NOBODY: u32 = u32::MAX;

/// What to report of a handle. Reading and writing have a token each, so that two parties can share a handle.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    pub(super) reader: Option<Token>,
    pub(super) writer: Option<Token>,
    pub(super) flags: epoll::EventFlags,
}

impl Interest {
    /// When something can be read, or has ended.
    pub const fn read(reader: Token) -> Self {
        Self::edge(Some(reader), None)
    }

    /// When something can be written, or nothing ever again.
    pub const fn write(writer: Token) -> Self {
        Self::edge(None, Some(writer))
    }

    /// Both.
    pub const fn both(reader: Token, writer: Token) -> Self {
        Self::edge(Some(reader), Some(writer))
    }

    /// Reports every turn as long as it is so. Without this only a *change* is reported, and anything that was so
    /// when the handle was registered: a handler reads until a read is short (or fails with `WouldBlock`, or the end
    /// has come after [`Readiness::End`]), and remembers what it left. That needs no system call to pause and resume,
    /// and the kernel does not look again at what it has reported. An echoed message costs the same calls either way,
    /// and measured CPU time does not tell the two apart.
    #[must_use]
    pub const fn level(mut self) -> Self {
        self.flags = self.flags.difference(epoll::EventFlags::ET);
        self
    }

    const fn edge(reader: Option<Token>, writer: Option<Token>) -> Self {
        let mut flags = epoll::EventFlags::ET;
        if reader.is_some() {
            flags = flags.union(epoll::EventFlags::IN).union(epoll::EventFlags::RDHUP);
        }
        if writer.is_some() {
            flags = flags.union(epoll::EventFlags::OUT);
        }
        Self {
            reader,
            writer,
            flags,
        }
    }

    pub(super) fn data(self) -> epoll::EventData {
        let number = |token: Option<Token>| u64::from(token.map_or(NOBODY, Token::number));
        epoll::EventData::new_u64(number(self.writer) << 32 | number(self.reader))
    }
}

/// What there is to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Something.
    Data,
    /// Something perhaps, and then the end or an error: only reading up to it tells which.
    End,
}
