use std::fs;
use std::path::Path;

use threadgauge_lab::point::{Parameter as _, Value};
use threadgauge_lab::prelude::*;
use threadgauge_lab::selection::{SelectionError, choose};
use threadgauge_lab::testing;
use threadgauge_lab::view::ViewCase;
use threadgauge_results::{Sample, Status, Verdict};

use super::EXPERIMENT;
use super::case::{By, CLAIMED, CPU, Case, ELAPSED, Folder, ONE, RATE, READ, ReadFrom, TURNAROUND};
use super::file::{checked, look, made};
use super::grid::plan;
use super::measure::no_io_uring;
use super::read::read;
use crate::server_designs;

/// Of a case that takes no time.
const READS: u64 = 100;
const CLAIM: &str = "async-io-rivals-io-threads";

fn folder(path: &Path) -> Folder {
    Folder::read(&Value::Text(path.to_str().unwrap().to_owned())).unwrap()
}

/// A case that takes no time, in this folder.
fn small(path: &Path) -> Case {
    ONE.file_mib(1).reads(READS).k(3).folder(folder(path))
}

fn ran(case: Case) -> Sample {
    testing::sample(&EXPERIMENT, &case.params())
}

#[test]
fn each_reads_what_was_written_from_everywhere_and_leaves_nothing() {
    let there = tempfile::tempdir().unwrap();
    let figure = |sample: &Sample, of: Metric| sample.value(of.name).unwrap();
    for from in ReadFrom::ALL {
        for (by, k) in By::ALL.into_iter().flat_map(|by| [(by, 1), (by, 3)]) {
            let sample = ran(small(there.path()).by(by).k(k).from(from).block_kib(8));
            let lacks_system = sample.tags.iter().any(|tag| tag == "lacks-system");
            if sample.status == Status::Skipped && lacks_system {
                // Where temporary files are in memory, or io_uring is forbidden.
                assert!(from == ReadFrom::Device || by == By::IoUring, "{sample:?}");
                continue;
            }
            assert_eq!(sample.status, Status::Ok, "{from:?} {by:?} {k}: {sample:?}");
            let [elapsed, turnaround, read] = [ELAPSED, TURNAROUND, READ].map(|of| figure(&sample, of));
            assert!(
                0.0 < read && read <= turnaround && turnaround <= elapsed,
                "{sample:?}"
            );
            assert!(figure(&sample, CPU) > 0.0);
            // However long it took: the rate is that of the reads there were.
            let reads = figure(&sample, RATE) * elapsed / 1e9;
            assert_eq!(reads.round() as u64, READS, "{sample:?}");
        }
    }
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0);
}

#[test]
fn the_file_has_every_block_and_another_is_noticed() {
    let there = tempfile::tempdir().unwrap();
    let case = small(there.path()).from(ReadFrom::Cache);
    let file = made(case).unwrap();
    assert_eq!(fs::read_dir(there.path()).unwrap().count(), 0, "it has no name");
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), 1 << 20);
    let allocated = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
    assert!(allocated >= 1 << 20, "{allocated}: it has holes");
    let mut block = [0; 8192];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, 16_384).unwrap();
    checked(&block, 16_384).unwrap();
    assert!(checked(&block, 8_192).is_err());
    block[4096] ^= 1;
    assert!(checked(&block, 16_384).is_err());
}

#[test]
fn places_are_every_block_once_shuffled_alike_and_again() {
    let case = ONE.file_mib(1).block_kib(64).reads(20);
    let places = case.places();
    assert_eq!(places, case.places());
    let mut once = places[..16].to_vec();
    assert_eq!(places[16..], once[..4]);
    assert!(!once.is_sorted());
    once.sort_unstable();
    let expected: Vec<u64> = (0..16).map(|block| block << 16).collect();
    assert_eq!(once, expected);
}

