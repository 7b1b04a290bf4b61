//! The small C programs that experiments start. `build.rs` compiles them once; they are embedded in the laboratory and
//! run from memory.
//!
//! A program lies in a file that exists in memory alone, so it needs no disk and no path, and leaves nothing behind. To
//! the kernel it is started like any other program. Here is also the protocol of `guests/c/guest.h`: how a program is
//! called and what it answers.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

use threadgauge_lab::refusal::refused_in;
use threadgauge_lab::worker::{CaseError, Worker};
use threadgauge_machine::clock;
use threadgauge_results::{Lack, Need};

/// A program as it was compiled.
#[derive(Debug)]
pub struct Guest {
    pub(crate) name: &'static str,
    /// Empty where it could not be compiled.
    pub(crate) elf: &'static [u8],
    pub(crate) why_missing: &'static str,
}

macro_rules! guest {
    ($name:literal) => {
        $crate::guests::Guest {
            name: $name,
            elf: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            why_missing: env!(concat!("THREADGAUGE_WITHOUT_", $name)),
        }
    };
}

pub(crate) use guest;

/// `guests/c/exit.c`.
pub const EXIT: Guest = guest!("exit");
/// `guests/c/units.c`.
pub const UNITS: Guest = guest!("units");
/// `guests/c/print.c`.
pub const PRINT: Guest = guest!("print");
/// `guests/c/empty_loop.c` without optimisation.
pub const EMPTY_LOOP_PLAIN: Guest = guest!("empty_loop_plain");
/// The same with optimisation.
pub const EMPTY_LOOP_OPTIMISED: Guest = guest!("empty_loop_optimised");

impl Guest {
    /// Why it cannot be started in this build, if so.
    pub fn missing(&self) -> Option<Lack> {
        let says = || {
            format!(
                "needs the program {}, which this build lacks: {}",
                self.name, self.why_missing
            )
        };
        let elf = self.elf;
        #[cfg(test)]
        let elf = tests::as_compiled_here(elf);
        elf.is_empty().then(|| Lack::new(Need::Program, says()))
    }

    /// Writes it to a file in memory, which can be the standard input of a program that starts it.
    ///
    /// # Errors
    ///
    /// Skipped where this build lacks the program or the system forbids running files in memory.
    pub fn load(&self) -> Result<File, CaseError> {
        if let Some(lack) = self.missing() {
            return Err(CaseError::Skipped(lack));
        }
        let file = executable_file().map_err(|e| {
            let says = format!(
                "an executable file in memory is refused ({e}); the setting vm.memfd_noexec may forbid it"
            );
            CaseError::Skipped(Lack::new(Need::System, says))
        })?;
        let mut file = File::from(file);
        file.write_all(self.elf)
            .map_err(|e| CaseError::failed("writing the program into memory", e))?;
        Ok(file)
    }

    /// Starts it with `input` on its standard input, `arguments` and, last, its deadline. When it has ended, reads its
    /// figures. `unit` is what it makes, to follow a number, e.g. `by fork`. Blocks.
    ///
    /// # Errors
    ///
    /// Skipped as in [`Guest::load`], and where the program was compiled for another machine's C library. Failed when
    /// it was refused a unit (the error names the limit), when something else went wrong in it, when it took longer
    /// than the deadline, and when its answer cannot be read.
    pub fn ask<F: Figures>(
        &self,
        worker: &Worker,
        input: Stdio,
        arguments: &[&dyn ToString],
        deadline: Duration,
        unit: &str,
    ) -> Result<Found<F>, CaseError> {
        let program = self.load()?;
        let mut command = command(&program);
        let deadline_s = deadline.as_secs().max(1);
        command.args(arguments.iter().map(|argument| argument.to_string()));
        command.arg(deadline_s.to_string());
        command.stdin(input).stdout(Stdio::piped());
        let broken = |e: io::Error| CaseError::failed("asking a program in C", e);
        let watch = worker.stopwatch();
        let begun_ns = clock::monotonic_ns();
        let mut child = command.spawn().map_err(not_started)?;
        let mut answer = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut said = String::new();
        let told = answer.read_line(&mut said).map_err(broken);
        let told = match told.and_then(|_| parse(&said).map_err(CaseError::Failed)) {
            // It waits and keeps its units, so that the limit can be found from what is in use.
            Ok(Said::Refused { number, error }) => {
                let refused = refused_in(&child.id().to_string(), unit, number, &error);
                child.kill().map_err(broken)?;
                Err(refused)
            }
            Ok(Said::Done(figures)) => Ok(figures),
            Err(error) => Err(error),
        };
        let more = io::read_to_string(answer).map_err(broken)?;
        let status = child.wait().map_err(broken)?;
        if status.signal() == Some(libc::SIGALRM) {
            let says = format!(
                "the program in C took longer than {deadline_s} s and was ended; a smaller --set may fit"
            );
            return Err(CaseError::Failed(says));
        }
        if let Some(signal) = status.signal().filter(|_| said.is_empty()) {
            let says = format!("the program in C was ended by signal {signal}");
            return Err(CaseError::Failed(says));
        }
        let figures = told?;
        if !status.success() || !more.is_empty() {
            let says = format!("the program in C ended with {status} after its answer, and said {more:?}");
            return Err(CaseError::Failed(says));
        }
        let ran_ns = clock::monotonic_ns() - begun_ns;
        let stretch = watch.stop().wall_ns as f64 / ran_ns.max(1) as f64;
        Ok(Found {
            figures,
            ran_ns,
            stretch,
        })
    }
}

