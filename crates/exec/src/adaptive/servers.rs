//! The controller on servers of every size from 1 to 16, of every strength of thrashing: nothing in it is made for one.
//!
//! `cargo test --release -p threadgauge-exec --lib servers -- --nocapture` prints the table.
#![allow(clippy::print_stdout)]

use super::controller::Controller;
use super::simulation::{Degree, MS, Random, Step, run, slots};

const OBJECTS: usize = 500;
const SEEDS: u64 = 31;
const CAPACITIES: [usize; 11] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16];
/// By what share a request is slower for each one that waits, per slot.
const THRASHING: [f64; 5] = [0.0, 0.1, 0.5, 1.0, 2.0];
/// Service times, as multiples of 5 ms.
const SERVICE: [fn(&mut Random) -> f64; 4] = [
    |_| 1.0,
    |random| 0.5 + random.uniform(),
    Random::exponential,
    Random::heavy,
];

fn elapsed(
    capacity: usize,
    thrashing: f64,
    service: fn(&mut Random) -> f64,
    seed: u64,
    degree: Degree<'_>,
) -> f64 {
    let mut random = Random(seed);
    let mut objects = (0..OBJECTS).map(|_| vec![Step::Serve(5.0 * MS * service(&mut random))]);
    run(slots(capacity, thrashing), &mut objects, degree, [0, 0]).0
}

/// Percent over the degree that is as high as the capacity: the median over the seeds, and the worst.
fn over(capacity: usize, thrashing: f64, service: fn(&mut Random) -> f64) -> (f64, f64) {
    let mut over: Vec<f64> = (0..SEEDS)
        .map(|seed| {
            let mut controller = Controller::new(&(1..=256), 2, true);
            let found = elapsed(capacity, thrashing, service, seed, Degree::Found(&mut controller));
            found / elapsed(capacity, thrashing, service, seed, Degree::Fixed(capacity)) - 1.0
        })
        .collect();
    over.sort_by(f64::total_cmp);
    (over[over.len() / 2] * 100.0, over[over.len() - 1] * 100.0)
}

#[test]
fn servers_of_any_size_cost_little_and_thrashing_ones_what_looking_costs() {
    println!(
        "% over the capacity as degree, {OBJECTS} objects; medians of {SEEDS} seeds for constant, uniform,"
    );
    println!("exponential, heavy-tailed service, and the worst of all");
    print!("| slots |");
    for thrashing in THRASHING {
        print!(" thrashing {thrashing} |");
    }
    println!("\n|---:|{}", "---|".repeat(THRASHING.len()));
    let mut within_10 = 0;
    let mut failed = Vec::new();
    for capacity in CAPACITIES {
        print!("| {capacity} |");
        for thrashing in THRASHING {
            let cells = SERVICE.map(|service| over(capacity, thrashing, service));
            let medians = cells.map(|(median, _)| format!("{median:.0}")).join(" ");
            let worst = cells.iter().fold(0.0, |most: f64, (_, worst)| most.max(*worst));
            print!(" {medians} ({worst:.0}) |");
            for (median, _) in cells {
                within_10 += usize::from(median <= 10.0);
                // What thrashes costs what is started before that shows, and every look at a degree that is not its
                // size.
                if median > 20.0 + 10.0 * thrashing {
                    failed.push(format!("{capacity} slots, thrashing {thrashing}: {median:.1} %"));
                }
            }
        }
        println!();
    }
    println!("{within_10} within 10 %");
    assert_eq!(failed, [""; 0]);
    assert!(within_10 >= 140, "{within_10}");
}
