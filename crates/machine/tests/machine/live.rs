//! Clocks, burner and readings on the machine that runs the tests, judged by CPU time alone.

use std::time::Duration;
use threadgauge_machine::{Burner, CpuList, Reading, allowed_cpus, noise_between, pin_thread};

#[test]
fn a_burn_uses_its_time_within_one_percent() {
    let burner = Burner::calibrate();
    for d in [1, 5, 20].map(Duration::from_millis) {
        let mut errors: Vec<f64> = (0..9).map(|_| burner.error(d).abs()).collect();
        errors.sort_by(f64::total_cmp);
        assert!(errors[4] < 0.01, "{d:?}: {errors:?}");
    }
}

#[test]
fn own_work_is_not_called_foreign() {
    let burner = Burner::calibrate();
    let one = allowed_cpus().unwrap().first(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_thread(&one).unwrap();
            let before = Reading::take().unwrap();
            burner.burn(Duration::from_millis(300));
            let after = Reading::take().unwrap();
            // Others may be working as well, but not on the very time that we used.
            let noise = noise_between(&before, &after, Some(&one));
            let own = (after.own_cpu - before.own_cpu).as_secs_f64();
            let wall = noise.wall.as_secs_f64();
            assert!(
                own >= 0.297 && noise.foreign_cpus * wall <= wall - own.min(wall) + 0.05,
                "{noise:?} {own}"
            );
        });
    });
}

#[test]
fn a_pinned_process_says_where_it_may_run() {
    let all = allowed_cpus().unwrap();
    assert_eq!(threadgauge_machine::fingerprint().allowed_cpus, Some(all.clone()));
    assert!(
        CpuList::new([threadgauge_machine::current_cpu()])
            .intersection(&all)
            .len()
            == 1
    );
}
