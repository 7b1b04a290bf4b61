//! A program that runs: it is listened to line by line, and ended with all that it left behind once its time is over.
//!
//! Owns one process, which leads a group of its own: a runtime may be a script that starts another program, and its
//! units may be processes. The protocol is that of the programs in C (`guests/c/guest.h`), read by the same code. What
//! a guest is asked is not known here.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use threadgauge_lab::worker::CaseError;
use threadgauge_machine::end_with_this_thread;
use threadgauge_results::{Lack, Need};

use crate::guests::{Figures, read};

/// The most that a program may say, bytes.
const MOST_BYTES: usize = 1 << 20;
/// How much of its standard error is kept, bytes: the first of it has a compiler's first error.
const COMPLAINT_BYTES: usize = 16 << 10;

/// Why a program gave no answer.
#[derive(Debug)]
pub enum TalkError {
    /// The system did not start it.
    NotStarted {
        /// What was to be started.
        program: String,
        /// The system's answer.
        error: io::Error,
    },
    /// It was ended after this time.
    TooLong(Duration),
    /// It said more than [`MOST_BYTES`].
    TooMuch,
    /// It ended without an answer, or not well behind one.
    Ended {
        /// How.
        status: ExitStatus,
        /// What it wrote to its standard error.
        complaint: String,
    },
    /// It answered something else than was asked for.
    Nonsense {
        /// What it said.
        line: String,
        /// What is wrong with it.
        why: String,
    },
    /// It told by itself what went wrong.
    Said(String),
    /// The system refused something about it.
    Broken(io::Error),
}

impl fmt::Display for TalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, error } => write!(f, "{program} cannot be started: {error}"),
            Self::TooLong(most) => {
                let seconds = most.as_secs_f64();
                write!(f, "it took longer than {seconds:.0} s and was ended")
            }
            Self::TooMuch => write!(f, "it said more than {MOST_BYTES} bytes and was ended"),
            Self::Ended { status, complaint } => match first_error(complaint) {
                Some(line) => write!(f, "it ended with {status}: {line}"),
                None => write!(f, "it ended with {status}"),
            },
            Self::Nonsense { line, why } => write!(f, "it answered {line:?}: {why}"),
            Self::Said(words) => f.write_str(words),
            Self::Broken(error) => write!(f, "it cannot be listened to: {error}"),
        }
    }
}

impl std::error::Error for TalkError {}

impl TalkError {
    /// What it is for the case that asked. (As a `From` it would leave the compiler a choice at every other `?`.)
    #[must_use]
    pub fn of_case(self) -> CaseError {
        match self {
            // It was there when the run began.
            Self::NotStarted { .. } => CaseError::Skipped(Lack::new(Need::Program, self.to_string())),
            Self::TooLong(_) => CaseError::Failed(format!("the guest: {self}; a smaller --set may fit")),
            _ => CaseError::Failed(format!("the guest: {self}")),
        }
    }
}

/// The line that says what was wrong: the first that speaks of an error, else the first that says anything.
#[must_use]
pub fn first_error(complaint: &str) -> Option<&str> {
    let said = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let mut lines = complaint.lines().map(str::trim).filter(said);
    let first = lines.clone().next();
    lines
        .find(|line| line.to_ascii_lowercase().contains("error"))
        .or(first)
}

/// A program that runs. Dropped, it is ended, and all of its group.
#[derive(Debug)]
pub struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    error: Option<ChildStderr>,
    /// What it said and nobody has asked for yet.
    said: Vec<u8>,
    heard_bytes: usize,
    complaint: Vec<u8>,
    most: Duration,
    until: Instant,
    has_ended: bool,
}

/// What a program said in all.
#[derive(Debug)]
pub struct Whole {
    /// How it ended.
    pub status: ExitStatus,
    /// On its standard output.
    pub output: String,
    /// On its standard error.
    pub complaint: String,
}

impl Talk {
    /// Starts the program, which is ended when `most` is over, and when this thread ends.
    ///
    /// # Errors
    ///
    /// [`TalkError::NotStarted`].
    pub fn begin(command: &mut Command, most: Duration) -> Result<Self, TalkError> {
        Self::begin_with(command, Stdio::piped(), most)
    }

