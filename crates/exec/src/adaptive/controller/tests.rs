//! What each figure is, by hand; and where the controller goes on a few simulated machines.

use super::*;
use crate::adaptive::simulation::Step::{Compute, Serve, Wait};
use crate::adaptive::simulation::{Degree, MS, Machine, PLAIN, Random, Step, run, slots};

const MILLISECOND: u64 = 1_000_000;
/// An object a millisecond.
const RATE: f64 = 1e-6;

/// Of 1 to 16, for two CPUs: 1 to 8, 10, 12, 14, 16, by index. It has just begun, at 2, and is the second.
fn controller() -> Controller {
    Controller::new(&(1..=16), 2, true)
}

/// No longer growing; the incumbent, by index, has brought `RATE` with a hundred objects that are all alike.
fn settled(incumbent: usize) -> Controller {
    let mut controller = controller();
    (controller.growing, controller.variation) = (false, 0.0);
    (controller.at, controller.incumbent) = (incumbent, incumbent);
    see(&mut controller, incumbent, RATE, 100.0);
    controller.window.opened = None;
    controller
}

fn see(controller: &mut Controller, index: usize, rate: f64, objects: f64) {
    (
        controller.candidates[index].rate,
        controller.candidates[index].objects,
    ) = (rate, objects);
}

/// Service times of 1, 1, 3 and 3 s: their mean is 2, that of their squares 5.
fn one_and_three() -> Window {
    Window {
        objects: 4,
        service: 8.0,
        service_squared: 20.0,
        ..Window::default()
    }
}

#[test]
fn candidates_are_each_up_to_8_then_four_to_a_doubling_and_the_bounds_and_the_cpus() {
    for (bounds, cpus, degrees, first) in [
        (1..=16, 2, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16][..], 2),
        (1..=4, 1, &[1, 2, 3, 4], 2),
        (3..=9, 2, &[3, 4, 5, 6, 7, 8, 9], 3),
        (1..=12, 11, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12], 11),
        (8..=33, 64, &[8, 10, 12, 14, 16, 20, 24, 28, 32, 33], 33),
    ] {
        let controller = Controller::new(&bounds, cpus, true);
        let of_all: Vec<_> = controller.candidates.iter().map(|c| c.degree).collect();
        assert_eq!((of_all.as_slice(), controller.degree()), (degrees, first));
        assert_eq!(controller.at, controller.incumbent);
    }
}

#[test]
fn the_first_step_is_the_largest_and_those_around_the_middle_are_small() {
    for (degrees, factor) in [(0..8, 4.0), (8..16, 2.0), (16..24, 1.5), (24..100, 2.0)] {
        degrees.for_each(|degree| assert!(growth(degree) == factor, "{degree}"));
    }
}

#[test]
fn the_variation_is_that_of_the_window_and_of_all_before_by_their_objects() {
    assert_eq!(one_and_three().variation(), 0.25);
    assert_eq!(Window::default().variation(), 0.0);
    let mut controller = controller();
    assert_eq!(controller.variation(), 1.0);
    controller.window = one_and_three();
    // As if it were 1 of four objects, and 0.25 of four.
    assert_eq!(controller.variation(), 0.625);
}

#[test]
fn a_window_is_a_round_and_of_a_well_known_candidate_what_keeps_the_precision() {
    let (short, long) = (MILLISECOND, 4 * MILLISECOND);
    // To a standard error of a tenth: a variation of 0.25 takes 25 objects.
    for (at, growing, variation, objects, wanted) in [
        (1, true, 0.25, 1_000.0, (2, short)),
        (1, false, 0.25, 24.9, (2, short)),
        (1, false, 0.25, 25.0, (24, long)),
        (11, false, 0.25, 25.0, (32, long)),
        (1, false, 0.01, 25.0, (16, long)),
        (1, false, 4.0, 99.0, (2, short)),
        (1, false, 4.0, 100.0, (100, long)),
    ] {
        let mut controller = settled(at);
        (controller.growing, controller.variation) = (growing, variation);
        controller.candidates[at].objects = objects;
        assert_eq!(
            controller.wanted(),
            wanted,
            "{at} {growing} {variation} {objects}"
        );
    }
}

