//! Numbers, durations and texts of jobs.

use crore_core::Span;
use maud::{Markup, html};

use crate::text::{Texts, fill};

/// A number: exact up to 9,999, and rounded above, with the exact one in its title.
pub(crate) fn number(n: u64) -> Markup {
    match n {
        0..=9_999 => html! { (grouped(n)) },
        n => html! { span title=(grouped(n)) { (rounded(n)) } },
    }
}

/// A number with separators: `1,234,567`.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of jobs: `1 job`, `3,214 jobs`.
pub(crate) fn jobs(text: &Texts, n: u64) -> String {
    match n {
        1 => text.one_job.to_owned(),
        n => fill(text.n_jobs, &[&grouped(n)]),
    }
}

/// A number with three significant digits: `12.3k`, `1.23M`.
fn rounded(n: u64) -> String {
    let (unit, divisor) = match n {
        0..=999_499 => ("k", 1e3),
        999_500..=999_499_999 => ("M", 1e6),
        _ => ("G", 1e9),
    };
    format!("{}{unit}", significant(n as f64 / divisor))
}

/// A value with three significant digits, and no zeros at its end.
pub(crate) fn significant(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        0.0 => 0,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A duration in its two longest units: `1 min 22 s`, `350 ms`.
pub(crate) fn span(text: &Texts, span: Span) -> String {
    let millis = span.as_millis();
    let units = [
        (text.unit_day, 86_400_000),
        (text.unit_hour, 3_600_000),
        (text.unit_minute, 60_000),
        (text.unit_second, 1000),
    ];
    let Some(longest) = units.iter().position(|(_, length)| millis >= *length) else {
        return format!("{millis} {}", text.unit_milli);
    };
    if let Some((unit, _)) = units.get(longest).filter(|(_, length)| *length == 1000) {
        return format!("{} {unit}", significant(millis as f64 / 1000.0));
    }
    let (mut rest, mut parts) = (millis, Vec::new());
    for (unit, length) in units.iter().skip(longest).take(2) {
        if rest >= *length {
            parts.push(format!("{} {unit}", rest / length));
        }
        rest %= length;
    }
    parts.join(" ")
}

/// Text from outside, with control characters and marks that change the direction of text made visible.
pub(crate) fn visible(text: &str) -> Markup {
    let is_hidden = |c: char| hidden(c).is_some();
    html! {
        @for part in text.split_inclusive(is_hidden) {
            @let mark = part.chars().next_back().filter(|c| is_hidden(*c));
            (part.strip_suffix(is_hidden).unwrap_or(part))
            @if let Some(mark) = mark { span.ctrl { (hidden(mark).unwrap_or_default()) } }
        }
    }
}

/// [`visible`], shortened to a number of characters; the title has more of it.
pub(crate) fn excerpt(text: &str, chars: usize) -> Markup {
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(chars).collect();
    if short.len() == text.len() {
        return visible(text);
    }
    let title: String = text.chars().take(1000).filter(|c| hidden(*c).is_none()).collect();
    html! { span title=(title) { (visible(&short)) "…" } }
}

/// How a character that is not visible is shown; `None`: it is visible.
fn hidden(c: char) -> Option<String> {
    match c {
        '\n' | '\t' => None,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).map(String::from),
        '\u{7f}' => Some('\u{2421}'.to_string()),
        // C1 controls, zero-width characters, marks of direction, and the byte order mark.
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => Some(format!("U+{:04X}", u32::from(c))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ENGLISH;

    #[test]
    fn numbers_are_exact_up_to_four_digits() {
        for (n, text) in [(0, "0"), (999, "999"), (9_999, "9,999")] {
            assert_eq!(number(n).into_string(), text);
        }
        assert_eq!(number(12_345).into_string(), r#"<span title="12,345">12.3k</span>"#);
        for (n, text) in [(10_000, "10k"), (999_499, "999k"), (999_500, "1M"), (1_234_567, "1.23M")]
        {
            assert_eq!(rounded(n), text);
        }
        assert_eq!(rounded(u64::MAX), "18446744074G");
    }

    #[test]
    fn durations_have_two_units() {
        for (millis, text) in [
            (0, "0 ms"),
            (350, "350 ms"),
            (1500, "1.5 s"),
            (82_000, "1 min 22 s"),
            (3_600_000, "1 h"),
            (90_061_000, "1 d 1 h"),
        ] {
            assert_eq!(span(&ENGLISH, Span::from_millis(millis)), text);
        }
    }

    #[test]
    fn hidden_characters_are_shown_and_markup_is_escaped() {
        let shown = visible("<b>\u{202e}x\0&").into_string();
        assert_eq!(
            shown,
            "&lt;b&gt;<span class=\"ctrl\">U+202E</span>x<span class=\"ctrl\">␀</span>&amp;"
        );
        assert_eq!(visible("a\nb").into_string(), "a\nb");
    }
}