#[test]
fn what_is_in_memory_has_no_device_and_the_cache_all_the_same() {
    let there = Path::new("/dev/shm");
    if !crate::sys::disk::is_in_memory(fs::File::open(there).unwrap()) {
        return;
    }
    for by in By::ALL {
        let sample = ran(small(there).by(by));
        let reason = sample.reason.unwrap_or_default();
        assert_eq!(
            (sample.status, &sample.tags[..]),
            (Status::Skipped, &["lacks-system".to_owned()][..]),
            "{by:?}"
        );
        assert!(
            reason.starts_with(
                "the file system of /dev/shm is in memory; name a folder on a disk with --set folder=PATH"
            ),
            "{reason}"
        );
    }
    assert_eq!(ran(small(there).from(ReadFrom::Cache)).status, Status::Ok);
}

#[test]
fn without_io_uring_its_cases_lack_the_system() {
    let error = no_io_uring(&std::io::Error::from_raw_os_error(libc::EPERM));
    let CaseError::Skipped(lack) = error else {
        panic!("{error}")
    };
    assert_eq!(lack.of, Need::System);
    assert!(
        lack.says.contains("io_uring_disabled") && lack.says.contains("not permitted"),
        "{lack}"
    );
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_by_its_name_and_with_what_to_do() {
    let there = tempfile::tempdir().unwrap();
    let says = |path: &Path, file_mib: u64| {
        let says = look(small(path).file_mib(file_mib)).unwrap_err();
        let begins = format!("the folder {} ", path.display());
        assert!(
            says.starts_with(&begins) && says.ends_with("; name another with --set folder=PATH"),
            "{says}"
        );
        says
    };
    assert_eq!(look(small(there.path())), Ok(()));
    assert!(says(&there.path().join("none"), 1).contains("cannot be used (No such file"));
    let file = there.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(says(&file, 1).contains("is a file"));
    let beyond = says(there.path(), 1 << 30);
    assert!(
        beyond.contains(" MiB free and the file takes 1073741824 (file_mib); free some"),
        "{beyond}"
    );
    let closed = there.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    fs::set_permissions(there.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let refused = std::thread::scope(|scope| {
        let as_nobody = scope.spawn(|| {
            // Of this thread alone. Who is nobody already stays so.
            let _ = rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_534));
            says(&closed, 1)
        });
        as_nobody.join().unwrap()
    });
    assert!(
        refused.contains("cannot be written (Permission denied"),
        "{refused}"
    );
}

#[test]
fn what_the_user_names_is_looked_at_before_anything_is_measured() {
    let chosen = |set: &str| {
        let site = testing::site(Profile::Quick, 2);
        choose(
            &[&EXPERIMENT],
            &site,
            &"k=1".parse().unwrap(),
            &set.parse().unwrap(),
        )
        .map(drop)
    };
    let refused = |set: &str| {
        let error = chosen(set).unwrap_err();
        assert!(
            matches!(
                error,
                SelectionError::Impossible {
                    experiment: "file-io",
                    ..
                }
            ),
            "{error}"
        );
        error.to_string()
    };
    assert_eq!(chosen("k=1,2"), Ok(()));
    assert!(refused("folder=/nowhere/at all").contains("the folder /nowhere/at all cannot be used"));
    assert!(refused("file_mib=1073741824").contains("MiB free and the file takes"));
    assert!(refused("folder=here").contains("it must be temporary or the path of a folder, from / on"));
    assert!(refused("folder=7").contains("the parameter folder is 7"));
    assert!(refused("block_kib=6").contains("the parameter block_kib is 6; it must be a multiple of 4"));
    assert!(refused("reads=0").contains("the parameter reads is 0; it must be a number from 1"));
    assert!(
        refused("block_kib=16384,file_mib=1").contains("it must be no more than the file has (file_mib)")
    );
    assert!(refused("block_kib=16384,k=100").contains("it must be at most 64 with blocks of 16384 KiB"));
}

#[test]
fn a_map_reads_no_block_of_the_device_twice() {
    let case = ONE.by(By::Map).reads(4097);
    let says = Case::possible(&case.params()).unwrap_err().to_string();
    assert!(
        says.contains("the parameter reads is 4097; it must be at most 4096, the blocks of the file"),
        "{says}"
    );
    for fits in [case.reads(4096), case.from(ReadFrom::Cache), case.by(By::IoUring)] {
        assert_eq!(Case::possible(&fits.params()).unwrap(), fits);
    }
}

