//! Pieces of the terminal view: numbers, ages, states.

use crore_core::Time;
use ratatui::layout::Constraint;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

use crate::output::escaped;

/// Maximum length of a text from the server in a table.
const MAX_TEXT: usize = 200;

/// A text from the server: harmful characters are escaped.
pub(super) fn safe(text: &str) -> String {
    escaped(text).chars().take(MAX_TEXT).collect()
}

/// A count: `1,234` up to 9,999, then `12.3k`.
pub(super) fn count(n: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let short = |unit: f64, letter| format!("{:.1}{letter}", n as f64 / unit);
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{},{:03}", n / 1000, n % 1000),
        10_000..1_000_000 => short(1e3, 'k'),
        1_000_000..1_000_000_000 => short(1e6, 'M'),
        _ => short(1e9, 'G'),
    }
}

/// The time since an instant: `5s`, `3m`, `2h`, `4d`; `in 5s` for a later one.
pub(super) fn age(at: Option<Time>, now: Time) -> String {
    let Some(at) = at else { return String::new() };
    let millis = now.as_millis().saturating_sub(at.as_millis());
    let seconds = millis.unsigned_abs() / 1000;
    let text = match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    };
    if millis < 0 { format!("in {text}") } else { text }
}

pub(super) const fn state_color(state: &str) -> Color {
    match state.as_bytes() {
        b"ready" => Color::Cyan,
        b"running" => Color::Blue,
        b"scheduled" | b"waiting" => Color::Magenta,
        b"done" => Color::Green,
        b"dead" => Color::Red,
        _ => Color::DarkGray,
    }
}

/// A dot in the colour of a state, and its word.
pub(super) fn state(word: &str) -> Line<'static> {
    let dot = Span::styled("● ", Style::new().fg(state_color(word)));
    Line::from(vec![dot, Span::raw(safe(word))])
}

/// A number at the right edge of its column.
pub(super) fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// A table with a head, in which one row can be selected.
pub(super) fn table<'a>(
    head: &'a [(&'a str, Constraint)],
    rows: impl IntoIterator<Item = Row<'a>>,
) -> Table<'a> {
    let titles = head.iter().map(|(title, _)| match title.strip_prefix('>') {
        Some(title) => Cell::from(Line::from(title).right_aligned()),
        None => Cell::from(*title),
    });
    let widths = head.iter().map(|(_, width)| *width);
    Table::new(rows, widths)
        .header(Row::new(titles).dim())
        .column_spacing(2)
        .row_highlight_style(Style::new().reversed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let texts = [7, 999, 1_234, 9_999, 12_345, 7_654_321, 2_000_000_000].map(count);
        assert_eq!(texts, ["7", "999", "1,234", "9,999", "12.3k", "7.7M", "2.0G"]);
    }

    #[test]
    fn ages_have_one_unit() {
        let now = Time::from_millis(1_000_000_000);
        let before =
            |seconds: i64| age(Some(Time::from_millis(1_000_000_000 - seconds * 1000)), now);
        assert_eq!([0, 59, 60, 7200, 259_200].map(before), ["0s", "59s", "1m", "2h", "3d"]);
        assert_eq!((before(-30), age(None, now)), ("in 30s".to_owned(), String::new()));
    }
}
