//! The cases of each profile, and what each is expected to take.
//!
//! One factor at a time from the base (one unit at a time, nobody else busy, an empty parent, one CPU): every creation
//! method on one and on all CPUs; then how many are alive, how many others are busy, and what the parent holds, for the
//! methods in which the factor can matter.

use threadgauge_lab::point::refused;
use threadgauge_lab::prelude::*;
use threadgauge_results::Lack;

use crate::conditions::sizes_between;
use crate::guests::{EXIT, Guest, UNITS};
use crate::libraries::Library;

/// How many units are kept alive together.
pub const ALIVE: [u64; 2] = [64, 1000];
/// How many other threads compute beside the units (`busy`).
pub const BUSY: u64 = 16;
/// Memory of the parent, MiB.
pub const PARENT_MIB: [u64; 2] = [100, 1024];
/// What the parent holds, MiB, and whether in huge pages.
pub const PARENTS: [(u64, bool); 4] = [
    (PARENT_MIB[0], false),
    (PARENT_MIB[0], true),
    (PARENT_MIB[1], false),
    (PARENT_MIB[1], true),
];
/// The methods that are run from parents that hold memory: one that copies page tables, and three that do not.
pub const FROM_PARENTS: [Method; 4] = [Method::Fork, Method::Vfork, Method::PosixSpawn, Method::Pthread];
/// Free memory that the largest parent asks for, MiB: its own, and a reserve for page tables and the rest.
const MEMORY_FOR_LARGEST_MIB: u64 = 1600;
/// Units made beforehand, one at a time from an empty parent, since the first stack and the first page of code are no
/// steady cost. The number is the same for every case; otherwise short cases would have colder units.
pub const WARM_UP: u64 = 50;

words! {
    /// What is made.
    pub enum Unit {
        /// With memory, or at least a process id, of its own.
        Process = "process",
        /// Of the worker's process.
        Thread = "thread",
    }
}

words! {
    /// The program that makes the units.
    pub enum Program {
        /// A small one in C that uses the shared C library, as the sources' did: `guests/c/units.c`.
        C = "c",
        /// This command's own worker, which is larger: only to measure what its size adds.
        Threadgauge = "threadgauge",
    }
}

words! {
    /// How a unit is made and ended.
    pub enum Method {
        /// `fork`; the child ends, and the parent waits for it.
        Fork = "fork",
        /// `fork` without waiting; a `SIGCHLD` handler reaps those that have ended, and all are waited for at the end.
        ForkSigchld = "fork-sigchld",
        /// Source 003's program: the `SIGCHLD` handler waits until no child is left, and nobody waits at the end.
        ForkSigchldWait = "fork-sigchld-wait",
        /// `vfork`: the parent is suspended until the child, in the same memory, has ended.
        Vfork = "vfork",
        /// `posix_spawn` of a tiny static program.
        PosixSpawn = "posix_spawn",
        /// `fork` and `execve` of the same program.
        ForkExec = "fork-exec",
        /// `clone` with shared memory, but a process of its own: a thread as it was before NPTL.
        CloneVm = "clone-vm",
        /// `pthread_create` and `pthread_join`; source 004's `lat_thread`.
        Pthread = "pthread",
        /// `std::thread::spawn` and `join`, which no program in C can do.
        Std = "std",
        /// A job handed to an existing thread, and waited for.
        Pool = "pool",
    }
}

impl Method {
    /// Those that the program in C uses to compare them in every way. Source 003's is beside them.
    pub const IN_C: [Self; 8] = [
        Self::Fork,
        Self::ForkSigchld,
        Self::Vfork,
        Self::PosixSpawn,
        Self::ForkExec,
        Self::CloneVm,
        Self::Pthread,
        Self::Pool,
    ];
    /// Those that this command's worker uses.
    pub const IN_COMMAND: [Self; 2] = [Self::Fork, Self::Std];

    /// What it makes.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Pthread | Self::Std | Self::Pool => Unit::Thread,
            _ => Unit::Process,
        }
    }

    /// Whether its units can be kept alive while more are made. The parent of a vforked child is suspended, and where a
    /// handler reaps there is no moment at which all exist.
    pub const fn can_hold(self) -> bool {
        !matches!(self, Self::Vfork | Self::ForkSigchld | Self::ForkSigchldWait)
    }

    /// Whether it starts another program.
    pub const fn runs_program(self) -> bool {
        matches!(self, Self::PosixSpawn | Self::ForkExec)
    }
}

