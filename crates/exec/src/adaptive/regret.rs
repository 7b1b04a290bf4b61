//! The controller against every fixed degree, on simulated work: deterministic, seeded, no clock.
//!
//! `cargo test --release -p threadgauge-exec --lib regret -- --nocapture --test-threads 1` prints the tables, and
//! `servers` for `regret` those of [`servers`](super::servers).
#![allow(clippy::print_stdout)]

use super::controller::Controller;
use super::simulation::Step::{Compute, Serve, Wait};
use super::simulation::{Degree, MS, Machine, PLAIN, Random, Step, cpus, run, slots};

/// What an object does; its number, how many there are, and a source of chance are given.
type Make = fn(usize, usize, &mut Random) -> Vec<Step>;

struct Workload {
    name: &'static str,
    /// Not the same from beginning to end, so no degree is the best throughout.
    changing: bool,
    machine: Machine,
    make: Make,
}

fn workloads() -> Vec<Workload> {
    let all: [(&str, Machine, Make); 28] = [
        ("compute 1 ms", PLAIN, |_, _, _| vec![Compute(MS)]),
        ("compute 1 ms, heavy tail", PLAIN, |_, _, r| {
            vec![Compute(MS * r.heavy())]
        }),
        ("compute 1 ms, 8 CPUs", cpus(8), |_, _, r| {
            vec![Compute(MS * r.exponential())]
        }),
        ("compute 1 ms, 64 CPUs", cpus(64), |_, _, _| vec![Compute(MS)]),
        (
            "compute 5 ms, crowding costs 3 %",
            Machine {
                crowding: 0.03,
                ..PLAIN
            },
            |_, _, r| vec![Compute(5.0 * MS * r.uniform())],
        ),
        ("wait 1 ms", PLAIN, |_, _, _| vec![Wait(MS)]),
        ("wait 20 ms, exponential", PLAIN, |_, _, r| {
            vec![Wait(20.0 * MS * r.exponential())]
        }),
        ("wait 1 s", PLAIN, |_, _, _| vec![Wait(1000.0 * MS)]),
        ("server of 1, 1 ms", slots(1, 0.0), |_, _, r| {
            vec![Serve(MS * r.exponential())]
        }),
        ("server of 4, 1 ms", slots(4, 0.0), |_, _, _| vec![Serve(MS)]),
        ("server of 4, thrashing", slots(4, 0.1), |_, _, r| {
            vec![Serve(MS * (0.5 + r.uniform()))]
        }),
        ("server of 16, 1 ms", slots(16, 0.0), |_, _, _| vec![Serve(MS)]),
        ("server of 16, exponential", slots(16, 0.0), |_, _, r| {
            vec![Serve(MS * r.exponential())]
        }),
        ("server of 16, thrashing", slots(16, 0.5), |_, _, r| {
            vec![Serve(5.0 * MS * r.exponential())]
        }),
        ("server of 16, thrashing badly", slots(16, 2.0), |_, _, r| {
            vec![Serve(5.0 * MS * (0.5 + r.uniform()))]
        }),
        ("server of 10, and a wait as long", slots(10, 0.1), |_, _, r| {
            vec![
                Wait(2.0 * MS * r.exponential()),
                Serve(2.0 * MS * r.exponential()),
            ]
        }),
        ("server of 100", slots(100, 0.0), |_, _, r| {
            vec![Serve(20.0 * MS * r.exponential())]
        }),
        ("half compute, half wait, 1 ms", PLAIN, |_, _, r| {
            vec![Compute(MS * r.uniform()), Wait(MS * r.uniform())]
        }),
        ("half and half, in bursts, chance", PLAIN, |_, _, r| {
            (0..5)
                .flat_map(|_| [Compute(MS * r.exponential()), Wait(MS * r.exponential())])
                .collect()
        }),
        ("10 % compute, 10 ms", PLAIN, |_, _, r| {
            vec![
                Compute(0.5 * MS),
                Wait(9.0 * MS * r.exponential()),
                Compute(0.5 * MS * r.uniform()),
            ]
        }),
        ("90 % compute, 10 ms", PLAIN, |_, _, r| {
            vec![
                Compute(4.5 * MS),
                Wait(MS * r.exponential()),
                Compute(9.0 * MS * r.uniform()),
            ]
        }),
        ("one in ten waits 20 ms, others compute 0.2", PLAIN, |i, _, _| {
            if i % 10 == 0 {
                vec![Wait(20.0 * MS)]
            } else {
                vec![Compute(0.2 * MS)]
            }
        }),
        ("one in ten waits 10 ms, others compute 0.5", PLAIN, |i, _, _| {
            if i % 10 == 0 {
                vec![Wait(10.0 * MS)]
            } else {
                vec![Compute(0.5 * MS)]
            }
        }),
        ("compute 2 ms, wait 0.5", PLAIN, |_, _, r| {
            vec![Compute(2.0 * MS * (0.9 + 0.2 * r.uniform())), Wait(0.5 * MS)]
        }),
        ("compute 0.2 ms, wait 2", PLAIN, |_, _, r| {
            vec![Compute(0.2 * MS * (0.9 + 0.2 * r.uniform())), Wait(2.0 * MS)]
        }),
        ("first half computes, second waits", PLAIN, |i, n, r| {
            vec![if i < n / 2 {
                Compute(2.0 * MS)
            } else {
                Wait(20.0 * MS * r.uniform())
            }]
        }),
        (
            "first half waits, second computes",
            Machine {
                crowding: 0.002,
                ..PLAIN
            },
            |i, n, r| {
                vec![if i < n / 2 {
                    Wait(20.0 * MS * r.uniform())
                } else {
                    Compute(2.0 * MS)
                }]
            },
        ),
        ("waits from long to short", PLAIN, |i, n, _| {
            vec![Wait(20.0 * MS * (1.0 - i as f64 / n as f64))]
        }),
    ];
    all.into_iter()
        .map(|(name, machine, make)| {
            let changing = name.starts_with("first half") || name.contains("from long to short");
            Workload {
                name,
                changing,
                machine,
                make,
            }
        })
        .collect()
}

