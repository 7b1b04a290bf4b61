//! The grid: quotas, pools and loads, and how long each takes.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_machine::QUOTA_PERIOD;

/// Of the tasks: at full load from when a thread takes one, at half load from when it was due.
pub(super) const MEAN: Metric = metric("latency_ns", "ns");
pub(super) const P50: Metric = metric("latency_p50_ns", "ns");
pub(super) const P90: Metric = metric("latency_p90_ns", "ns");
pub(super) const P99: Metric = metric("latency_p99_ns", "ns");
/// Time over tasks done in it.
pub(super) const PER_TASK: Metric = metric("ns_per_task", "ns");
/// Of the periods in which there was something to do, those in which the quota was used up.
pub(super) const THROTTLED: Metric = metric("throttled_share", "share");

words! {
    /// How much there is to do.
    pub(super) enum Load {
        /// Always another task.
        Full = "full",
        /// Half of what the quota grants.
        Half = "half",
    }
}

words! {
    /// What stops the pool.
    pub(super) enum Limit {
        /// The quota.
        Quota = "quota",
        /// Nothing: the quota says only how much there is to do.
        None = "none",
    }
}

point! {
    /// A point of the grid.
    pub(super) struct Case {
        load: Load,
        limit: Limit,
        /// Of a CPU.
        quota_percent: u64 = 1..=1_000_000,
        threads: u64 = 1..=4096,
        /// What a task computes.
        task_us: u64 = 50..=10_000_000,
        /// How many; at full load at least.
        tasks: u64 = 1..=10_000_000,
        cpus: u64 = 1..,
    }
}

/// One CPU's worth of two, by one thread, always busy. As many tasks as a 99th percentile needs.
pub(super) const FULL: Case = Case {
    load: Load::Full,
    limit: Limit::Quota,
    quota_percent: 100,
    threads: 1,
    task_us: 1_000,
    tasks: 1_000,
    cpus: 2,
};

/// Requests of a length at which people complain: half of what half a CPU may do in a period.
pub(super) const HALF: Case = Case {
    load: Load::Half,
    quota_percent: 50,
    task_us: 20_000,
    tasks: 36,
    ..FULL
};

/// Short requests, at half load.
const SHORT_US: u64 = 2_000;
/// A full load lasts so many periods at least.
const FEWEST_PERIODS: u64 = 5;

impl Case {
    /// How many CPUs' worth of time the quota grants.
    pub(super) fn quota_cpus(self) -> f64 {
        self.quota_percent as f64 / 100.0
    }

    pub(super) const fn task(self) -> Duration {
        Duration::from_micros(self.task_us)
    }

    /// With the pool of a program that looks at the quota: a thread for each whole CPU of it.
    pub(super) fn sized_by_quota(self) -> Self {
        self.threads((self.quota_percent / 100).max(1))
    }

    /// With the pool of a program that looks at the machine: a thread for each of its CPUs.
    pub(super) const fn sized_by_machine(self) -> Self {
        self.threads(self.cpus)
    }

    /// How many CPUs compute on average.
    pub(super) fn busy_cpus(self) -> f64 {
        let quota = self.quota_cpus();
        match (self.load, self.limit) {
            (Load::Half, _) => quota / 2.0,
            (Load::Full, Limit::Quota) => quota.min(self.threads.min(self.cpus) as f64),
            (Load::Full, Limit::None) => self.threads.min(self.cpus) as f64,
        }
    }

    /// How long there is something to do: at full load whole periods, each with all of its quota.
    pub(super) fn span(self) -> Duration {
        let span = self.task().mul_f64(self.tasks as f64 / self.busy_cpus());
        match self.load {
            Load::Half => span,
            Load::Full => {
                let periods = span.as_secs_f64() / QUOTA_PERIOD.as_secs_f64();
                let periods = (periods - 1e-9).ceil().max(FEWEST_PERIODS as f64);
                QUOTA_PERIOD.mul_f64(periods)
            }
        }
    }

