//! What happens when threads, descriptors or the caller itself run out: in a child of this program, where the limits
//! are low.

use std::cell::Cell;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, kill_process_group, setrlimit,
    waitpid,
};
use threadgauge_exec::{Carrier, ConcurrentExecution, Mode, ThreadPool};

use crate::carrier::{PERFORM, at_most};
use crate::script::{Step, object};
use crate::{DEADLINE, Test, block_on, content_of, test, until};

const CHILD: &str = "--child";

type Child = (&'static str, fn(&str));

/// What runs in a child, by name.
const CHILDREN: &[Child] = &[
    ("threads", too_few_threads),
    ("descriptors", too_few_descriptors),
    ("orphans", helpers_that_hang),
    ("interrupted", helpers_of_a_caller_that_is_interrupted),
    ("deleted", helpers_of_a_program_whose_file_is_gone),
    ("large", large_objects),
    ("forked", pools_after_a_fork),
];

/// The part of `main` that is a child's.
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != CHILD {
        return None;
    }
    let name = arguments.next()?;
    let argument = arguments.next().unwrap_or_default();
    let (_, run) = CHILDREN.iter().find(|(known, _)| *known == name)?;
    run(&argument);
    Some(ExitCode::SUCCESS)
}

fn again(name: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([CHILD, name, argument]);
    command
}

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<_> = ["pool", "each", "up_front", "shared"]
        .into_iter()
        .map(|carrier| {
            test(format!("limits::too_few_threads_on_{carrier}"), move || {
                assert!(again("threads", carrier).status().unwrap().success());
            })
        })
        .collect();
    tests.extend(LARGE_ON.map(|carrier| {
        test(format!("limits::large_objects_on_{carrier}"), move || {
            assert!(again("large", carrier).status().unwrap().success());
        })
    }));
    tests.push(test("limits::pools_are_used_after_a_fork", || {
        assert!(again("forked", "").status().unwrap().success());
    }));
    tests.push(test("limits::too_few_descriptors_for_helpers", || {
        assert!(again("descriptors", "").status().unwrap().success());
    }));
    tests.push(test(
        "limits::ctrl_c_is_for_the_caller_alone",
        ctrl_c_is_for_the_caller_alone,
    ));
    tests.push(test(
        "limits::a_program_whose_file_is_gone_has_helpers",
        a_program_whose_file_is_gone_has_helpers,
    ));
    tests.push(test(
        "limits::a_killed_caller_leaves_no_helper",
        a_killed_caller_leaves_no_helper,
    ));
    tests
}

/// Memory for a few threads, where sixty are wanted (a limit on threads does not hold for root).
fn too_few_threads(carrier: &str) {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // The standard library's threads have stacks of 2 MiB.
    let limit = pages * rustix::param::page_size() as u64 + (9 << 20);
    let limits = Rlimit {
        current: Some(limit),
        maximum: getrlimit(Resource::As).maximum,
    };
    setrlimit(Resource::As, limits).unwrap();
    let caller = std::thread::current().id();
    let (at_work, all_made) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = |n: &mut usize| {
        // Until all the threads are made that can be: then the caller sleeps, or works itself, and a thread that makes
        // those of other objects is gone. Not at the first look: who waits for a lock sleeps, too.
        if std::thread::current().id() != caller {
            at_work.fetch_add(1, SeqCst);
            let looks = Cell::new(0);
            until(|| {
                let (asleep, threads) = main_thread_sleeps();
                let now = asleep && (carrier != "each" || threads == 1 + at_work.load(SeqCst));
                looks.set(if now { looks.get() + 1 } else { 0 });
                looks.get() == 200 || all_made.load(SeqCst)
            });
            all_made.store(true, SeqCst);
            at_work.fetch_sub(1, SeqCst);
        }
        *n * 2
    };
    let with = at_most(60).mode(Mode::FreeCaller);
    let mut sum = 0;
    let add = |sum: &mut usize, n: usize| *sum += n;
    let report = match carrier {
        "up_front" => with
            .up_front()
            .for_each(0..60, work, |done| add(&mut sum, done.result)),
        "each" => run(&with.carrier(Carrier::ThreadPerObject), work, &mut sum),
        "shared" => {
            let pool = ThreadPool::new(std::num::NonZeroUsize::new(60).unwrap());
            run(&with.carrier(&pool), work, &mut sum)
        }
        _ => run(&with, work, &mut sum),
    };
    assert_eq!((report.finished, sum), (60, 60 * 59));
    assert!(report.shortage.is_some(), "there were threads enough");
}

