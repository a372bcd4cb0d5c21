//! As much SVG as two kinds of charts need.

use std::fmt::Write;

pub(super) const NODE: &str = "#0b7a75";
pub(super) const OTHER: &str = "#9aa5b1";
pub(super) const MISSED: &str = "#d1495b";
const INK: &str = "#1f2933";
const FAINT: &str = "#d9dfe5";

/// A drawing of fixed size on a white ground, so that it reads on dark pages as well.
pub(super) struct Drawing {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text has its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            body: String::new(),
            width,
            height,
        }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = writeln!(
            self.body,
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" text-anchor="{anchor}" fill="{INK}">{text}</text>"#
        );
    }

    pub(super) fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        let width = width.max(0.0);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="2" fill="{fill}"/>"#
        );
    }

    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), strong: bool) {
        let (stroke, width) = if strong { (INK, 1.5) } else { (FAINT, 1.0) };
        let _ = writeln!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{stroke}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], stroke: &str) {
        let points: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{stroke}" stroke-width="2" stroke-linejoin="round"/>"#,
            points.join(" ")
        );
    }

    pub(super) fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
