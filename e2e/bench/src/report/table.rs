//! The table of ratios, and the one that says who was the bottleneck.

use std::fmt::Write;

use super::{Machine, Report};
use crate::case::{Metric, Sample};
use crate::cores::Cores;
use crate::load::Outcome;
use crate::rounds::{CaseResult, DISTURBED, Round, Row, median};

/// From this share of its cores on, a load generator may be what limits a closed loop.
const GENERATOR_BUSY: f64 = 0.95;

/// Everything, as text.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut text = header(&report.machine);
    for case in &report.cases {
        text += &case_rows(case);
    }
    text += &bottlenecks(&report.cases);
    text += &verdict(&report.cases);
    text
}

fn header(machine: &Machine) -> String {
    let cores = Cores {
        server: machine.server_cores.clone(),
        generator: machine.generator_cores.clone(),
    };
    format!(
        "\n{}, Linux {}, {} and {}\n{cores}; {} seconds a load, {} rounds in turns, medians\n\n{:<27} {:>12} {:>12} {:>8} {:>9}\n",
        machine.cpu,
        machine.kernel,
        machine.memcached,
        machine.node,
        machine.seconds,
        machine.rounds,
        "",
        "baseline",
        "node",
        "ratio",
        "must be",
    )
}

fn case_rows(case: &CaseResult) -> String {
    let mut text = format!("\n{} ({})", case.title, case.name);
    if let Some(baseline) = case.baseline.as_deref().filter(|name| *name != "memcached") {
        let _ = write!(text, ": {} against {baseline}", case.node);
    }
    text.push('\n');
    for row in &case.rows {
        text += &row_line(row);
    }
    for note in notes(case) {
        let _ = writeln!(text, "  ({note})");
    }
    if let Some(failure) = &case.failure {
        let _ = writeln!(text, "  FAILED: {failure}");
    }
    text
}

fn disturbance(case: &CaseResult) -> f64 {
    case.rounds
        .iter()
        .map(Round::disturbance)
        .fold(0.0, f64::max)
}

/// What samples say beside their figures, each once.
fn notes(case: &CaseResult) -> Vec<String> {
    let mut notes = Vec::new();
    let others = disturbance(case);
    if others > DISTURBED {
        notes.push(format!(
            "disturbed: other processes used up to {others:.2} cores"
        ));
    }
    for round in &case.rounds {
        for sample in round.baseline.iter().chain([&round.node]) {
            for note in &sample.notes {
                let note = format!("{}: {note}", sample.server);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

fn row_line(row: &Row) -> String {
    let verdict = match row.reached {
        Some(true) => "  reached",
        Some(false) => "  MISSED",
        None => "",
    };
    format!(
        "  {:<25} {:>12} {:>12} {:>8} {:>9}{verdict}\n",
        row.metric.to_string(),
        figure(row.metric, row.baseline),
        figure(row.metric, row.node),
        row.ratio
            .map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        row.must,
    )
}

/// A figure with as many digits as mean something.
#[must_use]
pub fn figure(metric: Metric, figure: Option<f64>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    match metric {
        Metric::Throughput => format!("{figure:.0}"),
        Metric::HitRatio => format!("{figure:.4}"),
        Metric::CpuUs | Metric::WorstSecond | Metric::WriteAmplification => format!("{figure:.2}"),
        _ => format!("{figure:.1}"),
    }
}

/// Where the generator has time to spare and the server has not, the figures are the server's.
fn bottlenecks(cases: &[CaseResult]) -> String {
    let mut text = format!(
        "\nCores used in the closed loop (1.00 is one core)\n{:<27} {:>12} {:>12} {:>12} {:>12} {:>8}\n",
        "", "baseline", "generator", "node", "generator", "others"
    );
    for case in cases {
        let node = |of: fn(&Outcome) -> Option<f64>| {
            median(
                case.rounds
                    .iter()
                    .filter_map(|round| of(closed(&round.node)?)),
            )
        };
        let baseline = |of: fn(&Outcome) -> Option<f64>| {
            let outcome = |sample: &Option<Sample>| of(closed(sample.as_ref()?)?);
            median(
                case.rounds
                    .iter()
                    .filter_map(|round| outcome(&round.baseline)),
            )
        };
        if node(generator).is_none() {
            continue;
        }
        let busiest = [node(generator), baseline(generator)]
            .into_iter()
            .flatten()
            .fold(0.0, f64::max);
        let others = disturbance(case);
        let _ = writeln!(
            text,
            "  {:<25} {:>12} {:>12} {:>12} {:>12} {others:>8.2}{}",
            case.name,
            cores(baseline(Outcome::server_utilisation)),
            cores(baseline(generator)),
            cores(node(Outcome::server_utilisation)),
            cores(node(generator)),
            if busiest > GENERATOR_BUSY {
                "  the generator is the limit"
            } else {
                ""
            },
        );
    }
    text
}

fn closed(sample: &Sample) -> Option<&Outcome> {
    sample.loads.get("closed")
}

fn generator(outcome: &Outcome) -> Option<f64> {
    Some(outcome.generator_utilisation)
}

fn cores(cores: Option<f64>) -> String {
    cores.map_or("-".to_owned(), |cores| format!("{cores:.2}"))
}

fn verdict(cases: &[CaseResult]) -> String {
    let verdicts = || {
        cases
            .iter()
            .flat_map(|case| &case.rows)
            .filter_map(|row| row.reached)
    };
    let reached = verdicts().filter(|reached| *reached).count();
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let mut text = format!("\n{reached} of {} bounds reached", verdicts().count());
    if failed > 0 {
        let _ = write!(text, ", {failed} cases failed");
    }
    text.push('\n');
    text
}