#[test]
fn fewer_than_at_the_incumbent_is_beyond_the_error_of_both() {
    // In 100 ms it brings 100. With a variation of 1 that errs by √(100 + 100²/100), of which 0.7 are 9.9.
    for (variation, objects, fewer) in [
        (1.0, 87, true),
        (1.0, 88, false),
        (0.0, 96, true),
        (0.0, 98, false),
    ] {
        let mut controller = settled(1);
        controller.variation = variation;
        assert_eq!(
            controller.fewer_than_at_incumbent(objects, 100 * MILLISECOND),
            fewer,
            "{variation} {objects}"
        );
    }
}

#[test]
fn a_rise_has_dropped_when_a_round_and_a_half_of_the_incumbent_has_brought_clearly_less() {
    // From the incumbent, 2: after 3 ms.
    for (rise, at, tenths, times, ended, dropped) in [
        (true, 3, 40, 1.0, 1, true),
        (true, 3, 40, 1.0, 4, false),
        (false, 3, 40, 1.0, 1, false),
        (true, 1, 40, 1.0, 1, false),
        (true, 0, 40, 1.0, 1, false),
        (true, 3, 31, 1.0, 0, true),
        (true, 3, 20, 1.0, 0, false),
        // And after a millisecond.
        (true, 3, 10, 100.0, 1, true),
        (true, 3, 9, 100.0, 1, false),
    ] {
        let mut controller = settled(1);
        controller.candidates[1].rate *= times;
        controller.at = at;
        (controller.window.rise, controller.window.ended) = (rise, ended);
        controller.window.since_ns = 10 * MILLISECOND;
        controller.latest_ns = 10 * MILLISECOND + tenths * MILLISECOND / 10;
        assert_eq!(
            controller.dropped(),
            dropped,
            "{rise} {at} {tenths} {times} {ended}"
        );
    }
}

#[test]
fn a_try_is_hopeless_after_a_round_of_clearly_less() {
    for (incumbent, at, objects, hopeless) in [
        (1, 3, 4, true),
        (1, 3, 3, false),
        (1, 3, 99, false),
        (1, 1, 4, false),
        (3, 1, 3, false),
        (3, 1, 4, true),
        (1, 7, 7, false),
        (1, 7, 8, true),
    ] {
        let mut controller = settled(incumbent);
        (controller.at, controller.window.objects) = (at, objects);
        let case = format!("{incumbent} {at} {objects}");
        assert_eq!(controller.hopeless(100 * MILLISECOND), hopeless, "{case}");
    }
}

#[test]
fn what_a_candidate_brought_is_averaged_by_the_objects_of_which_old_ones_count_little() {
    let mut candidate = controller().candidates.swap_remove(0);
    assert!(!candidate.known());
    for (rate, objects, used, then) in [
        (2.0, 10.0, Some(0.5), (2.0, 10.0, Some(0.5))),
        (4.0, 10.0, Some(1.0), (3.0, 20.0, Some(0.75))),
        (3.0, 480.0, None, (3.0, 500.0, None)),
        (5.0, 100.0, Some(0.25), (4.0, 200.0, Some(0.25))),
    ] {
        candidate.remember(rate, objects, used);
        assert_eq!((candidate.rate, candidate.objects, candidate.used), then);
    }
    assert!(candidate.known());
    assert_eq!(candidate.windows, 4);
}

#[test]
fn the_candidate_of_a_degree_is_the_lowest_that_has_it() {
    for (degree, index) in [
        (0.5, 0),
        (2.0, 1),
        (2.1, 2),
        (4.000_000_1, 3),
        (8.5, 8),
        (100.0, 11),
    ] {
        assert_eq!(controller().index_of(degree), index, "{degree}");
    }
}

