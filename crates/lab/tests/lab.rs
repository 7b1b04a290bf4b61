//! The laboratory against workers that do everything wrong.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threadgauge_lab::launch::{Interrupts, Launcher, Outcome};
use threadgauge_lab::worker::Order;
use threadgauge_results::{Params, Sample, Status};

/// Workers are this process's children and whatever is left below it is ended, so one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

const GENEROUS: Duration = Duration::from_secs(600);

fn order() -> Order {
    Order {
        experiment: "null".to_owned(),
        params: Params::new(),
        cpus: vec![0],
        handicap_percent: 0,
        launched_ns: 0,
        seed: 0,
        each: None,
        runtime: None,
    }
}

/// Runs a shell script as the worker.
fn run(script: &str, deadline: Duration) -> Outcome {
    let (_write, read) = UnixStream::pair().unwrap();
    let mut launcher = Launcher::new("sh", ["-c", script], Interrupts::new(read).unwrap()).unwrap();
    launcher.run(&order(), deadline)
}

fn reason(outcome: Outcome) -> String {
    let sample: Sample = outcome.sample.expect("nobody interrupted it");
    assert_eq!(sample.status, Status::Failed, "{sample:?}");
    sample.reason.expect("a failed sample has a reason")
}

fn processes_with(mark: &str) -> usize {
    let found = Command::new("pgrep")
        .args(["-fc", mark])
        .output()
        .expect("pgrep is there");
    String::from_utf8_lossy(&found.stdout).trim().parse().unwrap()
}

#[test]
fn a_worker_that_answers_is_heard() {
    let _alone = alone();
    let answer = r#"{"status":"ok","metrics":[{"name":"elapsed","unit":"ns","value":1.5}]}"#;
    let outcome = run(&format!("cat > /dev/null; echo '{answer}'"), GENEROUS);
    let sample = outcome.sample.unwrap();
    assert_eq!((sample.status, sample.value("elapsed")), (Status::Ok, Some(1.5)));
}

#[test]
fn a_worker_that_hangs_is_ended_at_its_deadline() {
    let _alone = alone();
    let reason = reason(run("exec sleep 31536001", Duration::from_millis(200)));
    assert!(reason.contains("longer than its deadline"), "{reason}");
    assert_eq!(processes_with("^sleep 31536001"), 0);
}

const ANSWER: &str = r#"{"status":"ok","metrics":[{"name":"elapsed","unit":"ns","value":1.5}]}"#;

#[test]
fn a_worker_that_somebody_stopped_is_marked_and_one_that_nobody_stopped_is_not() {
    let _alone = alone();
    let stops_itself = "cat > /dev/null; (sleep 0.4; kill -CONT $$) & kill -STOP $$";
    // Of the command's being stopped the signal to go on is left; it may also come by itself.
    let goes_on = "cat > /dev/null; kill -CONT $PPID; sleep 0.4";
    for script in [stops_itself, goes_on] {
        let outcome = run(&format!("{script}; echo '{ANSWER}'"), GENEROUS);
        assert_eq!(outcome.sample.unwrap().status, Status::Ok, "{script}");
        assert!(!outcome.stopped.is_zero(), "{script}");
    }
    // A hypervisor may stop all of it now and then.
    let script = format!("cat > /dev/null; sleep 0.4; echo '{ANSWER}'");
    assert!((0..9).any(|_| run(&script, GENEROUS).stopped.is_zero()));
}

#[test]
fn a_deadline_does_not_count_the_time_for_which_the_worker_was_stopped() {
    let _alone = alone();
    // It is stopped for longer than its deadline, which is long enough for the rest once the machine is quick enough.
    let heard = [1, 2, 4, 8, 16].into_iter().any(|deadline_s| {
        let stopped_s = deadline_s + 1;
        let script =
            format!("cat > /dev/null; (sleep {stopped_s}; kill -CONT $$) & kill -STOP $$; echo '{ANSWER}'");
        let outcome = run(&script, Duration::from_secs(deadline_s));
        assert!(!outcome.stopped.is_zero());
        outcome.sample.unwrap().status == Status::Ok
    });
    assert!(heard, "it was ended by its deadline however long that was");
}

