//! Small files of facts below a root directory, and the reason where there is none.
//!
//! The root is `/` on a real machine and a folder of fixtures in tests. Nothing here understands what it
//! reads.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A fact, or why there is none, in words for the reader of a report.
pub(crate) type Fact<T> = Result<T, String>;

/// Where facts are read from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    root: PathBuf,
}

impl Source {
    pub(crate) fn new(root: &Path) -> Source {
        Source {
            root: root.to_owned(),
        }
    }

    /// Is this the machine itself, so that the kernel may be asked as well?
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path below the root of a path that starts with `/`.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A text file as it is. The reason names the path as seen from the root.
    pub(crate) fn text(&self, path: &str) -> Fact<String> {
        match std::fs::read(self.path(path)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => Err(match error.kind() {
                std::io::ErrorKind::NotFound => format!("{path} does not exist"),
                std::io::ErrorKind::PermissionDenied => format!("{path} may not be read by this user"),
                _ => format!("{path} cannot be read: {error}"),
            }),
        }
    }

    /// A text file of one value, without white space around it; an empty one is a reason.
    pub(crate) fn word(&self, path: &str) -> Fact<String> {
        let text = self.text(path)?;
        match text.trim() {
            "" => Err(format!("{path} is empty")),
            word => Ok(word.to_owned()),
        }
    }

    /// A text file of one value of any type that can be parsed.
    pub(crate) fn value<T: std::str::FromStr>(&self, path: &str) -> Fact<T> {
        let word = self.word(path)?;
        word.parse()
            .map_err(|_| format!("{path} holds {word:?}, which is not what it should be"))
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// Reads an open `/proc` file again from its start. Such a file is made anew for a read at offset zero and
/// handed out whole if the buffer is large enough: `/proc/stat` of a large machine needs 100 KB.
pub(crate) fn read_whole<'a>(file: &File, buffer: &'a mut Vec<u8>) -> std::io::Result<Cow<'a, str>> {
    buffer.resize(buffer.capacity().max(8_192), 0);
    let mut filled = 0;
    loop {
        let n = file.read_at(&mut buffer[filled..], filled as u64)?;
        filled += n;
        if n == 0 {
            break;
        }
        if filled == buffer.len() {
            buffer.resize(2 * filled, 0);
        }
    }
    Ok(String::from_utf8_lossy(&buffer[..filled]))
}

/// The most bytes that [`read_small`] gives back.
pub(crate) const SMALL: usize = 2_048;

/// Reads an open `/proc` file of a few lines from its start, by one call: such a file is handed out whole. Beyond
/// [`SMALL`] bytes it is cut off.
pub(crate) fn read_small<'a>(file: &File, buffer: &'a mut [u8; SMALL]) -> std::io::Result<Cow<'a, str>> {
    let length = file.read_at(buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_read_from_its_start_each_time_and_a_long_one_is_cut_off() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &[b'x'; 3_000]).unwrap();
        let mut buffer = [0; SMALL];
        for _ in 0..2 {
            assert_eq!(read_small(file.as_file(), &mut buffer).unwrap().len(), SMALL);
        }
    }

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &[b'x'; 20_000]).unwrap();
        assert_eq!(read_whole(file.as_file(), &mut Vec::new()).unwrap().len(), 20_000);
    }
}