point! {
    /// A point of the grid.
    pub struct Case {
        /// What is made.
        unit: Unit,
        /// How.
        method: Method,
        /// By which program.
        program: Program,
        /// How many, all batches together.
        count: u64 = 1..=u64::from(u32::MAX),
        /// How many are alive together at the end of a batch.
        alive: u64 = 1..,
        /// How many other threads compute meanwhile.
        busy: u64,
        /// Resident memory of the parent beyond the program's own, MiB.
        parent_mib: u64,
        /// Whether that memory is in huge pages.
        huge_pages: bool,
        /// On how many CPUs.
        cpus: u64 = 1..,
        /// What the program in C is built on, where that is another library than the machine's.
        library: Option<Library>,
    }
}

impl Case {
    /// One at a time, nobody else busy, an empty parent, one CPU; by the program in C where it has the method.
    pub const fn base(method: Method, count: u64) -> Self {
        let program = match method {
            Method::Std => Program::Threadgauge,
            _ => Program::C,
        };
        Self {
            unit: method.unit(),
            method,
            program,
            count,
            alive: 1,
            busy: 0,
            parent_mib: 0,
            huge_pages: false,
            cpus: 1,
            library: None,
        }
    }

    /// The program in C that makes its units.
    pub fn program_in_c(&self) -> &'static Guest {
        self.library.map_or(&UNITS, Library::units)
    }

    /// With a parent of this size and kind of pages.
    pub const fn parent(self, (parent_mib, huge_pages): (u64, bool)) -> Self {
        Self {
            parent_mib,
            huge_pages,
            ..self
        }
    }

    /// Reads parameters, which `--set` may have changed.
    ///
    /// # Errors
    ///
    /// Names the parameter that is not possible, and what is.
    pub fn possible(params: &Params) -> Result<Self, CaseError> {
        let case = Self::read(params)?;
        let method = case.method.name();
        if case.unit != case.method.unit() {
            let wanted = format!("{}, which method={method} makes", case.method.unit().name());
            return Err(refused(params, "unit", &wanted));
        }
        if case.program == Program::Threadgauge {
            if !Method::IN_COMMAND.contains(&case.method) {
                let wanted = format!("c: {method} is made by the program in C alone");
                return Err(refused(params, "program", &wanted));
            }
            if (case.alive, case.busy, case.parent_mib) != (1, 0, 0) {
                let wanted = "c, where alive is not 1, or busy or parent_mib is not 0";
                return Err(refused(params, "program", wanted));
            }
        } else if case.method == Method::Std {
            return Err(refused(
                params,
                "program",
                "threadgauge, which alone can make units by std",
            ));
        }
        if case.alive > case.count {
            let wanted = format!("at most count={}", case.count);
            return Err(refused(params, "alive", &wanted));
        }
        if case.alive > 1 && !case.method.can_hold() {
            let wanted = format!("1: units made by {method} cannot be kept alive while more are made");
            return Err(refused(params, "alive", &wanted));
        }
        if case.library.is_some() && (case.method, case.busy) != (Method::Pthread, 0) {
            let wanted = "pthread, with busy=0, where a thread library is named";
            return Err(refused(params, "method", wanted));
        }
        if case.busy > 0 && case.method == Method::ForkSigchldWait {
            let wanted = format!("0: the handler of {method} would wait for the others");
            return Err(refused(params, "busy", &wanted));
        }
        Ok(case)
    }

    /// What the machine or this build lacks for it.
    fn lack(&self, site: &Site) -> Option<Lack> {
        if self.parent_mib >= PARENT_MIB[1] && site.free_memory_mib < MEMORY_FOR_LARGEST_MIB {
            return Some(Lack::memory(MEMORY_FOR_LARGEST_MIB, site.free_memory_mib));
        }
        let in_c = (self.program == Program::C)
            .then(|| self.program_in_c().missing())
            .flatten();
        in_c.or_else(|| self.method.runs_program().then(|| EXIT.missing()).flatten())
    }

    /// The case with its estimate and what it lacks, for the engine.
    pub fn planned(self) -> PlannedCase {
        PlannedCase::new(self, self.estimate())
    }

    /// The time of the work, and of starting and ending the worker, on a virtual machine with two CPUs.
    fn estimate(&self) -> Duration {
        // Includes the program in C and its warm-up.
        let start = Duration::from_micros(7_000 + WARM_UP * self.unit_us());
        let touch_us = self.parent_mib * if self.huge_pages { 2_500 } else { 500 };
        let work = if self.busy > 0 {
            // The others are started and ended, each in its turn.
            busy_limit(self.count) + Duration::from_millis(60)
        } else {
            let copied_us = match self.method {
                Method::Fork | Method::ForkSigchld | Method::ForkSigchldWait | Method::ForkExec
                    if !self.huge_pages =>
                {
                    self.parent_mib * 31
                }
                _ => 0,
            };
            let pool_us = if self.method == Method::Pool {
                60 * self.alive
            } else {
                0
            };
            Duration::from_micros(self.count * (self.unit_us() + copied_us) + pool_us)
        };
        start + Duration::from_micros(touch_us) + work
    }

    /// What a unit takes, µs.
    fn unit_us(&self) -> u64 {
        let (one_cpu, all_cpus) = match self.method {
            Method::Fork => (125, 160),
            Method::ForkSigchld | Method::ForkSigchldWait => (140, 140),
            Method::Vfork => (24, 50),
            Method::PosixSpawn => (115, 165),
            Method::ForkExec => (195, 290),
            Method::CloneVm => (21, 45),
            Method::Pthread => (18, 40),
            Method::Std => (25, 40),
            Method::Pool => (6, 45),
        };
        let (one_cpu, all_cpus) = match self.library {
            Some(Library::LinuxThreads) => (150, 250),
            Some(Library::Musl) | None => (one_cpu, all_cpus),
        };
        let us = if self.cpus == 1 { one_cpu } else { all_cpus };
        // Each unit of many has to be mapped, woken and switched to.
        if self.alive > 1 { us * 8 / 5 } else { us }
    }
}

