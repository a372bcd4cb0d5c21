//! SVG charts, for README: ratios of throughput and CPU, and a sustained load second by second.

use super::Report;

/// Name and text of each chart.
#[must_use]
pub fn charts(_report: &Report) -> Vec<(String, String)> {
    Vec::new()
}