/// A folder that a user has named.
fn of_the_users() -> Folder {
    Folder::read(&Value::from("/data")).unwrap()
}

/// With ten rounds of these figures: elapsed, and CPU time of a read.
fn measured(case: Case, [elapsed_ns, cpu_ns]: [f64; 2]) -> ViewCase {
    let rounds = |middle: f64| -> Vec<f64> {
        (0..10)
            .map(|i| middle * (1.0 + f64::from(i - 5) * 1e-4))
            .collect()
    };
    let figures = [
        (ELAPSED, rounds(elapsed_ns)),
        (TURNAROUND, rounds(elapsed_ns / 2.0)),
        (CPU, rounds(cpu_ns)),
    ];
    testing::case(case.params(), figures)
}

/// A run of the paper profile on two CPUs: a read takes 100 µs, `k` of them as long as one up to this depth, and
/// asynchronous ones so many times as long as those of as many threads, at half the CPU time.
fn run(threads: u64, uring: u64, times: f64) -> View<'static> {
    let of = |planned: PlannedCase| {
        let case = Case::read(&planned.params).unwrap();
        let (most, times, cpu) = match case.by {
            By::Threads => (threads, 1.0, 1e4),
            By::IoUring => (uring, times, 5e3),
            By::Map => (1, 1.2, 2e4),
        };
        let elapsed_ns = 1e5 * case.reads as f64 / case.k.min(most) as f64 * times;
        measured(case, [elapsed_ns, cpu])
    };
    let cases = plan(&testing::site(Profile::Paper, 2)).cases.into_iter().map(of);
    testing::view("file-io", Profile::Paper, cases.collect())
}

/// The same run, with sockets on which one loop is so many times as fast as threads.
fn with_sockets(view: View<'static>, times: f64, check: impl FnOnce(&View<'_>)) {
    let sockets = server_designs::loop_over_threads();
    let [of_loop, of_threads] = sockets.cells()[..] else {
        panic!("{sockets:?}")
    };
    let case = |cell: &threadgauge_lab::statistic::Cell, rate: f64| {
        let rounds = (0..10).map(|i| rate * (1.0 + f64::from(i) * 1e-4)).collect();
        testing::case(
            cell.pattern.clone(),
            [(metric("requests_per_second", "requests/s"), rounds)],
        )
    };
    let mut cases = view.cases.clone();
    let of_sockets = vec![case(of_loop, 1e4 * times), case(of_threads, 1e4)];
    cases.insert("server-designs".to_owned(), of_sockets);
    check(&View {
        cases: &cases,
        ..view
    });
}

fn verdict(view: &View<'_>) -> Verdict {
    let [(CLAIM, test)] = &read(view).claims[..] else {
        panic!("{:?}", read(view).claims)
    };
    testing::verdict(test, CLAIM, view).unwrap()
}

#[test]
fn the_claim_needs_files_and_sockets_and_either_refutes_it() {
    use Verdict::{DoesNotHold, Holds, Inconclusive};
    let (sooner, later) = (|| run(4, 16, 1.0), || run(16, 16, 1.2));
    assert_eq!(
        [verdict(&sooner()), verdict(&later())],
        [Inconclusive, DoesNotHold]
    );
    for (view, sockets, expected) in [
        (sooner(), 2.0, Holds),
        (sooner(), 0.5, DoesNotHold),
        (later(), 2.0, DoesNotHold),
    ] {
        with_sockets(view, sockets, |view| {
            assert_eq!(verdict(view), expected, "sockets {sockets}");
        });
    }
    let [(_, test)] = &read(&sooner()).claims[..] else {
        panic!()
    };
    let claim = threadgauge_results::claim(CLAIM).unwrap();
    let says = format!("{:?}", test.evidence(&sooner(), claim));
    assert!(
        says.contains("`threadgauge run file-io server-designs` has both"),
        "{says}"
    );
    assert_eq!(CLAIMED, [4, 16]);
}