    /// The same with this as its standard input.
    ///
    /// # Errors
    ///
    /// [`TalkError::NotStarted`].
    pub fn begin_with(command: &mut Command, input: Stdio, most: Duration) -> Result<Self, TalkError> {
        let program = command.get_program().to_string_lossy().into_owned();
        end_with_this_thread(command);
        let started = command
            .process_group(0)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = started.map_err(|error| TalkError::NotStarted { program, error })?;
        Ok(Self {
            input: child.stdin.take(),
            output: child.stdout.take(),
            error: child.stderr.take(),
            child,
            said: Vec::new(),
            heard_bytes: 0,
            complaint: Vec::new(),
            most,
            until: Instant::now() + most,
            has_ended: false,
        })
    }

    /// The process id, which is that of its group.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The figures of its next line, which begins with `word`. Blocks.
    ///
    /// # Errors
    ///
    /// What it told went wrong, or what is wrong with what it said or did.
    pub fn told<F: Figures>(&mut self, word: &str) -> Result<F, TalkError> {
        let Some(line) = self.line()? else {
            return Err(self.died());
        };
        let (first, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        if first == "error" {
            return Err(TalkError::Said(rest.to_owned()));
        }
        let figures = match first == word {
            true => read(rest),
            false => Err(format!("it is to begin with {word}")),
        };
        figures.map_err(|why| TalkError::Nonsense { line, why })
    }

    /// From now on it has so long.
    pub fn allow(&mut self, most: Duration) {
        self.most = most;
        self.until = Instant::now() + most;
    }

    /// Ends its standard input.
    pub fn end_input(&mut self) {
        self.input = None;
    }

    /// Waits for its end, with nothing more to say and exit code 0.
    ///
    /// # Errors
    ///
    /// When it says more, ends otherwise, or takes too long.
    pub fn end(mut self) -> Result<(), TalkError> {
        self.input = None;
        if let Some(line) = self.line()? {
            let why = "it was to say no more".to_owned();
            return Err(TalkError::Nonsense { line, why });
        }
        let Whole {
            status, complaint, ..
        } = self.whole()?;
        match status.success() {
            true => Ok(()),
            false => Err(TalkError::Ended { status, complaint }),
        }
    }

    /// All that it says until its end, however it ends.
    ///
    /// # Errors
    ///
    /// When it takes too long or says too much.
    pub fn whole(mut self) -> Result<Whole, TalkError> {
        self.input = None;
        let status = self.until_end()?;
        let [output, complaint] = self.so_far();
        Ok(Whole {
            status,
            output,
            complaint,
        })
    }

    /// All that it says until its end, or until its time is over: then it is ended, and has no status.
    ///
    /// # Errors
    ///
    /// When it says too much.
    pub fn whole_or_hung(mut self) -> Result<(Option<ExitStatus>, String, String), TalkError> {
        self.input = None;
        let status = match self.until_end() {
            Ok(status) => Some(status),
            Err(TalkError::TooLong(_)) => None,
            Err(error) => return Err(error),
        };
        let [output, complaint] = self.so_far();
        Ok((status, output, complaint))
    }

    fn until_end(&mut self) -> Result<ExitStatus, TalkError> {
        while self.output.is_some() || self.error.is_some() {
            self.hear()?;
        }
        self.wait()
    }

    /// What it said and nobody has asked for, and what it wrote to its standard error.
    fn so_far(&self) -> [String; 2] {
        [&self.said, &self.complaint].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Its next line without the end; none where it has closed its standard output.
    fn line(&mut self) -> Result<Option<String>, TalkError> {
        loop {
            if let Some(end) = self.said.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.said.drain(..=end).collect();
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            if self.output.is_none() {
                if self.said.is_empty() {
                    return Ok(None);
                }
                let line = String::from_utf8_lossy(&self.said).into_owned();
                let why = "the line has no end".to_owned();
                return Err(TalkError::Nonsense { line, why });
            }
            self.hear()?;
        }
    }

    /// Why there is no line: it has closed its standard output, and is about to end.
    fn died(&mut self) -> TalkError {
        while self.error.is_some() {
            if let Err(error) = self.hear() {
                return error;
            }
        }
        match self.wait() {
            Ok(status) => TalkError::Ended {
                status,
                complaint: String::from_utf8_lossy(&self.complaint).into_owned(),
            },
            Err(error) => error,
        }
    }

    /// Waits until it says or complains something, or closes either.
    fn hear(&mut self) -> Result<(), TalkError> {
        let timeout = self.left()?;
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let [has_said, has_complained] = {
            let mut open = Vec::new();
            open.extend(self.output.as_ref().map(|of| PollFd::new(of, PollFlags::IN)));
            open.extend(self.error.as_ref().map(|of| PollFd::new(of, PollFlags::IN)));
            // An error here is a signal: whoever called looks again.
            let _ = poll(&mut open, Some(&timeout));
            let mut heard = open.iter().map(|of| !of.revents().is_empty());
            let of_output = self.output.is_some() && heard.next().unwrap_or(false);
            let of_error = self.error.is_some() && heard.next().unwrap_or(false);
            [of_output, of_error]
        };
        if has_said {
            self.heard_bytes += take_some(&mut self.output, &mut self.said).map_err(TalkError::Broken)?;
        }
        if has_complained {
            self.heard_bytes += take_some(&mut self.error, &mut self.complaint).map_err(TalkError::Broken)?;
            self.complaint.truncate(COMPLAINT_BYTES);
        }
        if self.heard_bytes > MOST_BYTES {
            return Err(TalkError::TooMuch);
        }
        Ok(())
    }

    /// The time that it still has.
    fn left(&self) -> Result<Duration, TalkError> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(TalkError::TooLong(self.most)),
            false => Ok(left),
        }
    }