/// Whole runs, or without the first half of the objects and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Whole,
    Settled,
}

/// How far from the best fixed degree.
struct Regret {
    best_degree: usize,
    best_ms: f64,
    /// Over the best with the CPU time known and without, and the last degree.
    known: Over,
    unknown: Over,
}

struct Over {
    /// Share over the best: median over the seeds, and the worst.
    median: f64,
    worst: f64,
    last_degree: usize,
}

const FIXED: [usize; 17] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256];

struct Bench {
    objects: usize,
    seeds: u64,
    timed: Timed,
}

impl Bench {
    fn elapsed(&self, workload: &Workload, seed: u64, degree: Degree<'_>) -> f64 {
        let n = self.objects;
        let mut random = Random(seed);
        let mut objects = (0..n).map(|i| (workload.make)(i, n, &mut random));
        let (whole, settled) = run(workload.machine, &mut objects, degree, [n / 2, n / 10 * 9]);
        if self.timed == Timed::Settled && !workload.changing {
            settled
        } else {
            whole
        }
    }

    fn regret(&self, workload: &Workload) -> Regret {
        let fixed = FIXED.map(|degree| {
            let each: Vec<f64> = (0..self.seeds)
                .map(|seed| self.elapsed(workload, seed, Degree::Fixed(degree)))
                .collect();
            (each.iter().sum::<f64>(), degree, each)
        });
        let best = fixed.iter().min_by(|a, b| a.0.total_cmp(&b.0)).expect("some");
        Regret {
            // Of those as good, the lowest.
            best_degree: fixed.iter().find(|f| f.0 <= best.0 * 1.005).expect("the best").1,
            best_ms: best.0 / self.seeds as f64 / MS,
            known: self.over(workload, &best.2, true),
            unknown: self.over(workload, &best.2, false),
        }
    }

    fn over(&self, workload: &Workload, best: &[f64], cpu_known: bool) -> Over {
        let mut last_degree = 0;
        let mut over: Vec<f64> = (0..self.seeds)
            .zip(best)
            .map(|(seed, best)| {
                let mut controller = Controller::new(&(1..=256), workload.machine.cpus, cpu_known);
                let took = self.elapsed(workload, seed, Degree::Found(&mut controller));
                last_degree = controller.degree();
                took / best - 1.0
            })
            .collect();
        over.sort_by(f64::total_cmp);
        Over {
            median: over[over.len() / 2],
            worst: over[over.len() - 1],
            last_degree,
        }
    }

    /// Prints the table and returns what is above the limit and should not be.
    fn table(&self, limit: f64, asked: impl Fn(&Workload, &Regret) -> bool) -> Vec<String> {
        let Self {
            objects,
            seeds,
            timed,
        } = self;
        let percent = limit * 100.0;
        println!(
            "\n{objects} objects, {seeds} seeds, {timed:?}; over the best in %: median (worst), last degree"
        );
        println!(
            "| work | best fixed degree | ms | CPU time known | last | CPU time unknown | last | held to {percent:.0} % |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---|");
        let mut failed = Vec::new();
        for workload in workloads() {
            let r = self.regret(&workload);
            let held = asked(&workload, &r);
            print!("| {} | {} | {:.1} |", workload.name, r.best_degree, r.best_ms);
            for over in [&r.known, &r.unknown] {
                let (median, worst) = (over.median * 100.0, over.worst * 100.0);
                print!(" {median:.1} ({worst:.0}) | {} |", over.last_degree);
                if held && over.median > limit {
                    failed.push(format!("{}: {median:.1} %", workload.name));
                }
            }
            println!(" {} |", if held { "yes" } else { "" });
        }
        failed
    }
}

#[test]
fn regret_is_within_5_percent_in_steady_state() {
    let bench = Bench {
        objects: 10_000,
        seeds: 5,
        timed: Timed::Settled,
    };
    let failed = bench.table(0.05, |workload, _| !workload.changing);
    assert_eq!(failed, [""; 0]);
}

#[test]
fn regret_is_within_10_percent_at_500_objects() {
    let bench = Bench {
        objects: 500,
        seeds: 31,
        timed: Timed::Whole,
    };
    let failed = bench.table(0.1, |workload, r| !workload.changing && r.best_degree <= 16);
    assert_eq!(failed, [""; 0]);
}

#[test]
fn the_degree_stays_within_its_bounds_and_settles() {
    for (least, most) in [(1, 1), (3, 3), (2, 7), (5, 256), (100, 100_000)] {
        let mut controller = Controller::new(&(least..=most), 2, true);
        let mut random = Random(1);
        let mut objects = (0..3_000).map(|_| vec![Wait(MS * random.exponential())]);
        run(PLAIN, &mut objects, Degree::Found(&mut controller), [0, 0]);
        assert!((least..=most).contains(&controller.degree()));
        // Waits without a limit: the more the better.
        assert!(
            controller.degree() >= most.min(256),
            "{} of {most}",
            controller.degree()
        );
    }
}
