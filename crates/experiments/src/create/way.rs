//! The ways of making a unit, and a point of the grid as the measuring code reads it.

use threadgauge_results::Params;

use threadgauge_lab::worker::CaseError;

/// A way of making a process or a thread and of ending it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `fork`, the child ends, the parent waits for it.
    Fork,
    /// `fork` without waiting; a `SIGCHLD` handler reaps: as source 003 did.
    ForkSigchld,
    /// As `vfork`: the parent stands still until the child, in the same memory, has ended.
    Vfork,
    /// `posix_spawn` of a tiny static program.
    PosixSpawn,
    /// `fork` and `execve` of the same program.
    ForkExec,
    /// `clone` with shared memory, but a process of its own: a thread as it was before NPTL.
    CloneVm,
    /// `pthread_create` and `pthread_join`.
    Pthread,
    /// `std::thread::spawn` and `join`.
    Std,
    /// A job handed to a thread that is there already, and waited for.
    Pool,
}

impl Way {
    /// Every way, processes first.
    pub const ALL: [Self; 9] = [
        Self::Fork,
        Self::ForkSigchld,
        Self::Vfork,
        Self::PosixSpawn,
        Self::ForkExec,
        Self::CloneVm,
        Self::Pthread,
        Self::Std,
        Self::Pool,
    ];

    /// The value of the parameter `method`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::ForkSigchld => "fork-sigchld",
            Self::Vfork => "vfork",
            Self::PosixSpawn => "posix_spawn",
            Self::ForkExec => "fork-exec",
            Self::CloneVm => "clone-vm",
            Self::Pthread => "pthread",
            Self::Std => "std",
            Self::Pool => "pool",
        }
    }

    /// The value of the parameter `unit`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Pthread | Self::Std | Self::Pool => "thread",
            _ => "process",
        }
    }

    /// Whether its units can be kept alive while more are made. A vforked child holds up its parent, and
    /// the source's way has no moment at which all are there.
    pub const fn can_hold(self) -> bool {
        !matches!(self, Self::Vfork | Self::ForkSigchld)
    }

    /// Whether it starts another program.
    pub const fn runs_program(self) -> bool {
        matches!(self, Self::PosixSpawn | Self::ForkExec)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.name() == name)
    }
}

/// A point of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// How units are made.
    pub way: Way,
    /// How many, all batches together.
    pub count: u64,
    /// How many are alive at the same time, at the end of a batch.
    pub alive: u64,
    /// How many compute beside.
    pub busy: u64,
    /// Memory of the parent that exists, MiB, beyond the program's own.
    pub parent_mib: u64,
    /// Whether that memory is in huge pages.
    pub huge_pages: bool,
}

impl Case {
    /// One at a time, nobody beside, an empty parent.
    pub const fn base(way: Way, count: u64) -> Self {
        Self {
            way,
            count,
            alive: 1,
            busy: 0,
            parent_mib: 0,
            huge_pages: false,
        }
    }

    /// Its parameters, in the order of the ids.
    pub fn params(&self, cpus: u64) -> Params {
        Params::new()
            .with("unit", self.way.unit())
            .with("method", self.way.name())
            .with("count", self.count)
            .with("alive", self.alive)
            .with("busy", self.busy)
            .with("parent_mib", self.parent_mib)
            .with("huge_pages", if self.huge_pages { "yes" } else { "no" })
            .with("cpus", cpus)
    }

    /// Reads parameters, which `--set` may have changed.
    ///
    /// # Errors
    ///
    /// Says which parameter cannot be, and what can.
    pub fn read(params: &Params) -> Result<Self, CaseError> {
        let wrong = |says: String| CaseError::Failed(says);
        let number = |name: &str| {
            params
                .int(name)
                .ok_or_else(|| wrong(format!("create needs a whole number {name}, e.g. {name}=1")))
        };
        let method = params.text("method").unwrap_or_default();
        let way = Way::named(method).ok_or_else(|| {
            let names = Way::ALL.map(Way::name).join(", ");
            wrong(format!("there is no method {method:?}; there are {names}"))
        })?;
        if params.text("unit") != Some(way.unit()) {
            return Err(wrong(format!(
                "method={method} makes a {0}: set unit={0}",
                way.unit()
            )));
        }
        let huge_pages = match params.text("huge_pages") {
            Some("yes") => true,
            Some("no") => false,
            _ => return Err(wrong("huge_pages is yes or no".to_owned())),
        };
        let case = Self {
            way,
            count: number("count")?,
            alive: number("alive")?,
            busy: number("busy")?,
            parent_mib: number("parent_mib")?,
            huge_pages,
        };
        if case.alive == 0 || case.count < case.alive {
            return Err(wrong(format!(
                "alive={} cannot be reached with count={}: alive is at least 1 and at most count",
                case.alive, case.count
            )));
        }
        if case.count > u64::from(u32::MAX) {
            return Err(wrong(format!("count={} is beyond 2^32", case.count)));
        }
        if case.alive > 1 && !way.can_hold() {
            return Err(wrong(format!(
                "units made by {method} cannot be kept alive while more are made: set alive=1"
            )));
        }
        Ok(case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_reads_back_from_its_parameters() {
        for way in Way::ALL {
            let case = Case {
                alive: if way.can_hold() { 64 } else { 1 },
                busy: 16,
                parent_mib: 100,
                huge_pages: true,
                ..Case::base(way, 200)
            };
            assert_eq!(Case::read(&case.params(2)).unwrap(), case);
        }
    }

    #[test]
    fn the_id_has_the_parameters_in_their_order() {
        assert_eq!(
            Case::base(Way::Pthread, 200).params(1).case_id("create"),
            "create/unit=thread,method=pthread,count=200,alive=1,busy=0,parent_mib=0,huge_pages=no,cpus=1"
        );
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let good = Case::base(Way::Vfork, 200).params(1);
        for (params, says) in [
            (
                good.clone().with("method", "spork"),
                "there is no method \"spork\"",
            ),
            (good.clone().with("unit", "thread"), "set unit=process"),
            (good.clone().with("alive", 64), "set alive=1"),
            (good.clone().with("alive", 0), "at least 1"),
            (good.clone().with("count", 0), "cannot be reached"),
            (good.clone().with("count", "many"), "whole number count"),
            (good.with("huge_pages", "maybe"), "yes or no"),
        ] {
            let error = Case::read(&params).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