    /// Reads parameters, which `--set` may have changed.
    pub(super) fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        if case.quota_percent > 100 * case.cpus {
            let wanted = format!("at most {}, which are the CPUs of the case", 100 * case.cpus);
            return Err(refused(params, "quota_percent", &wanted));
        }
        Ok(case)
    }

    fn planned(self) -> PlannedCase {
        PlannedCase {
            check: |params| Self::possible(params).map(drop),
            takes: Some(|params| Self::read(params).ok().map(Self::takes)),
            ..PlannedCase::new(self, self.takes())
        }
    }

    fn takes(self) -> Duration {
        // To start and calibrate, to make the threads, and for the last task to end.
        let besides = Duration::from_micros(20_000 + 60 * self.threads);
        let last = match self.load {
            Load::Full => self.task(),
            Load::Half => self.task() + QUOTA_PERIOD / 2,
        };
        self.span() + besides + last
    }
}

/// Half of the CPUs, always busy, by a pool sized by that quota and by one sized by the machine: what the claim is of.
pub(super) fn halved(cpus: u64) -> [Case; 2] {
    let cpus = cpus.max(2);
    let of_half = FULL.cpus(cpus).quota_percent(100 * (cpus / 2));
    [of_half.sized_by_quota(), of_half.sized_by_machine()]
}

/// Standard has less of larger machines, on which other experiments take more of its time.
const MANY_CPUS: u64 = 4;

/// Quotas in percent of a CPU, which rise; all CPUs where these are few, and in paper.
fn quotas(site: &Site, cpus: u64) -> Vec<u64> {
    let is_paper = site.profile == Profile::Paper;
    let of_profile: &[u64] = match is_paper {
        true => &[25, 50, 100, 150, 200, 400],
        false if cpus > MANY_CPUS => &[100],
        false => &[50, 100],
    };
    let mut quotas = of_profile.to_vec();
    quotas.push(100 * (cpus / 2));
    if is_paper || cpus <= 2 {
        quotas.push(100 * cpus);
    }
    quotas.retain(|percent| (1..=100 * cpus).contains(percent));
    quotas.sort_unstable();
    quotas.dedup();
    quotas
}

/// Sizes of pools, which rise, up to four threads for each CPU.
fn pools(site: &Site, cpus: u64) -> Vec<u64> {
    let mut pools = vec![1, cpus, 4 * cpus];
    if site.profile == Profile::Paper || cpus <= MANY_CPUS {
        pools.push(2);
    }
    if site.profile == Profile::Paper || cpus <= 2 {
        pools.extend([cpus / 2, 2 * cpus]);
    }
    pools.retain(|threads| *threads > 0);
    pools.sort_unstable();
    pools.dedup();
    pools
}

/// What is planned beside what the first claim compares.
fn curves(site: &Site) -> Vec<Case> {
    let cpus = site.cpus.len() as u64;
    let mut cases = Vec::new();
    let (quotas, pools) = (quotas(site, cpus), pools(site, cpus));
    for &quota in &quotas {
        let of_quota = FULL.cpus(cpus).quota_percent(quota);
        cases.extend(pools.iter().map(|&threads| of_quota.threads(threads)));
    }
    // In paper enough for a 90th percentile.
    let tasks = site.profile.pick(HALF.tasks, HALF.tasks, 100);
    let half = HALF.cpus(cpus).tasks(tasks);
    let half_quotas: Vec<u64> = match site.profile {
        Profile::Paper => quotas,
        _ if cpus > MANY_CPUS => Vec::new(),
        _ => [50, 100]
            .into_iter()
            .filter(|percent| *percent <= 100 * cpus)
            .collect(),
    };
    for &quota in &half_quotas {
        let of_quota = half.quota_percent(quota);
        cases.extend([1, cpus].map(|threads| of_quota.threads(threads)));
        if site.profile == Profile::Paper {
            cases.push(of_quota.threads(4 * cpus));
            cases.push(of_quota.sized_by_machine().limit(Limit::None));
        }
    }
    let lengths_us: &[u64] = match site.profile {
        Profile::Paper => &[1_000, SHORT_US, 5_000, 10_000, HALF.task_us, 50_000, 100_000],
        _ => &[SHORT_US, HALF.task_us],
    };
    for &task_us in lengths_us {
        let of_length = half.sized_by_machine().task_us(task_us);
        cases.extend(Limit::ALL.map(|limit| of_length.limit(limit)));
    }
    cases
}

