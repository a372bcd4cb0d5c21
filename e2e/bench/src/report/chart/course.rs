//! A sustained load, second by second, with the rate that was asked for.

use super::svg::{Anchor, Drawing, NODE};
use crate::rounds::CaseResult;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 40.0;
const LINES: u32 = 4;

/// None for a case without such a load.
pub(super) fn draw(case: &CaseResult) -> Option<String> {
    let load = case.rounds.last()?.node.loads.get("sustained")?;
    let seconds = &load.summary.seconds;
    let seconds = &seconds[..seconds.len().saturating_sub(1)];
    let most = seconds.iter().map(|second| second.requests).max()? as f64 * 1.1;
    let x = |second: usize| {
        LEFT + second as f64 / (seconds.len() as f64 - 1.0).max(1.0) * (WIDTH - LEFT - RIGHT)
    };
    let y = |requests: f64| TOP + (1.0 - requests / most) * (HEIGHT - TOP - BOTTOM);
    let mut drawing = Drawing::new(WIDTH, HEIGHT);
    let title = format!("{}: requests in each second", case.title);
    drawing.text(16.0, 28.0, 16.0, Anchor::Start, &title);
    for line in 0..=LINES {
        let requests = most * f64::from(line) / f64::from(LINES);
        drawing.rule((LEFT, y(requests)), (WIDTH - RIGHT, y(requests)), line == 0);
        let text = format!("{requests:.0}");
        drawing.text(LEFT - 8.0, y(requests) + 4.0, 11.0, Anchor::End, &text);
    }
    let points: Vec<(f64, f64)> = seconds
        .iter()
        .enumerate()
        .map(|(second, counted)| (x(second), y(counted.requests as f64)))
        .collect();
    drawing.path(&points, NODE);
    let caption = format!("{} seconds", seconds.len());
    drawing.text(WIDTH / 2.0, HEIGHT - 14.0, 11.0, Anchor::Middle, &caption);
    Some(drawing.finish())
}
