//! What source 003 measured at a point of its tables.

use threadgauge_results::published::{PrintRun, PublishedMean, means, print_runs};
use threadgauge_stats::summarise;

use super::grid::Point;
use super::setting::Unit;

/// The source's runs at a point, s, in its order.
pub(super) fn runs(unit: Unit, point: &Point) -> Vec<f64> {
    let here = |run: &&PrintRun| {
        run.experiment == point.series.published()
            && run.kind == unit.name()
            && (run.units, run.prints_per_unit) == (point.units, point.prints)
            && (run.payload_bytes, run.cores) == (point.payload_bytes, point.cpus)
    };
    print_runs()
        .iter()
        .filter(here)
        .map(|run| run.elapsed_s)
        .collect()
}

/// The mean of its runs without the largest and the smallest, s, as the source takes it.
pub(super) fn seconds(unit: Unit, point: &Point) -> Option<f64> {
    summarise(&runs(unit, point), 0.05).ok()?.trimmed_mean
}

/// The mean it prints.
pub(super) fn mean(unit: Unit, point: &Point) -> Option<&'static PublishedMean> {
    means().iter().find(|mean| {
        mean.experiment == point.series.published()
            && mean.kind == unit.name()
            && mean.units == point.units
            && mean.prints_per_unit == Some(point.prints)
    })
}

/// The times, process first, where the source has both.
pub(super) fn pair(point: &Point) -> Option<[f64; 2]> {
    Some([seconds(Unit::Process, point)?, seconds(Unit::Thread, point)?])
}

#[cfg(test)]
mod tests {
    use super::super::grid::Series;
    use super::*;

    #[test]
    fn every_point_of_the_series_was_published() {
        for series in Series::ALL {
            for point in series.points() {
                for unit in Unit::ALL {
                    assert_eq!(runs(*unit, &point).len(), 5, "{point:?}");
                    let mean = mean(*unit, &point).unwrap();
                    let trimmed = seconds(*unit, &point).unwrap();
                    assert!(
                        (mean.recomputed_trimmed_mean_s.unwrap() - trimmed).abs() < 1e-3,
                        "{point:?}"
                    );
                }
            }
        }
    }
}
