//! What of the grid a profile has, and what a sample takes.

use threadgauge_lab::prelude::*;

use super::case::{BLOCKS_KIB, By, CACHED_READS, CLAIMED, Case, ONE, ReadFrom};
use super::file::look;

impl Case {
    fn planned(self) -> PlannedCase {
        PlannedCase {
            check: |params| {
                let case = Self::possible(params)?;
                // What the profile has may lack its folder as anything else; what somebody has named is looked at
                // first.
                match (case.folder, case.file_mib) == (ONE.folder, ONE.file_mib) {
                    true => Ok(()),
                    false => look(case).map_err(CaseError::Failed),
                }
            },
            takes: Some(|params| Some(Self::read(params).ok()?.estimate())),
            ..PlannedCase::new(self, self.estimate())
        }
    }

    /// On a virtual machine with an SSD.
    fn estimate(self) -> Duration {
        let writing_us = 2_000 * self.file_mib;
        let read_us = match self.from {
            ReadFrom::Device => 120 * self.block_kib.div_ceil(64) / self.k.min(4),
            ReadFrom::Cache => 1 + self.block_kib / 8,
        };
        Duration::from_micros(15_000 + writing_us + 60 * self.k + read_us.max(1) * self.reads)
    }
}

/// Every way to read, with each of these depths.
fn ways(case: Case, depths: &[u64]) -> impl Iterator<Item = Case> {
    By::ALL
        .into_iter()
        .flat_map(move |by| depths.iter().map(move |&k| case.by(by).k(k)))
}

pub(super) fn plan(site: &Site) -> Plan {
    let all = (site.cpus.len() as u64).max(2);
    let cached = ONE.from(ReadFrom::Cache).reads(CACHED_READS);
    let large = ONE.block_kib(BLOCKS_KIB[1]).cpus(all);
    let cases: Vec<Case> = match site.profile {
        Profile::Quick => {
            let claimed = CLAIMED.map(|k| [ONE.k(k), ONE.by(By::IoUring).k(k)]);
            [ONE].into_iter().chain(claimed.into_iter().flatten()).collect()
        }
        Profile::Standard => {
            let kinds = [ONE, ONE.cpus(all), cached.cpus(all)];
            kinds
                .into_iter()
                .flat_map(|case| ways(case, &[1, 4, 16]))
                .collect()
        }
        Profile::Paper => {
            let kinds = [ONE, ONE.cpus(all), large, cached, cached.cpus(all)];
            let depths = &[1, 2, 4, 8, 16, 32, 64, 128];
            kinds.into_iter().flat_map(|case| ways(case, depths)).collect()
        }
    };
    Plan {
        cases: cases.into_iter().map(Case::planned).collect(),
        reference: ONE.params(),
        budget: Duration::from_secs(site.profile.pick(12, 60, 1200)),
    }
}
