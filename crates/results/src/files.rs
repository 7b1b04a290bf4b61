//! Putting a file in place, for every file that is written on a user's behalf.
//!
//! Folders of results are sent around, so the folder may be somebody else's doing: in the place of a file there may be
//! a link to any file of the reader, a second name of one, or a pipe that nobody reads. None of them is ever opened.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What `umask` is taken off, as for any new file.
const MODE: u32 = 0o666;

/// Puts a file at `path` in one step: what is there stays until the new one is whole and on the disk, and is then
/// replaced. A link, a name of a file that has others, or a pipe is replaced too, never followed or opened.
///
/// It is written beside it under a random name that did not exist. Blocks until the disk has it.
///
/// # Errors
///
/// What `write` says; the system's, where there is no such folder, it may not be written, or a folder is in the place.
/// Nothing is left then, and what was there is as it was.
pub fn replace<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut beside = tempfile::Builder::new()
        .prefix(".unfinished.")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(folder)?;
    let mut out = BufWriter::new(beside.as_file_mut());
    write(&mut out)?;
    out.flush()?;
    drop(out);
    beside.as_file().sync_all()?;
    // In the error is the file, which goes with it.
    beside.persist(path).map_err(|refused| refused.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |out| out.write_all(text.as_bytes()))
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// One after the other in the place of the file.
    #[test]
    fn what_is_in_the_place_is_replaced_and_not_followed() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, own) = (folder.path().join("report.html"), elsewhere.path().join("own"));
        fs::write(&own, "mine").unwrap();
        let none = elsewhere.path().join("none");
        let in_the_place: [&dyn Fn(); 5] = [
            &|| fs::write(&path, "old").unwrap(),
            &|| symlink(&own, &path).unwrap(),
            &|| symlink(&none, &path).unwrap(),
            &|| fs::hard_link(&own, &path).unwrap(),
            // Opened for writing, it would wait for a reader.
            &|| rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap(),
        ];
        for (i, put) in in_the_place.iter().enumerate() {
            let _ = fs::remove_file(&path);
            put();
            write(&path, "new").unwrap();
            assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{i}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "new", "{i}");
            assert_eq!(fs::read_to_string(&own).unwrap(), "mine", "{i}");
            assert!(!none.exists(), "{i}");
            assert_eq!(names(folder.path()), ["report.html"], "{i}");
        }
    }

    #[test]
    fn what_fails_leaves_nothing_and_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "old").unwrap();
        let refused = replace(&path, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::create_dir(folder.path().join("b")).unwrap();
        assert!(write(&folder.path().join("b"), "new").is_err());
        assert_eq!(names(folder.path()), ["a", "b"]);
    }

    #[test]
    fn it_may_be_read_by_those_who_may_read_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, any) = (folder.path().join("ours"), folder.path().join("any"));
        write(&ours, "").unwrap();
        fs::write(&any, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&any));
    }
}