#[test]
fn one_between_is_looked_at_if_the_next_known_one_is_far() {
    for (incumbent, above, between) in [
        (1, 2, None),
        (1, 3, Some(2)),
        // Far, but there is none between.
        (0, 1, None),
        // 12 is not more than one and a half times 8; 14 is.
        (7, 9, None),
        (7, 10, Some(8)),
    ] {
        assert_eq!(settled(incumbent).between(above), between, "{incumbent} {above}");
    }
}

#[test]
fn growth_has_paid_if_it_brought_the_power_0_6_of_its_factor_less_the_error() {
    // From 2 to 4: by 2^0.6 = 1.516, less the error where the objects vary, of as many here and below.
    for (variation, here, below, factor, paid) in [
        (0.0, 4.0, 4.0, 1.51, false),
        (0.0, 4.0, 4.0, 1.52, true),
        // e to the 0.416 - √(1/4 + 1/4), and - √(1/4 + 1/16).
        (1.0, 4.0, 4.0, 0.74, false),
        (1.0, 4.0, 4.0, 0.76, true),
        (1.0, 4.0, 16.0, 0.86, false),
        (1.0, 4.0, 16.0, 0.87, true),
        (1.0, 16.0, 4.0, 0.86, false),
        (1.0, 16.0, 4.0, 0.87, true),
    ] {
        let mut controller = settled(3);
        controller.variation = variation;
        see(&mut controller, 3, factor * RATE, here);
        assert!(controller.paid(), "nothing is known below");
        // The nearest is asked.
        see(&mut controller, 0, 100.0 * RATE, 1e9);
        see(&mut controller, 1, RATE, below);
        assert_eq!(controller.paid(), paid, "{variation} {here} {below} {factor}");
    }
}

#[test]
fn a_lower_one_is_tried_where_proportion_and_the_cpus_allow_as_much() {
    // With nothing known below: two lower, or one.
    for (incumbent, used, lower) in [
        (0, None, None),
        (1, None, Some(0)),
        (3, None, Some(1)),
        // 4 fill two CPUs: 2 do, too. 3 do: 1 does not.
        (3, Some(1.0), Some(1)),
        (2, Some(1.0), None),
        (2, Some(0.5), Some(0)),
        // Its share is not known to be more than that.
        (2, Some(0.0), Some(0)),
    ] {
        let mut controller = settled(incumbent);
        controller.candidates[incumbent].used = used;
        let rate = controller.candidates[incumbent].rate;
        let rate = if used == Some(1.0) && incumbent == 2 {
            1.5 * rate
        } else {
            rate
        };
        controller.candidates[incumbent].rate = rate;
        assert_eq!(controller.lower(rate), lower, "{incumbent} {used:?}");
    }
    // 2 is known to bring 1, and 8 is the incumbent: the lowest that may bring as much, if it may.
    for (best, lower) in [
        (3.0, Some(5)),
        (3.9, None),
        (10.0, None),
        (1.0, Some(2)),
        (3.5, Some(6)),
    ] {
        let mut controller = settled(7);
        controller.latest_ns = 1;
        see(&mut controller, 1, RATE, 100.0);
        assert_eq!(controller.lower(best * RATE), lower, "{best}");
    }
    // The one below is known: when it is due.
    for (again_ns, lower) in [(5, Some(2)), (6, None)] {
        let mut controller = settled(3);
        see(&mut controller, 2, 0.1 * RATE, 100.0);
        controller.candidates[2].again_ns = again_ns;
        controller.latest_ns = 6;
        assert_eq!(controller.lower(RATE), lower, "{again_ns}");
    }
}

/// So many objects that took so long end at this moment, with this CPU time of all until now.
fn end(controller: &mut Controller, objects: usize, took_ms: u64, at_ms: u64, cpu_ms: u64) {
    let started_ns = (at_ms - took_ms) * MILLISECOND;
    (0..objects).for_each(|_| controller.complete(started_ns, at_ms * MILLISECOND, cpu_ms * MILLISECOND));
}