pub(super) fn plan(site: &Site) -> Plan {
    let compared = halved(site.cpus.len() as u64);
    let mut cases = compared.to_vec();
    if site.profile != Profile::Quick {
        cases.extend(curves(site));
    }
    let mut once: Vec<Case> = Vec::new();
    for case in cases {
        if !once.contains(&case) {
            once.push(case);
        }
    }
    let standard_s = if site.cpus.len() as u64 > MANY_CPUS {
        80
    } else {
        195
    };
    Plan {
        cases: once.into_iter().map(Case::planned).collect(),
        reference: compared[0].params(),
        budget: Duration::from_secs(site.profile.pick(24, standard_s, 7200)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;

    #[test]
    fn a_full_load_lasts_whole_periods_and_has_tasks_enough() {
        let ms = |case: Case| case.span().as_millis();
        // 1,000 ms of computing.
        assert_eq!(ms(FULL), 1_000);
        assert_eq!(ms(FULL.quota_percent(25)), 4_000);
        assert_eq!(ms(FULL.quota_percent(150).threads(2)), 700);
        // One thread cannot use more than one CPU.
        assert_eq!(ms(FULL.quota_percent(200)), 1_000);
        assert_eq!(ms(FULL.cpus(96).quota_percent(4_800).threads(96)), 500);
    }

    #[test]
    fn half_a_load_lasts_as_long_as_half_of_the_quota_takes_for_it() {
        let ms = |case: Case| case.span().as_millis();
        assert_eq!(ms(HALF), 2_880);
        assert_eq!(ms(HALF.limit(Limit::None)), 2_880);
        assert_eq!(ms(HALF.quota_percent(100).threads(8)), 1_440);
    }

    #[test]
    fn a_pool_by_the_quota_has_a_thread_for_each_whole_cpu_of_it() {
        let of = |percent| FULL.quota_percent(percent).sized_by_quota().threads;
        assert_eq!([25, 100, 150, 199, 200, 4_800].map(of), [1, 1, 1, 1, 2, 48]);
    }

    #[test]
    fn more_than_the_cpus_of_a_case_is_refused() {
        let case = FULL.quota_percent(250);
        let says = Case::possible(&case.params()).unwrap_err().to_string();
        assert_eq!(
            says,
            "the parameter quota_percent is 250; it must be at most 200, which are the CPUs of the case"
        );
    }

    #[test]
    fn every_profile_has_what_the_claims_compare_and_quotas_up_to_all_cpus_in_paper() {
        for cpus in [1, 2, 3, 4, 96] {
            for profile in Profile::ALL {
                let plan = plan(&testing::site(profile, cpus));
                let has = |case: Case| plan.cases.iter().any(|c| c.params.matches(&case.any(&["tasks"])));
                assert!(halved(cpus as u64).into_iter().all(has));
                let slowed = HALF.cpus(cpus as u64).sized_by_machine();
                let both = Limit::ALL.map(|limit| slowed.limit(limit)).into_iter().all(has);
                assert_eq!(both, profile != Profile::Quick, "{cpus} {}", profile.name());
                let most = plan
                    .cases
                    .iter()
                    .filter_map(|c| c.params.int("quota_percent"))
                    .max();
                if profile == Profile::Paper {
                    assert_eq!(most, Some(100 * cpus.max(1) as u64).max(Some(100)));
                }
            }
        }
    }
}
