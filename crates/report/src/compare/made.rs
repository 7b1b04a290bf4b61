//! Comparisons made up for the tests of their forms.

use threadgauge_results::{Compared, ComparisonResult};

/// Of these rows, and nothing else to say.
pub fn compared(rows: Vec<ComparisonResult>) -> Compared {
    Compared {
        a_name: "a".to_owned(),
        b_name: "b".to_owned(),
        warnings: Vec::new(),
        paired: true,
        level: None,
        between: None,
        lost: Vec::new(),
        rows,
    }
}

/// A case with a verdict, a fifth slower than it was.
pub fn row(case: &str, verdict: &str) -> ComparisonResult {
    ComparisonResult {
        a: case.to_owned(),
        b: case.to_owned(),
        metric: "elapsed_ns".to_owned(),
        ratio: Some(1.2),
        ci95: Some([1.1, 1.3]),
        verdict: verdict.to_owned(),
        rounds_needed: None,
        reason: None,
        disturbed: false,
    }
}