#[test]
fn it_grows_while_that_pays() {
    let mut controller = controller();
    end(&mut controller, 1, 1, 1, 1);
    assert_eq!((controller.degree(), controller.window.objects), (2, 1));
    end(&mut controller, 1, 1, 1, 1);
    // Two in a millisecond, which have computed half of it: one CPU of two.
    let seen = |controller: &Controller, index: usize| {
        let candidate = &controller.candidates[index];
        (candidate.rate, candidate.objects, candidate.used)
    };
    assert_eq!(seen(&controller, 1), (2.0 * RATE, 2.0, Some(0.5)));
    assert_eq!(controller.candidates[1].again_ns, 57 * MILLISECOND);
    assert_eq!((controller.variation, controller.varied), (4.0 / 6.0, 6.0));
    assert_eq!(controller.degree(), 8);
    end(&mut controller, 8, 1, 2, 5);
    assert_eq!(seen(&controller, 7), (8.0 * RATE, 8.0, Some(1.0)));
    assert_eq!((controller.degree(), controller.incumbent), (16, 7));
    // As many as before in the same time: clearly fewer than the rise was to bring.
    end(&mut controller, 8, 1, 3, 7);
    assert_eq!(controller.degree(), 16);
    end(&mut controller, 1, 2, 4, 9);
    assert_eq!(seen(&controller, 11), (4.5 * RATE, 9.0, Some(1.0)));
    assert_eq!((controller.degree(), controller.growing), (8, false));
    assert_eq!(controller.candidates[11].backoff, 28);
    // Those that were started before the change are not its objects.
    end(&mut controller, 3, 1, 4, 9);
    assert_eq!(
        (controller.window.opened.is_none(), controller.window.objects),
        (true, 0)
    );
    end(&mut controller, 1, 1, 5, 10);
    assert_eq!(
        (controller.window.opened.is_some(), controller.window.objects),
        (true, 0)
    );
}

#[test]
fn a_step_up_that_has_paid_starts_it_growing_again() {
    // Three at three times half of what two brought, and the same.
    for (rate, growing, next) in [(1.5, true, 9), (1.0, false, 0)] {
        let mut controller = settled(1);
        controller.at = 2;
        see(&mut controller, 2, rate * RATE, 50.0);
        assert_eq!(
            (controller.decide(), controller.growing),
            (next, growing),
            "{rate}"
        );
    }
}

#[test]
fn a_rise_that_drops_ends_at_once_and_is_not_made_again_soon() {
    let mut controller = settled(1);
    (controller.at, controller.latest_ns) = (7, 20 * MILLISECOND);
    controller.candidates[4].again_ns = u64::MAX;
    controller.window = Window {
        since_ns: 10 * MILLISECOND,
        rise: true,
        ..Window::default()
    };
    end(&mut controller, 1, 1, 20, 0);
    assert_eq!((controller.degree(), controller.growing), (2, false));
    let left_alone = |index: usize| controller.candidates[index].again_ns;
    // One in 10 ms; 14 times those from now on.
    assert_eq!(controller.candidates[7].rate, 0.1 * RATE);
    assert_eq!(
        [1, 2, 6, 7, 8].map(left_alone),
        [0, 160, 160, 160, 0].map(|ms| ms * MILLISECOND)
    );
    assert_eq!(left_alone(4), u64::MAX);
}

#[test]
fn a_change_at_the_incumbent_is_believed_when_it_comes_twice() {
    // The last have waited rather than computed: less than half of two CPUs is in use.
    for (used, cpu_ms, growing) in [
        (Some(0.9), 0, true),
        (Some(0.8), 0, false),
        (Some(0.9), 300, false),
        (None, 0, false),
    ] {
        let mut controller = settled(1);
        controller.candidates[1].used = used;
        see(&mut controller, 3, 7.0 * RATE, 9.0);
        controller.go(1, 0);
        for (last_ms, doubtful, known) in [(32, true, 9.0), (64, false, 0.0)] {
            // 16 in 32 ms are half of what it was.
            end(&mut controller, 16, 32, last_ms, last_ms / 32 * cpu_ms);
            let says = (controller.doubtful, controller.candidates[3].objects);
            assert_eq!(says, (doubtful, known), "{used:?} {cpu_ms}");
        }
        assert_eq!(controller.candidates[1].objects, 16.0);
        assert_eq!(controller.growing, growing, "{used:?} {cpu_ms}");
    }
    // Less than a quarter is noise, and one alone is chance.
    let mut controller = settled(1);
    see(&mut controller, 0, 0.1 * RATE, 9.0);
    for elsewhere in [0, 2] {
        controller.candidates[elsewhere].again_ns = u64::MAX;
    }
    controller.go(1, 0);
    for (took_ms, at_ms, doubtful) in [(20, 20, false), (32, 52, true), (16, 68, false)] {
        end(&mut controller, 16, took_ms, at_ms, 0);
        assert_eq!(controller.doubtful, doubtful, "{took_ms}");
    }
}

