//! One raw value, as the store keeps it.
//!
//! Owns the shape in which the caller hands raw samples over; it borrows, because there are many.

use threadgauge_results::{Params, Status};

/// One metric of one try of a sample: a row of `samples.csv`, and a line of the page's raw data.
///
/// A try with two metrics is two rows. One that failed is one row with an empty
/// `metric` and no `value`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleRow<'a> {
    /// The catalogue's name for the experiment.
    pub experiment: &'a str,
    /// The id of the case.
    pub case: &'a str,
    /// Its point in the grid.
    pub params: &'a Params,
    /// Which pass over all cases, from 1 as the store counts.
    pub round: u32,
    /// 0, or 1 for the second copy of the reference case (A′).
    pub copy: u32,
    /// Which of the sample's tries, counted from 0.
    pub nth_try: u32,
    /// 0, or counted up where the try was disturbed and repeated.
    pub attempt: u32,
    /// Whether it has a figure.
    pub status: Status,
    /// Why not, in words.
    pub reason: Option<&'a str>,
    /// `cold`, `noisy`, `low-overlap`, ….
    pub tags: &'a [String],
    /// What was measured.
    pub metric: &'a str,
    /// Of `value`.
    pub unit: &'a str,
    /// The figure.
    pub value: Option<f64>,
}