#[test]
fn it_says_from_which_depth_on_and_what_to_take() {
    let said = |view: &View<'_>| {
        let Answer { answer, advice, .. } = read(view);
        [answer, advice].join(" ")
    };
    let answer = said(&run(4, 16, 1.0));
    let expected = "One thread with io_uring and k reads in flight beats k threads with pread, by time: from k=8 on for \
                    4 KiB from the device on one CPU, 4 KiB from the device on 2 CPUs, 64 KiB from the device on 2 CPUs, 4 KiB \
                    from the page cache on one CPU and 4 KiB from the page cache on 2 CPUs. Take the way with the least CPU \
                    time of those at most 10 % slower than the fastest: one thread with io_uring and 16 reads in flight for 4 KiB from the device on one CPU, 4 KiB";
    assert!(answer.starts_with(expected), "{answer}");
    // From more threads than reads in flight nothing is gained, and the CPU time decides.
    let answer = said(&run(64, 64, 1.0));
    assert!(
        answer.contains("with pread, by time: at no k up to 128 for 4 KiB from the device"),
        "{answer}"
    );
    assert!(
        answer.contains("than the fastest: one thread with io_uring and 64 reads in flight for"),
        "{answer}"
    );
    let answer = said(&run(64, 64, 1.5));
    assert!(
        answer.contains("than the fastest: 64 threads with pread for 4 KiB from the device"),
        "{answer}"
    );
}

#[test]
fn the_report_has_each_kind_and_what_the_user_has_set() {
    let answer = read(&run(4, 16, 1.0));
    let ids: Vec<&str> = answer.figures.iter().map(|chart| chart.id.as_str()).collect();
    let by_kind = ["elapsed-0", "elapsed-1", "elapsed-2", "elapsed-3", "elapsed-4"];
    assert_eq!(
        ids,
        [&["over-threads", "cpu-over-threads"][..], &by_kind].concat()
    );
    assert_eq!(answer.figures[0].series.len(), 5);
    assert_eq!(answer.tables[0].rows.len(), 3 * 5 * 8);
    assert_eq!(answer.facts.len(), 10);
    assert!(
        answer.facts[0].says.contains("128 reads in flight takes 0.25"),
        "{}",
        answer.facts[0].says
    );
    assert_eq!(answer.comparisons.len(), 2 * 5 * 8);
    // Without the files that are mapped the ring is compared alone, and without threads nothing is.
    let without = |by: By| {
        let left = testing::changed(run(4, 16, 1.0), |cases| {
            cases.retain(|case| Case::read(&case.params).unwrap().by != by);
        });
        read(&left).comparisons.len()
    };
    assert_eq!([By::Map, By::Threads].map(without), [5 * 8, 0]);

    let own = |by, k| ONE.by(by).k(k).reads(7).file_mib(5).folder(of_the_users());
    let cases = [1, 3]
        .into_iter()
        .flat_map(|k| By::ALL.map(|by| measured(own(by, k), [1e6 / k as f64, 1e3])));
    let view = testing::view("file-io", Profile::Quick, cases.collect());
    let answer = read(&view);
    let kind = "7 reads of 4 KiB from the device (of 5 MiB) in /data on one CPU";
    assert!(
        answer.answer.contains(&format!("at no k up to 3 for {kind}")),
        "{}",
        answer.answer
    );
    assert_eq!(answer.tables[0].rows[0][0], kind);
    assert_eq!((answer.figures.len(), answer.tables[0].rows.len()), (3, 6));
}

#[test]
fn without_figures_or_intervals_it_says_so() {
    let nothing = read(&testing::view("file-io", Profile::Quick, Vec::new()));
    assert!(nothing.figures.is_empty() && nothing.answer.is_empty());
    let few = testing::changed(run(4, 16, 1.0), |cases| {
        let rounds = cases
            .iter_mut()
            .flat_map(|case| [&mut case.values, &mut case.all]);
        let of_metrics = rounds.flat_map(|metrics| metrics.values_mut());
        of_metrics.for_each(|rounds| rounds.retain(|round, _| *round <= 3));
    });
    let Answer { answer, advice, .. } = read(&few);
    assert!(
        answer.starts_with("With 6 rounds or more of both it is said"),
        "{answer}"
    );
    assert!(advice.starts_with("Take the way"), "{advice}");
}
