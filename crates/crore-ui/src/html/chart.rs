//! Line charts, drawn on the server. A script shows the values under the pointer.

use crore_core::{Span, Time};
use crore_wire::units::Moment;
use maud::{Markup, html};

use super::format::{grouped, significant, span};
use crate::range::TimeAxis;
use crate::text::Texts;

/// Size of the drawing; it is stretched to the width of the page.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// A line of a chart: one value per bucket of the axis, and gaps.
#[derive(Debug)]
pub(crate) struct ChartLine<'a> {
    /// Its name.
    pub(crate) label: &'a str,
    /// Its colour: the suffix of a class `l-…`.
    pub(crate) color: &'a str,
    /// Its values.
    pub(crate) values: Vec<Option<f64>>,
}

/// The unit of the values of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChartUnit {
    /// A number per minute.
    Rate,
    /// Milliseconds.
    Millis,
}

impl ChartUnit {
    const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Millis => "ms",
        }
    }

    fn show(self, text: &Texts, value: f64) -> String {
        match self {
            Self::Rate if value >= 10_000.0 => format!("{}k", significant(value / 1000.0)),
            Self::Rate if value >= 1000.0 => grouped(value.round() as u64),
            Self::Rate => significant(value),
            Self::Millis => span(text, Span::from_millis(value.round() as u64)),
        }
    }

    /// The smallest plain number that is not below the largest value.
    fn ceiling(self, max: f64) -> f64 {
        const TIMES: [f64; 20] = [
            10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3,
            600e3, 1.8e6, 3.6e6, 21.6e6, 86.4e6, 864e6,
        ];
        match self {
            Self::Millis => TIMES.into_iter().find(|one| *one >= max).unwrap_or(max),
            Self::Rate if max <= 4.0 => 4.0,
            Self::Rate => {
                let unit = 10_f64.powf(max.log10().floor());
                let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
                steps.into_iter().map(|step| step * unit).find(|one| *one >= max).unwrap_or(max)
            }
        }
    }
}

/// A thin vertical line at the time of something that may explain the values.
#[derive(Debug)]
pub(crate) struct ChartMark {
    /// When it happened.
    pub(crate) at: Time,
    /// Its style: the suffix of a class `m-…`.
    pub(crate) style: &'static str,
    /// The event in words.
    pub(crate) title: String,
}

impl ChartMark {
    /// Its horizontal position on an axis.
    fn x(&self, axis: &TimeAxis) -> f64 {
        let length = axis.bucket.as_millis() * (axis.buckets as u64).saturating_sub(1).max(1);
        let after = self.at.since(axis.from).as_millis().min(length);
        after as f64 / length.max(1) as f64 * WIDTH
    }

    fn show(&self, axis: &TimeAxis) -> Markup {
        let x = format!("{:.1}", self.x(axis));
        html! {
            g class={ "mark m-" (self.style) } {
                title { (self.title) }
                // A line of one pixel is hard to point at.
                line.hit x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
                line x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
            }
        }
    }
}

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// Its title.
    pub(crate) title: &'a str,
    /// Its lines.
    pub(crate) lines: &'a [ChartLine<'a>],
    /// The unit of all lines.
    pub(crate) unit: ChartUnit,
    /// Its marks, which are on the axis.
    pub(crate) marks: &'a [ChartMark],
}