    /// Waits for its end; what it left behind is ended with it.
    fn wait(&mut self) -> Result<ExitStatus, TalkError> {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(&self.child);
        // It has closed both of its streams, so this takes no longer than an exit.
        while let Ok(None) = waitid(WaitId::Pid(pid), look) {
            self.left()?;
            std::thread::sleep(Duration::from_micros(200));
        }
        self.end_group();
        self.child.wait().map_err(TalkError::Broken)
    }

    /// Ends its group, while its own id is still its.
    fn end_group(&mut self) {
        if !self.has_ended {
            self.has_ended = true;
            // Refused where there is nobody left.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.end_group();
        let _ = self.child.wait();
    }
}

/// Reads what is there, of a pipe that has something or is at its end; so many bytes.
fn take_some(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; 16 << 10];
    let count = match pipe {
        Some(open) => match open.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            count => count?,
        },
        None => return Ok(0),
    };
    into.extend_from_slice(&piece[..count]);
    if count == 0 {
        *pipe = None;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guests::figures;

    figures! {
        struct Made {
            wall_ns,
            made,
        }
    }

    /// As long as a test may take.
    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str, most: Duration) -> Talk {
        Talk::begin(Command::new("sh").arg("-c").arg(script), most).unwrap()
    }

    fn asked(script: &str, most: Duration) -> Result<[u64; 2], String> {
        let mut talk = shell(script, most);
        let answer = talk.told("done").and_then(|Made { wall_ns, made }| {
            talk.end()?;
            Ok([wall_ns, made])
        });
        answer.map_err(|error| error.to_string())
    }

    #[test]
    fn a_guest_that_answers_and_ends_well_is_believed() {
        assert_eq!(asked("echo done wall_ns=7 made=3", LONG), Ok([7, 3]));
        // What it says beside is its own affair.
        let warns = "echo warning >&2; echo done wall_ns=7 made=3; echo again >&2";
        assert_eq!(asked(warns, LONG), Ok([7, 3]));
        // In pieces.
        assert_eq!(
            asked("printf 'done wall_'; sleep 0.02; echo ns=7 made=3", LONG),
            Ok([7, 3])
        );
    }

    #[test]
    fn what_goes_wrong_with_a_guest_is_told() {
        for (script, says) in [
            ("echo hello", "it answered \"hello\": it is to begin with done"),
            ("echo done made=3 wall_ns=7", "wall_ns=NUMBER is wanted"),
            ("printf 'done wall_ns=7 made=3'", "the line has no end"),
            ("echo done wall_ns=7 made=3; echo more", "it was to say no more"),
            (
                "echo done wall_ns=7 made=3; exit 3",
                "it ended with exit status: 3",
            ),
            ("echo error no unit of that name; exit 1", "no unit of that name"),
            ("exit 3", "it ended with exit status: 3"),
            ("kill -9 $$", "it ended with signal: 9 (SIGKILL)"),
            (
                "echo first >&2; echo an Error: no memory >&2; exit 1",
                "it ended with exit status: 1: an Error: no memory",
            ),
            ("yes | tr -d '\\n'", "it said more than 1048576 bytes"),
            ("yes >&2", "it said more than 1048576 bytes"),
        ] {
            let error = asked(script, LONG).unwrap_err();
            assert!(error.contains(says), "{script}: {error}");
        }
    }

    /// Whether a process is there and has not ended.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }

    fn wait_until(holds: impl Fn() -> bool) {
        while !holds() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn one_that_hangs_is_ended_with_what_it_has_started() {
        for script in [
            "sleep 600 & echo $! >$0; wait",
            // It has closed all that could be listened to.
            "sleep 600 >&- 2>&- <&- & echo $! >$0; exec sleep 600 >&- 2>&-",
            // A script of which the other program is a child.
            "sh -c 'echo $$ >\"$0\"; exec sleep 600' \"$0\"; true",
        ] {
            let dir = tempfile::tempdir().unwrap();
            let at = dir.path().join("pid");
            let mut command = Command::new("sh");
            command.arg("-c").arg(script).arg(&at);
            let mut talk = Talk::begin(&mut command, Duration::from_millis(300)).unwrap();
            let error = talk.told::<Made>("done").unwrap_err();
            assert!(matches!(error, TalkError::TooLong(_)), "{script}: {error}");
            wait_until(|| std::fs::read_to_string(&at).is_ok_and(|text| text.ends_with('\n')));
            drop(talk);
            let left = std::fs::read_to_string(&at).unwrap();
            wait_until(|| !runs(left.trim()));
        }
    }

    #[test]
    fn one_that_ends_leaves_nobody_behind() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("pid");
        let script = "sleep 600 >&- 2>&- <&- & echo $! >$0; echo done wall_ns=1 made=2";
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(&at);
        let mut talk = Talk::begin(&mut command, LONG).unwrap();
        let Made { wall_ns, made } = talk.told("done").unwrap();
        assert_eq!([wall_ns, made], [1, 2]);
        talk.end().unwrap();
        let left = std::fs::read_to_string(&at).unwrap();
        wait_until(|| !runs(left.trim()));
    }

    #[test]
    fn one_that_waits_for_the_end_of_its_input_is_told_it() {
        let mut talk = shell(
            "echo done wall_ns=1 made=2; cat; echo done wall_ns=3 made=4",
            LONG,
        );
        let mut made = || talk.told::<Made>("done").map(|of| of.made).unwrap();
        assert_eq!(made(), 2);
        talk.end_input();
        assert_eq!(talk.told::<Made>("done").unwrap().made, 4);
        talk.end().unwrap();
    }

    #[test]
    fn what_is_not_there_is_a_lack_and_what_fails_is_a_failure() {
        let absent = Talk::begin(&mut Command::new("/nowhere/java"), LONG).unwrap_err();
        let says = "/nowhere/java cannot be started: No such file or directory (os error 2)";
        assert_eq!(absent.to_string(), says);
        assert!(matches!(absent.of_case(), CaseError::Skipped(lack) if lack.of == Need::Program));
        let failed = TalkError::Said("no memory".to_owned()).of_case();
        assert_eq!(failed.to_string(), "the guest: no memory");
    }

    #[test]
    fn a_compilers_first_error_is_the_reason() {
        for (said, reason) in [
            (
                "# guest\n./main.go:10:2: undefined: x\n./main.go:11:2: undefined: y\n",
                Some("./main.go:10:2: undefined: x"),
            ),
            (
                "Note: something\nGuest.java:3: error: ';' expected\n    int x\n",
                Some("Guest.java:3: error: ';' expected"),
            ),
            ("\n\n", None),
            ("", None),
        ] {
            assert_eq!(first_error(said), reason);
        }
    }
}