/// The longest that a case with busy threads goes on making units: 1.25 ms for each unit asked for, 0.25 s in quick.
/// With 16 busy threads on one CPU, every wait for a unit first waits for their time slices.
pub fn busy_limit(count: u64) -> Duration {
    Duration::from_micros(1250 * count)
}

/// The cases for a site.
///
/// Cells that are set against each other make as many units, whatever makes them and however many are alive.
/// Exceptions: a fork that copies page tables takes milliseconds and is made less often; beside others, a process makes
/// its own units to compare with; paper makes the 100,000 of the source from the base only.
pub fn plan(site: &Site) -> Plan {
    let profile = site.profile;
    let base = |method: Method| Case::base(method, profile.pick(600, 1_200, 100_000));
    // At least two, so that a machine with one CPU says what it lacks.
    let all_cpus = (site.cpus.len() as u64).max(2);
    let (one_cpu, more) = (Method::IN_C.into_iter(), |of: &Method| {
        !is_base_alone(profile, *of)
    });
    let on_all = one_cpu
        .clone()
        .filter(more)
        .map(|method| base(method).cpus(all_cpus));
    let on_cpus = one_cpu.clone().map(base).chain(on_all);
    let between = sizes_between(site).into_iter();
    let between = between.map(|cpus| base(Method::Pthread).cpus(cpus));
    let libraries = (profile != Profile::Quick).then_some(Library::ALL);
    let on_libraries = libraries.into_iter().flatten().flat_map(|library| {
        let case = base(Method::Pthread).library(Some(library));
        [1, all_cpus].map(|cpus| case.cpus(cpus))
    });
    let of_the_source = (profile != Profile::Quick).then(|| base(Method::ForkSigchldWait));
    let in_command = Method::IN_COMMAND.map(|method| base(method).program(Program::Threadgauge));
    let held = one_cpu.filter(|method| method.can_hold() && more(method));
    let alive = held.flat_map(|method| {
        let case = base(method).count(base(method).count.min(10_000));
        // A batch is made whole, and quick makes fewer units than the largest has.
        ALIVE
            .map(|alive| case.alive(alive))
            .into_iter()
            .filter(|case| case.alive <= case.count)
    });
    let busy = while_others_are_busy(profile)
        .iter()
        .map(|method| Case::base(*method, profile.pick(200, 400, 4_000)).busy(BUSY));
    let parents = from_parents(profile).into_iter().map(|(method, parent)| {
        // A copy of page tables takes milliseconds.
        let copies = |mib: u64| (4_000 / mib).max(10);
        let case = match method {
            Method::Fork if !parent.1 => Case::base(method, profile.pick(1, 4, 100) * copies(parent.0) / 2),
            _ => base(method).count(base(method).count.min(2_000)),
        };
        case.parent(parent)
    });
    let planned = |case: Case| PlannedCase {
        skip: case.lack(site),
        ..case.planned()
    };
    Plan {
        cases: on_cpus
            .chain(between)
            .chain(of_the_source)
            .chain(in_command)
            .chain(alive)
            .chain(busy)
            .chain(parents)
            .chain(on_libraries)
            .map(planned)
            .collect(),
        reference: base(Method::Pthread).params(),
        budget: Duration::from_secs(profile.pick(16, 220, 2 * 3600)),
    }
}

