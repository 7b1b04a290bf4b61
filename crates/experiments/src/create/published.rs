//! What source 003 published of creation, and the means that follow from its runs.

use threadgauge_results::published::create_runs;

/// Source 003's figures for 100,000 units on one core.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Each run with processes, s.
    pub process_runs_s: Vec<f64>,
    /// Each run with threads, s.
    pub thread_runs_s: Vec<f64>,
    /// Java's single run, s.
    pub java_s: Option<f64>,
    /// Trimmed mean with processes, s.
    pub process_s: f64,
    /// Trimmed mean with threads, s.
    pub thread_s: f64,
    /// How many units a run made.
    pub units: f64,
}

impl Published {
    /// From the shipped runs; means are computed, not copied.
    pub fn source_003() -> Self {
        let runs = |language: &str, kind: &str| -> Vec<f64> {
            create_runs()
                .iter()
                .filter(|r| r.language == language && r.kind == kind)
                .map(|r| r.elapsed_s)
                .collect()
        };
        let (process_runs_s, thread_runs_s) = (runs("c", "process"), runs("c", "thread"));
        Self {
            process_s: trimmed_mean(&process_runs_s),
            thread_s: trimmed_mean(&thread_runs_s),
            process_runs_s,
            thread_runs_s,
            java_s: runs("java", "thread").first().copied(),
            units: create_runs().first().map_or(1.0, |r| r.units as f64),
        }
    }
}

/// Without the largest and the smallest, as the source does.
pub fn trimmed_mean(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let kept = sorted.get(1..sorted.len().saturating_sub(1)).unwrap_or_default();
    kept.iter().sum::<f64>() / kept.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_means_follow_from_the_runs() {
        let published = Published::source_003();
        assert_eq!(
            (published.process_runs_s.len(), published.thread_runs_s.len()),
            (5, 5)
        );
        assert_eq!(published.units, 100_000.0);
        assert!((published.process_s - 8.684).abs() < 5e-4, "printed as 8.684 s");
        assert!((published.thread_s - 0.661).abs() < 5e-4, "printed as 0.661 s");
        assert_eq!(published.java_s, Some(12.286));
    }
}
