//! SVG charts, for README: ratios, hits, and a sustained load second by second.
//!
//! Owns which figures are drawn. A chart without figures is not drawn.

mod bars;
mod course;
mod svg;

use bars::Bar;

use super::Report;
use super::table::figure;
use crate::case::Metric;
use crate::rounds::{CaseResult, Row};

/// Name and text of each chart.
#[must_use]
pub fn charts(report: &Report) -> Vec<(String, String)> {
    let cases = &report.cases;
    let ratio = |metric, title| {
        let bars = cases
            .iter()
            .filter_map(|case| ratio_bar(case, metric))
            .collect();
        bars::draw(title, bars, Some(1.0))
    };
    [
        (
            "throughput.svg",
            ratio(
                Metric::Throughput,
                "Throughput: node / baseline (more is better)",
            ),
        ),
        (
            "cpu.svg",
            ratio(
                Metric::CpuUs,
                "Server CPU for each request: node / baseline (less is better)",
            ),
        ),
        (
            "tail.svg",
            ratio(
                Metric::SteadyP999Us,
                "p99.9 at the same fixed rate: node / baseline (less is better)",
            ),
        ),
        (
            "hits.svg",
            bars::draw(
                "Hit ratio with the same bytes",
                cases
                    .iter()
                    .filter(|case| case.name.starts_with("hits"))
                    .flat_map(hit_bars)
                    .collect(),
                None,
            ),
        ),
        ("sustained.svg", cases.iter().find_map(course::draw)),
    ]
    .into_iter()
    .filter_map(|(name, chart)| Some((name.to_owned(), chart?)))
    .collect()
}

fn row(case: &CaseResult, metric: Metric) -> Option<&Row> {
    case.rows.iter().find(|row| row.metric == metric)
}

fn ratio_bar(case: &CaseResult, metric: Metric) -> Option<Bar> {
    let row = row(case, metric)?;
    let ratio = row.ratio?;
    let figures = format!(
        "{} / {}",
        figure(metric, row.node),
        figure(metric, row.baseline)
    );
    Some(Bar {
        label: case.title.to_owned(),
        value: ratio,
        text: format!("{ratio:.2}  ({figures})"),
        colour: if row.reached == Some(false) {
            svg::MISSED
        } else {
            svg::NODE
        },
    })
}

fn hit_bars(case: &CaseResult) -> Vec<Bar> {
    let Some(row) = row(case, Metric::HitRatio) else {
        return Vec::new();
    };
    let bar = |name: &str, value: Option<f64>, colour| {
        Some(Bar {
            label: format!("{}, {name}", case.title),
            value: value?,
            text: figure(Metric::HitRatio, value),
            colour,
        })
    };
    let baseline = case.baseline.as_deref().unwrap_or_default();
    [
        bar(baseline, row.baseline, svg::OTHER),
        bar(&case.node, row.node, svg::NODE),
    ]
    .into_iter()
    .flatten()
    .collect()
}