/// Whether the main thread sleeps, which is this child's caller; and how many threads there are. Without memory of its
/// own: there may be none.
fn main_thread_sleeps() -> (bool, usize) {
    let mut stat = [0; 512];
    let mut file = std::fs::File::open("/proc/self/stat").unwrap();
    let read = std::io::Read::read(&mut file, &mut stat).unwrap();
    let stat = std::str::from_utf8(&stat[..read]).unwrap();
    // Behind the name in parentheses: the state, and as the eighteenth field, the threads.
    let (_, behind) = stat.rsplit_once(") ").unwrap();
    let mut fields = behind.split(' ');
    let asleep = fields.next() == Some("S");
    (asleep, fields.nth(16).unwrap().parse().unwrap())
}

fn run(
    with: &ConcurrentExecution,
    work: impl Fn(&mut usize) -> usize + Sync,
    sum: &mut usize,
) -> threadgauge_exec::Report<std::ops::Range<usize>, usize> {
    with.for_each(0..60, work, |done| *sum += done.result)
}

/// Descriptors for a few helpers, where twenty are wanted.
fn too_few_descriptors(_: &str) {
    const FREE: usize = 7;
    // Whoever started the tests may have left some open.
    let taken: Vec<u64> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    let limits = Rlimit {
        current: (0..).filter(|fd| !taken.contains(fd)).nth(FREE - 1),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limits).unwrap();
    let objects = (0..50).map(|id| object(id, [Step::Burn(50)]));
    let report = at_most(20).processes().for_each(objects, &PERFORM, |done| {
        done.result.unwrap().unwrap();
    });
    assert_eq!(report.finished, 50);
    assert!(report.shortage.is_some(), "there were descriptors enough");
}

fn helpers_that_hang(folder: &str) {
    let folder = Path::new(folder);
    let objects = (0..2).map(|id| object(id, [Step::Touch(folder.join(id.to_string())), Step::Hang]));
    let _ = at_most(2).processes().for_each(objects, &PERFORM, |_| ());
}

/// Until the second file is there, which is written after the signal.
fn helpers_of_a_caller_that_is_interrupted(folder: &str) {
    let folder = Path::new(folder);
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted)).unwrap();
    let steps = [
        Step::Touch(folder.join("began")),
        Step::WaitFor(folder.join("go")),
    ];
    let report = at_most(1)
        .processes()
        .for_each([object(0, steps)], &PERFORM, |done| {
            done.result.unwrap().unwrap();
        });
    assert_eq!(report.finished, 1);
    assert!(interrupted.load(SeqCst));
}

/// A terminal sends Ctrl-C to the group of processes that it talks to.
fn ctrl_c_is_for_the_caller_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut caller = again("interrupted", folder.path().to_str().unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    content_of(&folder.path().join("began"));
    let group = Pid::from_child(&caller);
    kill_process_group(group, Signal::INT).unwrap();
    // A helper that it reaches is dead as soon as it has been sent.
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert!(caller.wait().unwrap().success());
}

fn helpers_of_a_program_whose_file_is_gone(_: &str) {
    std::fs::remove_file(std::env::current_exe().unwrap()).unwrap();
    let report = at_most(1)
        .processes()
        .for_each([object(0, [])], &PERFORM, |done| assert!(done.result.is_ok()));
    assert_eq!(
        (report.finished, report.shortage.map(|e| e.to_string())),
        (1, None)
    );
}

fn a_program_whose_file_is_gone_has_helpers() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let status = Command::new(copy).args([CHILD, "deleted"]).status().unwrap();
    assert!(status.success());
}

