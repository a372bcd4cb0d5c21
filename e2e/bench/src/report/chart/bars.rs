//! Horizontal bars, one below the other.

use super::svg::{Anchor, Drawing};

const WIDTH: f64 = 960.0;
const LABELS: f64 = 400.0;
/// Room for the text behind the longest bar.
const TEXT: f64 = 170.0;
const TOP: f64 = 48.0;
const ROW: f64 = 24.0;
/// A ratio beyond this is drawn no longer: the others would be too short to read. Its text says what it is.
const LONGEST: f64 = 4.0;

pub(super) struct Bar {
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) text: String,
    pub(super) colour: &'static str,
}

/// None without bars. A line marks `at`.
pub(super) fn draw(title: &str, bars: Vec<Bar>, at: Option<f64>) -> Option<String> {
    let longest = bars
        .iter()
        .map(|bar| bar.value.min(LONGEST))
        .reduce(f64::max)?;
    let scale = (WIDTH - LABELS - TEXT) / longest.max(at.unwrap_or(0.0));
    let bottom = TOP + ROW * bars.len() as f64;
    let mut drawing = Drawing::new(WIDTH, bottom + 20.0);
    drawing.text(16.0, 28.0, 16.0, Anchor::Start, title);
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let length = bar.value.min(LONGEST) * scale;
        drawing.text(LABELS - 10.0, y + 16.0, 12.0, Anchor::End, &bar.label);
        drawing.bar(LABELS, y + 4.0, length, ROW - 8.0, bar.colour);
        let behind = LABELS + length.max(at.unwrap_or(0.0) * scale) + 6.0;
        drawing.text(behind, y + 16.0, 12.0, Anchor::Start, &bar.text);
    }
    if let Some(at) = at {
        let x = LABELS + at * scale;
        drawing.rule((x, TOP), (x, bottom), true);
    }
    Some(drawing.finish())
}
