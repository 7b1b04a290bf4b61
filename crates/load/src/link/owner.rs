//! To whom the processes of a link belong.
//!
//! Each has it in its environment, and so has what it starts. They die with their owner by themselves, but for those
//! that were kept from it (stopped, or of an earlier version); such are ended when the next link is made.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, kill_process};

const NAME: &str = "THREADGAUGE_LINK_OWNER";

/// A process that makes links, as no other is called: its id can be used again, its start not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: i32,
    started: String,
}

impl Owner {
    /// This process.
    pub fn this() -> Option<Self> {
        Self::running(getpid().as_raw_nonzero().get())
    }

    fn running(pid: i32) -> Option<Self> {
        let started = start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?.to_owned();
        Some(Self { pid, started })
    }

    /// As written in the environment of a process, each of whose variables ends with a zero.
    fn in_environment(environment: &[u8]) -> Option<Self> {
        let text = environment
            .split(|&byte| byte == 0)
            .find_map(|variable| variable.strip_prefix(NAME.as_bytes())?.strip_prefix(b"="))?;
        let (pid, started) = str::from_utf8(text).ok()?.split_once(' ')?;
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.to_owned(),
        })
    }

    fn is_gone(&self) -> bool {
        Self::running(self.pid).as_ref() != Some(self)
    }

    /// Has what this starts belong to it.
    pub fn mark<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env(NAME, format!("{} {}", self.pid, self.started))
    }
}

/// Ends what belongs to owners that are gone. With it their namespaces go, which no other process is in.
pub(super) fn end_orphans() {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let pid = process.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        // What may not be read is nobody's of ours.
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if Owner::in_environment(&environment).is_some_and(|owner| owner.is_gone()) {
            // It may end meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// When it started, in `/proc/…/stat`: the twenty-second field, of which the second is a name in parentheses that may
/// hold anything.
fn start_in(stat: &str) -> Option<&str> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_start_is_found_behind_any_name() {
        let stat = "7 (a) b 1) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(start_in(stat), Some("4711"));
        assert_eq!(start_in("7 (a) S 1"), None);
    }

    #[test]
    fn what_has_no_owner_any_more_is_ended_and_what_has_one_is_not() {
        let start = |owner: &Owner| {
            let mut sleep = Command::new("sleep");
            sleep.arg("1000").stdin(Stdio::null());
            owner.mark(&mut sleep).spawn().unwrap()
        };
        let this = Owner::this().unwrap();
        // The same id was used before, by one that started at another time.
        let before = Owner {
            started: format!("{}0", this.started),
            ..this
        };
        let (mut owned, mut orphan) = (start(&this), start(&before));
        end_orphans();
        assert!(!orphan.wait().unwrap().success());
        assert_eq!(owned.try_wait().unwrap(), None);
        owned.kill().unwrap();
        owned.wait().unwrap();
        assert_eq!(Owner::in_environment(b"A=1\0THREADGAUGE_LINK_OWNER=7 8\0"), {
            let started = "8".to_owned();
            Some(Owner { pid: 7, started })
        });
        for none in [
            "",
            "A=1\0",
            "THREADGAUGE_LINK_OWNER=\0",
            "XTHREADGAUGE_LINK_OWNER=7 8\0",
        ] {
            assert_eq!(Owner::in_environment(none.as_bytes()), None, "{none:?}");
        }
    }
}
