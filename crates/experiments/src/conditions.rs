//! The sizes that source 004 varied besides its benchmarks, as its experiments plan them. The states of a machine that
//! it varied, too, are in `claims.csv`, in the column `waits_for`.

use threadgauge_lab::prelude::*;

/// The middle one of the source's sizes.
pub const SOURCES_CPUS: u64 = 4;

/// The source's sizes between one CPU and all: four, and one CPU of each core where cores have two. From standard on.
pub fn sizes_between(site: &Site) -> Vec<u64> {
    if site.profile == Profile::Quick {
        return Vec::new();
    }
    let (all, cores) = (site.cpus.len() as u64, site.cores as u64);
    let mut sizes = vec![SOURCES_CPUS, cores];
    sizes.retain(|&cpus| 1 < cpus && cpus <= cores && cpus < all);
    sizes.dedup();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadgauge_lab::testing::{site, site_with_smt};

    #[test]
    fn the_sizes_between_one_cpu_and_all_are_four_and_one_of_each_core() {
        let on = |cpus| sizes_between(&site(Profile::Standard, cpus));
        let with_smt = |cpus| sizes_between(&site_with_smt(Profile::Paper, cpus));
        let none: [u64; 0] = [];
        assert_eq!([1, 2, 4].map(on), [none, none, none]);
        assert_eq!([5, 16].map(on), [[4], [4]]);
        assert_eq!(with_smt(2), none);
        // One CPU of each of two cores; of four CPUs two are the second of a core.
        assert_eq!([4, 6].map(with_smt), [[2], [3]]);
        assert_eq!(with_smt(8), [4]);
        assert_eq!(with_smt(16), [4, 8]);
        assert_eq!(sizes_between(&site_with_smt(Profile::Quick, 16)), none);
    }
}
