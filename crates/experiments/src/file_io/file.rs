//! The file that is read: written whole, without a name, and known to be in the page cache or not to be.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{Access, Advice, OFlags, access, fadvise, fcntl_setfl, statvfs};
use threadgauge_lab::prelude::*;

use super::case::{By, Case, Folder, ReadFrom};
use crate::sys::disk::is_in_memory;
use crate::sys::map::PAGE;

/// What is written at once, bytes.
const PIECE: usize = 1 << 20;

/// Looks whether the folder is there, may be written and has room for the file. Writes nothing.
///
/// # Errors
///
/// What is wrong with the folder, by its name, and what to do.
pub(super) fn look(case: Case) -> Result<(), String> {
    let path = case.folder.path();
    let says = |what: String| Err(unfit(case, &what));
    match fs::metadata(&path) {
        Err(error) => return says(format!("cannot be used ({error})")),
        Ok(found) if !found.is_dir() => return says("is a file".to_owned()),
        Ok(_) => {}
    }
    if let Err(error) = access(&path, Access::WRITE_OK | Access::EXEC_OK) {
        return says(format!("cannot be written ({error})"));
    }
    match statvfs(&path) {
        Err(error) => says(format!("does not say how much room it has ({error})")),
        // Some file systems in memory have no bound.
        Ok(system) if system.f_blocks == 0 => Ok(()),
        Ok(system) => {
            let free_mib = (system.f_bavail * system.f_frsize) >> 20;
            match free_mib < case.file_mib {
                true => says(format!(
                    "has {free_mib} MiB free and the file takes {} (file_mib); free some",
                    case.file_mib
                )),
                false => Ok(()),
            }
        }
    }
}

/// What is wrong with the folder of a case, by its name, and what to do.
fn unfit(case: Case, what: &str) -> String {
    let another = match case.folder {
        Folder::TEMPORARY => "set TMPDIR, or name another with --set folder=PATH",
        _ => "name another with --set folder=PATH",
    };
    format!("the folder {} {what}; {another}", case.folder.path().display())
}

/// Makes the file of a case. It has no name, so it is gone when this process is, however that ends. Blocks: every byte
/// is written, and on the disk.
pub(super) fn made(case: Case) -> Result<File, CaseError> {
    let path = case.folder.path();
    let lacks = |says: String| CaseError::Skipped(Lack::new(Need::System, says));
    let failed = |what: &str, error: io::Error| {
        CaseError::failed(format!("{what} the file in {}", path.display()), error)
    };
    look(case).map_err(lacks)?;
    let mut file = tempfile::tempfile_in(&path)
        .map_err(|error| lacks(unfit(case, &format!("takes no file ({error})"))))?;
    if case.from == ReadFrom::Device {
        can_bypass(&file, case).map_err(|why| {
            lacks(format!(
                "the file system of {} {why}; name a folder on a disk with --set folder=PATH, or read from the page cache \
                 alone with --only from=cache",
                path.display()
            ))
        })?;
    }
    write(&mut file, case).map_err(|e| failed("writing", e))?;
    match case.from {
        ReadFrom::Device => {
            // Of a map it decides where the blocks come from; the others leave the memory to whom needs it.
            fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| failed("forgetting", e.into()))?;
            if case.by != By::Map {
                fcntl_setfl(&file, OFlags::DIRECT).map_err(|e| failed("opening", e.into()))?;
            }
        }
        ReadFrom::Cache => {
            let mut piece = vec![0; PIECE];
            let places = (0..case.file_mib).map(|i| i * PIECE as u64);
            let read = places
                .into_iter()
                .try_for_each(|at| file.read_exact_at(&mut piece, at));
            read.map_err(|e| failed("reading", e))?;
        }
    }
    Ok(file)
}

/// Whether an empty file can be read past the page cache.
fn can_bypass(file: &File, case: Case) -> Result<(), String> {
    if is_in_memory(file) {
        return Err("is in memory".to_owned());
    }
    if case.by == By::Map {
        return Ok(());
    }
    fcntl_setfl(file, OFlags::DIRECT)
        .and_then(|()| fcntl_setfl(file, OFlags::empty()))
        .map_err(|error| format!("cannot be read past the page cache (O_DIRECT: {error})"))
}

/// Writes every byte: by chance, so that no file system makes them fewer, and at each page where it is.
fn write(file: &mut File, case: Case) -> io::Result<()> {
    let mut chance = fastrand::Rng::with_seed(case.file_mib);
    let mut piece = vec![0; PIECE];
    for i in 0..case.file_mib {
        chance.fill(&mut piece);
        for (page, at) in piece
            .chunks_exact_mut(PAGE)
            .zip((i * PIECE as u64..).step_by(PAGE))
        {
            page[..size_of::<u64>()].copy_from_slice(&at.to_le_bytes());
        }
        file.write_all(&piece)?;
    }
    file.sync_all()
}

/// Refuses a block that is not the one that was written at this place.
pub(super) fn checked(block: &[u8], at: u64) -> io::Result<()> {
    let last = block.len() - PAGE;
    let is_right = [0, last].into_iter().all(|i| {
        let stamp = &block[i..i + size_of::<u64>()];
        stamp == (at + i as u64).to_le_bytes()
    });
    match is_right {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "the block at {at} is not what was written there"
        ))),
    }
}
