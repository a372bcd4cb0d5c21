//! Runs one case: baseline and node in turns, so that whatever changes on the machine meets both.
//!
//! Owns order, repetition and medians. Ratios are made round by round, and the median of them counts.

use std::time::Instant;

use serde::Serialize;

use crate::case::{Case, Experiment, Metric, Sample};
use crate::lab::{Contender, Lab};
use crate::report::table;

/// A round in which other processes took more than this of a core is repeated, as often as there are rounds.
pub const DISTURBED: f64 = 0.1;

/// What came of a case.
#[derive(Debug, Serialize)]
pub struct CaseResult {
    pub name: &'static str,
    pub title: &'static str,
    pub baseline: Option<String>,
    pub node: String,
    /// Whether the figures depend on what else the machine does.
    pub timed: bool,
    /// Requests a second of the loads with a fixed rate.
    pub fixed_rate: Option<f64>,
    pub rows: Vec<Row>,
    pub rounds: Vec<Round>,
    /// Why there are no figures, or not all.
    pub failure: Option<String>,
}

/// One sample of each.
#[derive(Debug, Serialize)]
pub struct Round {
    pub baseline: Option<Sample>,
    pub node: Sample,
}

/// One figure with what it must be.
#[derive(Debug, Serialize)]
pub struct Row {
    pub metric: Metric,
    /// Medians of all rounds.
    pub baseline: Option<f64>,
    pub node: Option<f64>,
    /// The median of the rounds' ratios, node to baseline; without a baseline there is none.
    pub ratio: Option<f64>,
    pub must: String,
    /// Whether it is what it must be; none where it is not known or only stated.
    pub reached: Option<bool>,
}

/// Runs `case` for at most `rounds` rounds and tells what happens to `progress`.
pub fn run(lab: &Lab, case: &Case, rounds: usize, progress: &dyn Fn(&str)) -> CaseResult {
    let mut result = CaseResult {
        name: case.name,
        title: case.title,
        baseline: case.baseline.map(|baseline| baseline.to_string()),
        node: case.node.to_string(),
        timed: case.experiment.is_timed(),
        fixed_rate: None,
        rows: Vec::new(),
        rounds: Vec::new(),
        failure: None,
    };
    if let Err(failure) = collect(lab, case, rounds, progress, &mut result) {
        result.failure = Some(format!("{failure:#}"));
    }
    result.rows = rows(case, &result.rounds);
    result
}

fn collect(
    lab: &Lab,
    case: &Case,
    rounds: usize,
    progress: &dyn Fn(&str),
    result: &mut CaseResult,
) -> anyhow::Result<()> {
    let rounds = rounds.min(case.max_rounds).max(1);
    result.fixed_rate = fixed_rate(lab, case)?;
    let mut repeats = if case.experiment.is_timed() {
        rounds
    } else {
        0
    };
    for number in 0..2 * rounds {
        let round = round(lab, case, number, result.fixed_rate, progress)?;
        if round.disturbance() > DISTURBED && repeats > 0 {
            repeats -= 1;
            progress("  other processes were busy: once more");
            continue;
        }
        result.rounds.push(round);
        if result.rounds.len() == rounds {
            break;
        }
    }
    Ok(())
}

fn fixed_rate(lab: &Lab, case: &Case) -> anyhow::Result<Option<f64>> {
    match (case.experiment, case.baseline) {
        (Experiment::Speed(speed), Some(baseline)) if speed.steady => {
            speed.steady_rate(lab, baseline).map(Some)
        }
        _ => Ok(None),
    }
}

/// A sample of each; who is first alternates.
fn round(
    lab: &Lab,
    case: &Case,
    number: usize,
    rate: Option<f64>,
    progress: &dyn Fn(&str),
) -> anyhow::Result<Round> {
    let sample = |contender: Contender| {
        let start = Instant::now();
        let sample = case.experiment.sample(lab, contender, rate)?;
        progress(&line(&sample, start.elapsed().as_secs_f64()));
        anyhow::Ok(sample)
    };
    let Some(baseline) = case.baseline else {
        return Ok(Round {
            baseline: None,
            node: sample(case.node)?,
        });
    };
    if number.is_multiple_of(2) {
        let baseline = Some(sample(baseline)?);
        return Ok(Round {
            baseline,
            node: sample(case.node)?,
        });
    }
    let node = sample(case.node)?;
    Ok(Round {
        baseline: Some(sample(baseline)?),
        node,
    })
}

impl Round {
    /// The most that other processes took of the machine.
    #[must_use]
    pub fn disturbance(&self) -> f64 {
        let baseline = self.baseline.as_ref().map_or(0.0, Sample::disturbance);
        baseline.max(self.node.disturbance())
    }
}

fn line(sample: &Sample, seconds: f64) -> String {
    let figures: Vec<String> = sample
        .figures
        .iter()
        .map(|(metric, figure)| format!("{metric} {}", table::figure(*metric, Some(*figure))))
        .collect();
    let notes = sample.notes.iter().cloned();
    let all: Vec<String> = figures.into_iter().chain(notes).collect();
    format!(
        "  {:<14} {seconds:>4.0} s  {}",
        sample.server,
        all.join("; ")
    )
}

fn rows(case: &Case, rounds: &[Round]) -> Vec<Row> {
    let figure = |sample: &Sample, metric| sample.figures.get(&metric).copied();
    case.must
        .iter()
        .map(|must| {
            let metric = must.0;
            let baseline = |round: &Round| figure(round.baseline.as_ref()?, metric);
            let ratio = |round: &Round| Some(figure(&round.node, metric)? / baseline(round)?);
            let ratio = median(rounds.iter().filter_map(ratio));
            let node = median(
                rounds
                    .iter()
                    .filter_map(|round| figure(&round.node, metric)),
            );
            let judged = if case.baseline.is_some() { ratio } else { node };
            let stated = matches!(must.1, crate::case::Bound::Stated);
            Row {
                metric,
                baseline: median(rounds.iter().filter_map(baseline)),
                node,
                ratio,
                must: must.1.to_string(),
                reached: judged
                    .filter(|_| !stated)
                    .map(|judged| must.1.holds(judged)),
            }
        })
        .collect()
}

/// The middle one, or the mean of the middle two.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.filter(|figure| figure.is_finite()).collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        length if length.is_multiple_of(2) => {
            Some(f64::midpoint(figures[middle - 1], figures[middle]))
        }
        _ => Some(figures[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::table::CASES;

    fn sample(throughput: f64) -> Sample {
        Sample {
            figures: [(Metric::Throughput, throughput)].into(),
            ..Sample::default()
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_ratios() {
        let rounds: Vec<Round> = [(100.0, 110.0), (200.0, 240.0), (50.0, 20.0)]
            .into_iter()
            .map(|(baseline, node)| Round {
                baseline: Some(sample(baseline)),
                node: sample(node),
            })
            .collect();
        let row = &rows(&CASES[0], &rounds)[0];
        assert_eq!(row.ratio, Some(1.1));
        assert_eq!((row.baseline, row.node), (Some(100.0), Some(110.0)));
        assert_eq!(row.reached, Some(true));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let row = &rows(&CASES[0], &[])[0];
        assert_eq!((row.ratio, row.reached), (None, None));
    }

    #[test]
    fn a_median_of_two_is_their_middle() {
        assert_eq!(median([1.0, 2.0].into_iter()), Some(1.5));
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }
}