impl Chart<'_> {
    /// Draws the chart.
    pub(crate) fn show(&self, text: &Texts, axis: &TimeAxis) -> Markup {
        let values = self.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
        let top = self.unit.ceiling(values.fold(0.0, f64::max));
        let scale = [top, top / 2.0, 0.0];
        html! {
            figure.chart data-from=(axis.from.as_millis()) data-bucket=(axis.bucket.as_millis())
                data-buckets=(axis.buckets) data-unit=(self.unit.name()) {
                figcaption {
                    b { (self.title) }
                    @for line in self.lines { (self.legend(text, line)) }
                    span.at {}
                }
                div.plot {
                    div.y aria-hidden="true" {
                        @for value in scale { span { (self.unit.show(text, value)) } }
                    }
                    svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                        aria-label=(self.summary(text)) {
                        @for y in [0.5, HEIGHT / 2.0, HEIGHT - 0.5] {
                            line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                        }
                        @for mark in self.marks { (mark.show(axis)) }
                        @for line in self.lines {
                            path class={ "line l-" (line.color) } d=(path(&line.values, top))
                                data-values=(joined(&line.values)) {}
                        }
                        line.cursor x1="-9" x2="-9" y1="0" y2=(HEIGHT) {}
                    }
                    div.x aria-hidden="true" {
                        @for n in 0..=4_u64 {
                            @let at = axis.from.after(axis.bucket.times((axis.buckets as u64).saturating_sub(1) * n / 4));
                            time data-axis datetime=(Moment(at)) { (clock(&Moment(at).to_string())) }
                        }
                    }
                }
            }
        }
    }

    /// The name of a line with its last value.
    fn legend(&self, text: &Texts, line: &ChartLine<'_>) -> Markup {
        let last = line.values.iter().rev().flatten().next();
        html! {
            span class={ "legend l-" (line.color) } {
                (line.label) " "
                span.value { (last.map_or("–".to_owned(), |value| self.unit.show(text, *value))) }
            }
        }
    }

    /// The chart in words, for screen readers.
    fn summary(&self, text: &Texts) -> String {
        let lines = self.lines.iter().map(|line| {
            let last = line.values.iter().rev().flatten().next();
            let last = last.map_or("–".to_owned(), |value| self.unit.show(text, *value));
            format!("{} {last}", line.label)
        });
        format!("{}: {}", self.title, lines.collect::<Vec<_>>().join(", "))
    }
}

/// Hour and minute of an instant in UTC. A script replaces it with the time in the viewer's zone.
fn clock(instant: &str) -> &str {
    instant.get(11..16).unwrap_or_default()
}

/// The path of a line, with a gap where there is no value.
fn path(values: &[Option<f64>], top: f64) -> String {
    let step = WIDTH / (values.len().saturating_sub(1)).max(1) as f64;
    let (mut out, mut is_drawing) = (String::new(), false);
    for (i, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_drawing = false;
            continue;
        };
        let (x, y) = (i as f64 * step, HEIGHT - 1.0 - value / top * (HEIGHT - 2.0));
        let verb = if is_drawing { 'L' } else { 'M' };
        out.push_str(&format!("{verb}{x:.1} {y:.1}"));
        // A value between two gaps is a dot.
        if !is_drawing && values.get(i + 1).is_none_or(Option::is_none) {
            out.push_str("h0");
        }
        is_drawing = true;
    }
    out
}

fn joined(values: &[Option<f64>]) -> String {
    let shown = values.iter().map(|value| value.map_or(String::new(), significant));
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_gaps_and_dots() {
        assert_eq!(path(&[Some(0.0), Some(10.0)], 10.0), "M0.0 119.0L600.0 1.0");
        assert_eq!(path(&[Some(10.0), None, Some(10.0)], 10.0), "M0.0 1.0h0M600.0 1.0h0");
        assert_eq!(path(&[], 10.0), "");
    }

    #[test]
    fn a_mark_is_at_its_time() {
        let now = Time::from_millis(1_795_000_123_456);
        let axis = TimeAxis::new(crate::range::ChartRange::Hour, now);
        let at = |at: Time| ChartMark { at, style: "start", title: String::new() }.x(&axis);
        let half = axis.bucket.as_millis() * (axis.buckets as u64 - 1) / 2;
        let middle = axis.from.after(Span::from_millis(half));
        for (time, x) in [(axis.from, 0.0), (middle, WIDTH / 2.0), (now, WIDTH)] {
            assert!((at(time) - x).abs() < 1.0, "{x}: {}", at(time));
        }
    }

    #[test]
    fn the_axis_ends_at_a_plain_number() {
        for (max, top) in [(0.0, 4.0), (3.0, 4.0), (7.0, 8.0), (11.0, 20.0), (150.0, 200.0)] {
            assert!((ChartUnit::Rate.ceiling(max) - top).abs() < 1e-9, "{max}");
        }
        assert!((ChartUnit::Millis.ceiling(61_000.0) - 120_000.0).abs() < 1e-9);
    }
}