fn a_killed_caller_leaves_no_helper() {
    let folder = tempfile::tempdir().unwrap();
    let mut caller = again("orphans", folder.path().to_str().unwrap()).spawn().unwrap();
    let helpers: Vec<String> = ["0", "1"].map(|id| content_of(&folder.path().join(id))).into();
    caller.kill().unwrap();
    caller.wait().unwrap();
    for helper in helpers {
        // Gone, or a zombie whose new parent is slow.
        until(|| {
            let status = std::fs::read_to_string(format!("/proc/{helper}/status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tZ")
        });
    }
}

const LARGE_ON: [&str; 8] = [
    "prompt",
    "free",
    "throughput",
    "each",
    "up_front",
    "shared",
    "serial",
    "async",
];

/// By value, objects and results alike. The caller's stack is as large as those of the threads it makes, 2 MiB.
fn large_objects(carrier: &str) {
    type Large = [u8; 192 << 10];
    let with = at_most(3);
    let objects = || (0..40_u8).map(|n| [n; size_of::<Large>()]);
    let work = |object: &mut Large| [object[9] + 1; size_of::<Large>()];
    let mut sum = 0;
    let mut add = |object: Large, result: Large| sum += usize::from(object[7]) + usize::from(result[8]);
    let call = || match carrier {
        "up_front" => with
            .up_front()
            .for_each(objects(), work, |done| add(done.object, done.result)),
        "serial" => with.serial(objects(), work, |done| add(done.object, done.result)),
        "async" => block_on(with.for_each_async(
            objects(),
            async |object| work(object),
            |done| add(done.object, done.result),
        )),
        _ => match carrier {
            "prompt" => with,
            "free" => with.mode(Mode::FreeCaller),
            "throughput" => with.mode(Mode::Throughput),
            "each" => with.carrier(Carrier::ThreadPerObject),
            _ => with.carrier(&pool_of(3)),
        }
        .for_each(objects(), work, |done| add(done.object, done.result)),
    };
    let finished = std::thread::scope(|scope| scope.spawn(|| call().finished).join().unwrap());
    assert_eq!((finished, sum), (40, 2 * 780 + 40));
}

fn pool_of(threads: usize) -> ThreadPool {
    ThreadPool::new(std::num::NonZeroUsize::new(threads).unwrap())
}

/// The child of a fork has pools without threads, one perhaps with its lock held: it works alone, and ends.
#[allow(unsafe_code)]
fn pools_after_a_fork(_: &str) {
    let pool = pool_of(4);
    assert_eq!(sum_on(&pool), (210, false));
    let theirs = pool.clone();
    // Somebody has the lock most of the time, to the end of this process.
    std::thread::spawn(move || {
        loop {
            let _ = theirs.made();
        }
    });
    for _ in 0..20 {
        let dropped = pool_of(2);
        assert_eq!(sum_on(&dropped), (210, false));
        // SAFETY: the child uses what this thread has and the allocator, which the C library keeps usable there, and
        // takes no lock that another thread may have.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = catch_unwind(AssertUnwindSafe(|| {
                assert_eq!((sum_on(&pool), pool.made()), ((210, true), 0));
                drop(dropped);
                let own = pool_of(2);
                assert_eq!(sum_on(&own), (210, false));
            }));
            // SAFETY: it only leaves.
            unsafe { libc::_exit(i32::from(right.is_err())) };
        }
        let child = Pid::from_raw(child).unwrap();
        let deadline = Instant::now() + DEADLINE;
        let status = loop {
            if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                kill_process(child, Signal::KILL).unwrap();
                panic!("the child hangs");
            }
            std::thread::yield_now();
        };
        assert_eq!(status.exit_status(), Some(0));
    }
    assert_eq!(sum_on(&pool), (210, false));
}

/// A sum, and whether the caller alone has worked.
fn sum_on(pool: &ThreadPool) -> (usize, bool) {
    let caller = std::thread::current().id();
    let (mut sum, mut alone) = (0, true);
    let report = at_most(4).carrier(pool).mode(Mode::FreeCaller).for_each(
        1..21,
        |n| (*n, std::thread::current().id()),
        |done| {
            sum += done.result.0;
            alone &= done.result.1 == caller;
        },
    );
    assert!(report.shortage.is_none());
    (sum, alone)
}
