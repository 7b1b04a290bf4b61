//! `run gate`: cases that a gate in continuous integration can tell apart, and how often each is measured.
//!
//! Most cases of this program vary by ten per cent from round to round on a virtual machine, so that a comparison of
//! two runs knows nothing of them. These vary by less, and are one or more for each thing that a kernel, a C library or
//! a compiler flag makes dearer: making a unit, switching by a pipe, handing over, a lock, memory, computing. How they
//! were chosen, and of how many nothing is known, is in `docs/ci.md`.

use threadgauge_lab::prelude::Profile;

/// What `run` is given in place of experiments.
pub const NAME: &str = "gate";
/// The rounds of a run, unless the user says otherwise.
pub const ROUNDS: u32 = 32;
/// Whose plans have the cases.
pub const PROFILE: Profile = Profile::Standard;

/// On one CPU, which every machine has.
pub const CASES: [&str; 13] = [
    "create/unit=process,method=vfork,program=c,count=1200,alive=1,busy=0,parent_mib=0,huge_pages=no,cpus=1",
    "create/unit=thread,method=pthread,program=c,count=1200,alive=1,busy=0,parent_mib=100,huge_pages=no,cpus=1",
    "ring/unit=thread,means=pipe,ring=2,kib=0,hop=to-other,placement=same,cpus=1",
    "ring/unit=thread,means=pipe,ring=4,kib=0,hop=to-itself,placement=same,cpus=1",
    "ring/unit=process,means=pipe,ring=8,kib=0,hop=to-other,placement=same,cpus=1",
    "ring/unit=process,means=pipe,ring=16,kib=0,hop=to-other,placement=same,cpus=1",
    "ring/unit=coroutine,means=jump,ring=32,kib=0,hop=to-other,placement=same,cpus=1",
    "handover/unit=thread,means=pipe,bytes=4096,burst=1,placement=same,cpus=1",
    "contention/task=rate,unit=thread,by=mutex,units=2,steps=1000,inside_percent=0,reads_percent=0,cpus=1",
    "compute/unit=thread,work=integer,units=2,ksteps=40000,placement=same,cpus=1",
    "compute/unit=process,work=integer,units=2,ksteps=40000,placement=same,cpus=1",
    "footprint/unit=process,stack_kib=8192,count=100,cpus=1",
    "footprint/unit=thread,stack_kib=8192,count=100,cpus=1",
];

#[cfg(test)]
mod tests {
    use threadgauge_lab::selection::{Selector, choose_cases, experiments, parts_of_id};
    use threadgauge_lab::testing;

    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn every_machine_has_all_cases() {
        for cpus in [1, 2, 4, 96] {
            let names = CASES.iter().filter_map(|id| parts_of_id(id).0.map(str::to_owned));
            let named = experiments(CATALOGUE, &names.collect::<Vec<_>>()).unwrap();
            let site = testing::site(PROFILE, cpus);
            let ids = CASES.map(str::to_owned);
            let chosen = choose_cases(&named, &site, &ids, &Selector::default()).unwrap();
            let able: usize = chosen.iter().map(|chosen| chosen.measured().count()).sum();
            assert!(able >= CASES.len(), "{cpus}: {able}");
        }
    }
}