#[test]
fn what_another_candidate_brings_is_no_change_of_the_work() {
    let mut controller = settled(1);
    see(&mut controller, 3, RATE, 50.0);
    controller.at = 3;
    controller.window.opened = Some(Opened { at_ns: 0, cpu_ns: 0 });
    end(&mut controller, 16, 4, 4, 0);
    assert_eq!(controller.candidates[3].objects, 66.0);
    assert!(!controller.doubtful);
}

type Make = fn(usize, &mut Random) -> Vec<Step>;

/// How many windows it had at each degree, for a thousand objects.
fn windows(machine: Machine, make: Make) -> String {
    let mut random = Random(7);
    let mut controller = Controller::new(&(1..=64), machine.cpus, true);
    let mut objects = (0..1_000).map(|i| make(i, &mut random));
    run(machine, &mut objects, Degree::Found(&mut controller), [0, 0]);
    let tried = controller.candidates.iter().filter(|tried| tried.windows > 0);
    let windows: Vec<_> = tried
        .map(|tried| format!("{}:{}", tried.degree, tried.windows))
        .collect();
    windows.join(" ")
}

/// Seen once and kept: a change of these is one of the controller, and to be looked at.
#[test]
fn where_it_goes_on_a_few_machines() {
    let crowded = Machine {
        crowding: 0.03,
        ..PLAIN
    };
    let all: [(&str, Machine, Make, &str); 8] = [
        ("computes", PLAIN, |_, _| vec![Compute(MS)], "2:69 8:1"),
        (
            "computes, crowded",
            crowded,
            |_, r| vec![Compute(5.0 * MS * r.uniform())],
            "2:47 8:1",
        ),
        (
            "waits",
            PLAIN,
            |_, r| vec![Wait(2.0 * MS * r.uniform())],
            "2:1 8:1 16:1 24:1 48:1 64:4",
        ),
        (
            "half and half",
            PLAIN,
            |_, r| vec![Compute(MS * r.uniform()), Wait(MS * r.uniform())],
            "2:1 5:18 6:2 7:2 8:5 10:22 12:1 16:1",
        ),
        (
            "mostly waits",
            PLAIN,
            |_, r| vec![Compute(0.2 * MS), Wait(4.0 * MS * r.uniform())],
            "2:1 8:1 16:1 24:1 28:2 32:11 40:1 48:1",
        ),
        (
            "a server of 4",
            slots(4, 0.5),
            |_, r| vec![Serve(2.0 * MS * r.uniform())],
            "2:1 5:3 6:21 7:29 8:6 12:1 16:1",
        ),
        (
            "a server of 12",
            slots(12, 0.1),
            |_, r| vec![Serve(5.0 * MS * (0.5 + r.uniform()))],
            "2:1 8:1 10:3 12:35 14:2 16:1",
        ),
        (
            "computes and then waits",
            PLAIN,
            |i, r| {
                vec![if i < 500 {
                    Compute(2.0 * MS)
                } else {
                    Wait(20.0 * MS * r.uniform())
                }]
            },
            "2:1 8:1 16:1 24:1 48:1 64:3",
        ),
    ];
    for (name, machine, make, expected) in all {
        assert_eq!(windows(machine, make), expected, "{name}");
    }
}