/// Of the ways that start a program or reap in a handler quick has the base alone: no claim asks for more.
fn is_base_alone(profile: Profile, method: Method) -> bool {
    profile == Profile::Quick && (method.runs_program() || method == Method::ForkSigchld)
}

fn while_others_are_busy(profile: Profile) -> &'static [Method] {
    const STANDARD: [Method; 3] = [Method::Fork, Method::Pthread, Method::Pool];
    profile.pick(&STANDARD[..2], &STANDARD, &Method::IN_C)
}

/// From standard on each method that copies no page tables has one small case, which shows that the parent's memory
/// does not matter to it. The paper profile has the whole grid. Quick has no gigabyte: its forks took a seventh of the
/// time, and no claim needs them.
fn from_parents(profile: Profile) -> Vec<(Method, (u64, bool))> {
    let [small, small_huge, large, large_huge] = PARENTS;
    let standard = [
        (Method::Fork, small),
        (Method::Pthread, small),
        (Method::Vfork, small),
        (Method::PosixSpawn, small),
        (Method::Fork, small_huge),
        (Method::Fork, large),
        (Method::Fork, large_huge),
        (Method::PosixSpawn, large),
    ];
    let paper = FROM_PARENTS.map(|method| PARENTS.map(|parent| (method, parent)));
    profile.pick(standard[..2].to_vec(), standard.to_vec(), paper.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing;
    use threadgauge_results::Need;

    const PROFILES: [Profile; 3] = [Profile::Quick, Profile::Standard, Profile::Paper];

    fn planned(profile: Profile) -> Plan {
        plan(&testing::site(profile, 2))
    }

    #[test]
    fn every_case_reads_back_from_its_parameters() {
        for method in Method::IN_C {
            let case = Case::base(method, 200).busy(16).parent((100, true)).cpus(2);
            let case = case.alive(if method.can_hold() { 64 } else { 1 });
            assert_eq!(Case::possible(&case.params()).unwrap(), case);
        }
        for method in Method::IN_COMMAND {
            let case = Case::base(method, 200).program(Program::Threadgauge);
            assert_eq!(Case::possible(&case.params()).unwrap(), case);
        }
    }

    #[test]
    fn the_id_has_the_parameters_in_their_order() {
        assert_eq!(
            Case::base(Method::Pthread, 200).params().case_id("create"),
            "create/unit=thread,method=pthread,program=c,count=200,alive=1,busy=0,parent_mib=0,huge_pages=no,cpus=1"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let good = Case::base(Method::Vfork, 200).params();
        let fork = Case::base(Method::Fork, 200).params();
        for (params, says) in [
            (
                good.clone().with("method", "spork"),
                "method is spork; it must be one of fork, fork-sigchld",
            ),
            (
                good.clone().with("unit", "thread"),
                "unit is thread; it must be process, which method=vfork makes",
            ),
            (
                good.clone().with("program", "threadgauge"),
                "program is threadgauge; it must be c: vfork is made by the program in C alone",
            ),
            (
                fork.clone().with("program", "threadgauge").with("busy", 16),
                "program is threadgauge; it must be c, where alive is not 1, or busy or parent_mib is not 0",
            ),
            (
                Case::base(Method::Std, 200).params().with("program", "c"),
                "program is c; it must be threadgauge, which alone can make units by std",
            ),
            (
                good.clone().with("alive", 64),
                "alive is 64; it must be 1: units made by vfork cannot be kept alive",
            ),
            (
                good.clone().with("alive", 0),
                "alive is 0; it must be a number from 1 on",
            ),
            (
                fork.with("alive", 201),
                "alive is 201; it must be at most count=200",
            ),
            (
                good.clone().with("count", 0),
                "count is 0; it must be a number from 1 to 4294967295",
            ),
            (
                good.clone().with("count", 1 << 32),
                "it must be a number from 1 to 4294967295",
            ),
            (
                good.clone().with("count", "many"),
                "count is many; it must be a number",
            ),
            (
                good.with("huge_pages", "maybe"),
                "huge_pages is maybe; it must be yes or no",
            ),
        ] {
            let error = Case::possible(&params).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn each_profile_stays_within_its_round() {
        for (profile, most_ms) in PROFILES.into_iter().zip([4_200, 12_600, 720_000]) {
            let round: Duration = planned(profile).cases.iter().map(|c| c.estimate).sum();
            assert!(
                round <= Duration::from_millis(most_ms),
                "{} takes {round:?} a round",
                profile.name()
            );
        }
    }

    #[test]
    fn cells_that_are_set_against_each_other_make_as_many_units() {
        for (profile, count) in [(Profile::Quick, 600), (Profile::Standard, 1_200)] {
            for case in planned(profile).cases {
                let read = Case::possible(&case.params).unwrap();
                let copies = read.method == Method::Fork && read.parent_mib > 0 && !read.huge_pages;
                let is_compared_with_itself = read.busy > 0;
                if !copies && !is_compared_with_itself {
                    assert_eq!(read.count, count.max(read.alive), "{}", case.params);
                }
            }
        }
    }

    #[test]
    fn only_one_factor_leaves_the_base() {
        for case in plan(&testing::site(Profile::Paper, 4)).cases {
            let read = Case::possible(&case.params).unwrap();
            let changed = [read.alive > 1, read.busy > 0, read.parent_mib > 0, read.cpus == 4];
            assert!(changed.iter().filter(|c| **c).count() <= 1, "{}", case.params);
            assert!(!read.huge_pages || read.parent_mib > 0);
        }
    }

    #[test]
    fn the_paper_profile_makes_100_000_as_the_source() {
        let cases = planned(Profile::Paper).cases;
        let base = &cases[..2 * Method::IN_C.len() + Method::IN_COMMAND.len()];
        assert!(base.len() == 18 && base.iter().all(|c| c.params.int("count") == Some(100_000)));
    }

    #[test]
    fn what_the_machine_lacks_is_said_and_nothing_else_is_skipped() {
        let lacks = |profile, cpus, free_memory_mib| {
            let site = Site {
                free_memory_mib,
                ..testing::site(profile, cpus)
            };
            let mut plan = plan(&site);
            plan.fit(&site);
            let lacks = plan.cases.into_iter().filter_map(|c| c.skip);
            // Which compilers there were is the build's affair.
            let lacks = lacks.filter(|lack| lack.of != Need::Program);
            lacks.map(|lack| (lack.of, lack.says)).collect::<Vec<_>>()
        };
        assert_eq!(lacks(Profile::Quick, 2, 8_000), []);
        let one_cpu = (Need::Cpus, "needs 2 CPUs, this run has 1".to_owned());
        assert_eq!(
            lacks(Profile::Quick, 1, 8_000),
            vec![one_cpu; Method::IN_C.len() - 3]
        );
        let memory = (
            Need::Memory,
            "needs 1600 MiB of free memory, 900 are free".to_owned(),
        );
        let large = from_parents(Profile::Standard)
            .into_iter()
            .filter(|(_, parent)| parent.0 > 1_000);
        assert_eq!(lacks(Profile::Standard, 2, 900), vec![memory; large.count()]);
    }
}