/// What starts the program in this file, which must be open until then.
pub(crate) fn command(program: &File) -> Command {
    Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
}

fn executable_file() -> rustix::io::Result<OwnedFd> {
    match memfd_create(c"guest", MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not know the flag and need none.
        Err(Errno::INVAL) => memfd_create(c"guest", MemfdFlags::CLOEXEC),
        made => made,
    }
}

/// What a program found.
#[derive(Debug)]
pub struct Found<F> {
    /// What it answered.
    pub figures: F,
    /// The time from its start to its end, as a shell's `time` says.
    pub ran_ns: u64,
    /// The factor for a handicapped worker's figures, whose extra work is in proportion to the program's whole run.
    /// Otherwise 1, apart from the cost of starting a clock.
    pub stretch: f64,
}

/// The figures that a program answers, by name; [`figures!`] declares them.
pub trait Figures: Sized {
    /// Takes each figure under its name, in the order in which the program prints them.
    ///
    /// # Errors
    ///
    /// The first that `next` gives.
    fn take(next: impl FnMut(&str) -> Result<u64, String>) -> Result<Self, String>;
}

/// Declares a struct of the figures that a program answers: their names, in the order in which it prints them.
macro_rules! figures {
    ($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$of:meta])* $figure:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        $vis struct $name {
            $($(#[$of])* $vis $figure: u64,)+
        }

        impl $crate::guests::Figures for $name {
            fn take(mut next: impl FnMut(&str) -> Result<u64, String>) -> Result<Self, String> {
                Ok(Self {
                    $($figure: next(stringify!($figure))?,)+
                })
            }
        }
    };
}
pub(crate) use figures;

/// The kernel says "no such file" also where the program exists and the loader of its C library does not.
fn not_started(error: io::Error) -> CaseError {
    if error.kind() == io::ErrorKind::NotFound {
        let says =
            "the program was compiled for the C library of another machine: build threadgauge on this one";
        return CaseError::Skipped(Lack::new(Need::Program, says));
    }
    CaseError::failed("starting a program in C", error)
}

/// A program's one line.
#[derive(Debug)]
enum Said<F> {
    Done(F),
    Refused { number: u64, error: io::Error },
}

figures! {
    /// Which unit the system refused, and why.
    struct Refusal {
        unit,
        errno,
    }
}

/// Reads the line: the word, and every figure once, under its name, in its place.
///
/// # Errors
///
/// The program's own words for what went wrong, or what is wrong with the line.
fn parse<F: Figures>(line: &str) -> Result<Said<F>, String> {
    let wrong = |what: String| format!("the program in C answered {line:?}: {what}");
    let whole = line.strip_suffix('\n');
    let whole = whole.ok_or_else(|| wrong("the line has no end".to_owned()))?;
    let (word, rest) = whole.split_once(' ').unwrap_or((whole, ""));
    match word {
        "done" => Ok(Said::Done(read(rest).map_err(wrong)?)),
        "refused" => {
            let Refusal { unit, errno } = read(rest).map_err(wrong)?;
            let errno = i32::try_from(errno).map_err(|_| wrong(format!("{errno} is no error's number")))?;
            let error = io::Error::from_raw_os_error(errno);
            Ok(Said::Refused { number: unit, error })
        }
        "error" => Err(rest.to_owned()),
        _ => Err(wrong("it begins with none of done, refused, error".to_owned())),
    }
}

