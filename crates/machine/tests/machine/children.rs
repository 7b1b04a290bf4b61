//! Ending what is left below a process. Each test does it in a process of its own, started from this same
//! binary, because it would take the children of the other tests.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use threadgauge_machine::{become_subreaper, descendants, kill_descendants};

const INNER: &str = "THREADGAUGE_TEST_INNER";

/// Runs `body` in a copy of this process that runs nothing but the test `name`.
fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(INNER).is_some() {
        return body();
    }
    let me = std::env::current_exe().unwrap();
    let run = Command::new(me)
        .args(["--exact", name, "--test-threads=1"])
        .env(INNER, "1")
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    let ran_one = String::from_utf8_lossy(&run.stdout).contains("1 passed");
    assert!(ran_one, "no test is called {name}");
}

fn shell(script: &str) -> std::process::Child {
    Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn two_hundred_children_and_orphans_with_sessions_of_their_own_are_ended_and_one_is_spared() {
    alone(
        "children::two_hundred_children_and_orphans_with_sessions_of_their_own_are_ended_and_one_is_spared",
        || {
            become_subreaper().unwrap();
            let mut spared = shell("exec sleep 1000");
            for _ in 0..100 {
                drop(Command::new("sleep").arg("1000").spawn().unwrap());
            }
            // The shell ends at once; its children become ours, in sessions of their own.
            shell("for i in $(seq 50); do setsid sleep 1000 & done")
                .wait()
                .unwrap();
            // Children of children.
            for _ in 0..25 {
                drop(shell("sleep 1000; exit"));
            }
            wait_until(|| descendants().len() >= 201);
            let ended = kill_descendants(&[spared.id() as i32]);
            assert!(ended >= 200, "{ended}");
            assert_eq!(descendants(), [spared.id() as i32]);
            assert!(spared.try_wait().unwrap().is_none());
            assert_eq!(kill_descendants(&[]), 1);
            assert_eq!(descendants(), [0; 0]);
        },
    );
}

#[test]
fn a_tree_that_still_grows_is_ended_too() {
    alone("children::a_tree_that_still_grows_is_ended_too", || {
        become_subreaper().unwrap();
        drop(shell(
            "for i in $(seq 500); do setsid sh -c 'sleep 1000 & sleep 1000' & done; wait",
        ));
        wait_until(|| descendants().len() >= 20);
        assert!(kill_descendants(&[]) >= 20);
        assert_eq!(descendants(), [0; 0]);
    });
}

#[test]
fn zombies_are_reaped() {
    alone("children::zombies_are_reaped", || {
        let quick = { shell("exit 3").id() };
        wait_until(|| {
            std::fs::read_to_string(format!("/proc/{quick}/stat"))
                .unwrap()
                .contains(") Z ")
        });
        assert_eq!(descendants(), [quick as i32]);
        assert_eq!(kill_descendants(&[]), 1);
        assert_eq!(descendants(), [0; 0]);
    });
}

#[test]
fn nothing_to_end_is_nothing_ended() {
    alone("children::nothing_to_end_is_nothing_ended", || {
        assert_eq!(kill_descendants(&[]), 0);
    });
}