#[test]
fn a_worker_killed_by_a_signal_says_which() {
    let _alone = alone();
    let reason = reason(run("kill -SEGV $$", GENEROUS));
    assert!(reason.contains("killed by SIGSEGV"), "{reason}");
}

#[test]
fn a_worker_that_ends_badly_is_quoted() {
    let _alone = alone();
    let reason = reason(run("cat > /dev/null; echo 'no such luck' >&2; exit 3", GENEROUS));
    assert_eq!(reason, "its worker ended with exit code 3: no such luck");
}

#[test]
fn a_worker_that_prints_rubbish_is_not_believed() {
    let _alone = alone();
    for rubbish in [
        "echo rubbish",
        "true",
        "head -c 3000000 /dev/zero",
        r#"echo '{"status":"ok","metrics":[{"name":"a","unit":"","value":1},{"name":"a","unit":"","value":2}]}'"#,
        r#"echo '{"status":"ok","metrics":[{"name":"a","unit":"","value":1e999}]}'"#,
    ] {
        let outcome = run(&format!("cat > /dev/null; {rubbish}"), GENEROUS);
        let sample = outcome.sample.unwrap();
        assert_eq!(sample.status, Status::Failed, "{rubbish}");
    }
}

#[test]
fn a_thousand_children_left_behind_are_ended_even_in_sessions_of_their_own() {
    let _alone = alone();
    let script = "
        cat > /dev/null
        i=0
        while [ $i -lt 500 ]; do sleep 31536002 & setsid sleep 31536002 & i=$((i+1)); done
        echo '{\"status\":\"ok\"}'";
    let outcome = run(script, GENEROUS);
    assert_eq!(outcome.sample.unwrap().status, Status::Ok);
    assert_eq!(processes_with("^sleep 31536002"), 0);
}

#[test]
fn a_worker_that_exhausts_its_memory_fails_alone() {
    let _alone = alone();
    let script = "cat > /dev/null; ulimit -v 65536; LC_ALL=C exec tail /dev/zero";
    let reason = reason(run(script, GENEROUS));
    assert!(
        reason.contains("exit code 1") && reason.contains("memory"),
        "{reason}"
    );
}

#[test]
fn a_worker_that_cannot_be_started_is_a_failed_sample() {
    let _alone = alone();
    let (_write, read) = UnixStream::pair().unwrap();
    let interrupts = Interrupts::new(read).unwrap();
    let mut launcher = Launcher::new("/nowhere/threadgauge", ["worker"], interrupts).unwrap();
    let reason = reason(launcher.run(&order(), GENEROUS));
    assert!(reason.contains("could not be started"), "{reason}");
}

#[test]
fn one_interrupt_lets_the_case_finish_and_two_end_it() {
    let _alone = alone();
    let answer = r#"cat > /dev/null; echo '{"status":"ok"}'"#;

    let (mut write, read) = UnixStream::pair().unwrap();
    let mut launcher = Launcher::new("sh", ["-c", answer], Interrupts::new(read).unwrap()).unwrap();
    write.write_all(&[1]).unwrap();
    assert!(launcher.run(&order(), GENEROUS).sample.is_some());
    assert_eq!(launcher.interrupts().count(), 1);

    let (mut write, read) = UnixStream::pair().unwrap();
    let hang = "cat > /dev/null; exec sleep 31536003";
    let mut launcher = Launcher::new("sh", ["-c", hang], Interrupts::new(read).unwrap()).unwrap();
    write.write_all(&[1, 1]).unwrap();
    let ended = launcher.run(&order(), GENEROUS).sample;
    assert!(ended.is_none(), "it was ended by its deadline: {ended:?}");
    assert_eq!(processes_with("^sleep 31536003"), 0);
}