pub(crate) fn read<F: Figures>(text: &str) -> Result<F, String> {
    let mut words = text.split(' ');
    let figures = F::take(|name| {
        let word = words.next().unwrap_or("");
        let digits = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
        // Rust's numbers may have a sign; these may not.
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let value = digits.and_then(|digits| digits.parse().ok());
        value.ok_or_else(|| format!("{name}=NUMBER is wanted where {word:?} stands"))
    })?;
    match words.next() {
        Some(word) => Err(format!("nothing is wanted where {word:?} stands")),
        None => Ok(figures),
    }
}

/// The core files in the folder that tests run in: a program that crashes on purpose leaves none.
#[cfg(test)]
pub(crate) fn core_files() -> Vec<String> {
    let files = std::fs::read_dir(".").expect("a test may read the folder it runs in");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("core")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{HANDOVER, RING, WAKE};
    use crate::footprint::IDLE;
    use crate::limits::LIMITS;
    use std::cell::Cell;
    use std::io::Read as _;
    use std::process::Child;
    use std::time::Instant;
    use threadgauge_lab::grid::PlannedCase;
    use threadgauge_lab::site::Profile;
    use threadgauge_lab::testing;

    thread_local! {
        /// Whether what this thread plans is planned as in a build without a C compiler.
        static HAS_COMPILER: Cell<bool> = const { Cell::new(true) };
    }

    /// This program, or none.
    pub fn as_compiled_here(elf: &'static [u8]) -> &'static [u8] {
        if HAS_COMPILER.get() { elf } else { &[] }
    }

    figures! {
        struct Made {
            wall_ns,
            made,
        }
    }

    fn worker() -> Worker {
        testing::worker(&crate::probes::EXPERIMENT, &threadgauge_results::Params::new())
    }

    /// The figures of a shell script, whose `$0` is the deadline.
    fn asked(script: &str) -> Result<[u64; 2], String> {
        asked_of(script, Stdio::null())
    }

    fn asked_of(script: &str, input: Stdio) -> Result<[u64; 2], String> {
        let shell = Guest {
            name: "sh",
            elf: std::fs::read("/bin/sh").unwrap().leak(),
            why_missing: "",
        };
        let deadline = Duration::from_secs(9);
        let arguments: [&dyn ToString; 2] = [&"-c", &script];
        let answer = shell.ask::<Made>(&worker(), input, &arguments, deadline, "process by fork");
        let values = answer.map(|found| [found.figures.wall_ns, found.figures.made]);
        values.map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_is_read_strictly() {
        let read = |line| match parse(line) {
            Ok(Said::Done(Made { wall_ns, made })) => Ok([wall_ns, made]),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(read("done wall_ns=12 made=3\n"), Ok([12, 3]));
        for (line, says) in [
            ("", "no end"),
            ("done wall_ns=12 made=3", "no end"),
            ("\n", "none of done, refused, error"),
            ("gone wall_ns=12 made=3\n", "none of done, refused, error"),
            ("done wall_ns=12\n", "made=NUMBER is wanted where \\\"\\\" stands"),
            (
                "done made=3 wall_ns=12\n",
                "wall_ns=NUMBER is wanted where \\\"made=3\\\" stands",
            ),
            ("done wall_ns=12 made=\n", "made=NUMBER is wanted"),
            ("done wall_ns=12 made=+3\n", "made=NUMBER is wanted"),
            ("done wall_ns=12 made=-3\n", "made=NUMBER is wanted"),
            ("done wall_ns=12 made=3.0\n", "made=NUMBER is wanted"),
            ("done  wall_ns=12 made=3\n", "wall_ns=NUMBER is wanted"),
            (
                "done wall_ns=12 made=18446744073709551616\n",
                "made=NUMBER is wanted",
            ),
            (
                "done wall_ns=12 made=3 lives=4\n",
                "nothing is wanted where \\\"lives=4\\\" stands",
            ),
            (
                "refused unit=5 errno=99999999999\n",
                "99999999999 is no error's number",
            ),
            ("error joining a thread: gone\n", "joining a thread: gone"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(says), "{line:?}: {error}");
        }
        let refused = parse::<Made>("refused unit=5 errno=11\n").unwrap();
        assert!(matches!(refused, Said::Refused { number: 5, error } if error.raw_os_error() == Some(11)));
    }

    #[test]
    fn the_figures_of_a_program_that_ends_well_are_its_answer() {
        assert_eq!(asked("echo done wall_ns=$(($0 + 1)) made=3"), Ok([10, 3]));
    }

    #[test]
    fn what_goes_wrong_with_a_program_is_told() {
        for (script, says) in [
            ("echo error no memory; exit 1", "no memory"),
            ("exit 3", "answered \"\""),
            ("echo done wall_ns=1 made=2; exit 3", "exit status: 3"),
            ("echo done wall_ns=1 made=2; echo more", "said \"more\\n\""),
            ("kill -ALRM $$", "took longer than 9 s"),
            ("kill -KILL $$", "the program in C was ended by signal 9"),
            (
                "echo refused unit=5 errno=1; exec sleep 600",
                "process by fork 5 was refused: Operation not permitted",
            ),
        ] {
            let error = asked(script).unwrap_err();
            assert!(error.contains(says), "{script}: {error}");
        }
    }

    #[test]
    fn units_that_the_system_refuses_are_told_by_their_number() {
        // Stacks of 8 MiB, of which there is room for a dozen.
        let script = "ulimit -s 8192 && ulimit -v 120000 && \
                      exec /proc/self/fd/0 thread pipe 64 0 to-other - 1000 1000 $0";
        let error = asked_of(script, RING.load().unwrap().into()).unwrap_err();
        let says = error.strip_prefix("process by fork ").expect(&error);
        let (number, says) = says.split_once(' ').expect(&error);
        assert!((2..=32).contains(&number.parse::<u64>().unwrap()), "{error}");
        assert!(says.starts_with("was refused: "), "{error}");
    }

    fn started(guest: &Guest, arguments: &str) -> Child {
        let program = guest.load().unwrap();
        let mut guest = command(&program);
        guest.args(arguments.split(' '));
        guest.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Units by fork, many at once or beside others that compute, with so many seconds for all.
    fn many([alive, busy]: [&str; 2], deadline_s: &str) -> Child {
        let arguments = format!("fork 1000000000 {alive} {busy} 0 0 1000000000000 0 {deadline_s}");
        started(&UNITS, &arguments)
    }

    /// The children of a program that still is there.
    fn children(guest: &Child) -> Vec<String> {
        let listed = format!("/proc/{0}/task/{0}/children", guest.id());
        let text = std::fs::read_to_string(listed).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_program_says_that_a_unit_was_killed() {
        for (guest, arguments) in [
            (RING, "process pipe 8 0 to-other - 1000 60000000000 60"),
            (WAKE, "process epoll 8 all 100000000 0 - 60"),
            (HANDOVER, "process pipe 64 1 - 1000 60000000000 60"),
            (IDLE, "process 3000 attribute 8192 4 0 60"),
            // Each trial is one process: one after the other.
            (LIMITS, "unchecked 1000 attribute 64 4 0 1000000 60"),
            (UNITS, "fork 1000000000 300 0 0 0 1000000000000 0 60"),
        ] {
            let mut guest = started(&guest, arguments);
            let mut answer = String::new();
            let mut said = guest.stdout.take().unwrap();
            std::thread::scope(|scope| {
                let told = scope.spawn(|| said.read_to_string(&mut answer));
                while !told.is_finished() {
                    // The first alone: others may follow it.
                    if let Some(unit) = children(&guest).first() {
                        let unit = rustix::process::Pid::from_raw(unit.parse().unwrap()).unwrap();
                        let _ = rustix::process::kill_process(unit, rustix::process::Signal::KILL);
                    }
                    std::thread::yield_now();
                }
            });
            guest.wait().unwrap();
            assert!(
                answer.ends_with("was ended by signal 9\n"),
                "{guest:?} said {answer:?}"
            );
        }
    }

    #[test]
    fn a_program_that_is_killed_leaves_no_child_behind() {
        let ring = |unit: &str| started(&RING, &format!("{unit} pipe 8 0 to-other - 1000 60000000000 60"));
        // Where units are held, where others compute, and where they wake each other.
        let wake = started(&WAKE, "process epoll 8 all 100000000 0 - 60");
        let of_each = [
            many(["300", "0"], "60"),
            many(["1", "3"], "60"),
            ring("process"),
            ring("shared-process"),
            wake,
        ];
        for mut guest in of_each {
            let mut units = Vec::new();
            while units.len() < 3 {
                units = children(&guest);
            }
            guest.kill().unwrap();
            guest.wait().unwrap();
            // Ended, or waiting for whoever adopts it to notice.
            let running = |unit: &String| {
                let stat = std::fs::read_to_string(format!("/proc/{unit}/stat")).unwrap_or_default();
                stat.rsplit_once(") ")
                    .is_some_and(|(_, rest)| !rest.starts_with('Z'))
            };
            let deadline = Instant::now() + Duration::from_secs(60);
            while units.iter().any(running) {
                assert!(Instant::now() < deadline, "{guest:?} left {units:?}");
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn a_program_that_takes_too_long_ends_itself() {
        let status = many(["1", "0"], "1").wait().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGALRM));
    }

    #[test]
    fn a_c_library_that_is_not_there_is_no_failure() {
        let skipped = not_started(io::ErrorKind::NotFound.into());
        assert!(matches!(skipped, CaseError::Skipped(lack) if lack.says.contains("C library")));
        let failed = not_started(io::ErrorKind::PermissionDenied.into());
        assert!(matches!(failed, CaseError::Failed(says) if says.starts_with("starting a program in C: ")));
    }

    #[test]
    fn the_smallest_program_runs_from_memory_and_tells_a_descriptor_it_cannot_read() {
        let program = EXIT.load().unwrap();
        assert_eq!(command(&program).status().unwrap().code(), Some(0));
        assert_eq!(command(&program).arg("999").status().unwrap().code(), Some(2));
    }

    #[test]
    fn a_program_that_could_not_be_compiled_is_a_lack_with_the_compilers_reason() {
        let guest = Guest {
            name: "exit",
            elf: &[],
            why_missing: "the compiler cc cannot be started: not found",
        };
        let lack = guest.missing().unwrap();
        assert_eq!(lack.of, Need::Program);
        let says =
            "needs the program exit, which this build lacks: the compiler cc cannot be started: not found";
        assert_eq!(lack.says, says);
        assert!(matches!(guest.load(), Err(CaseError::Skipped(of_load)) if of_load == lack));
    }

    #[test]
    fn a_build_without_a_compiler_plans_what_needs_none() {
        HAS_COMPILER.set(false);
        let site = testing::site(Profile::Standard, 2);
        let lacks = |case: &&PlannedCase| {
            let of_build = |lack: &Lack| lack.says.contains("which this build lacks");
            case.skip.as_ref().is_some_and(of_build)
        };
        let (mut whole, mut partly) = (Vec::new(), Vec::new());
        for experiment in crate::CATALOGUE.iter() {
            let cases = (experiment.plan)(&site).cases;
            match cases.iter().filter(lacks).count() {
                0 => {}
                all if all == cases.len() => whole.push(experiment.id),
                some => partly.push((experiment.id, some)),
            }
        }
        let of_units = ["ring", "wake", "handover", "contention", "compute", "placement"];
        let others = ["footprint", "limits", "identity", "print", "stages"];
        assert_eq!(whole, [&of_units[..], &others].concat());
        assert_eq!(
            partly,
            [
                ("create", 44),
                // All but a thread's panic, which is Rust's.
                ("crash", 10),
                ("probes", 2),
                ("server-designs", 117),
                // The floors in C.
                ("peers", 9),
                ("http", 6),
                ("connections", 3),
                ("subscriptions", 4),
                ("chat", 7),
            ]
        );
    }
}
