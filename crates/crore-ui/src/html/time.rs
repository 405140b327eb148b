//! Instants, relative to now. A script keeps them current, and shows the exact time in the viewer's zone.

use crore_core::{Span, Time};
use crore_wire::units::Moment;
use maud::{Markup, html};

use super::format::span;
use crate::context::PageContext;
use crate::text::{Texts, fill};

impl PageContext {
    /// An instant: `3 min ago`, `in 20 s`.
    pub(crate) fn ago(&self, at: impl Into<ShownInstant>) -> Markup {
        relative(self.text, at.into().0, self.now)
    }

    /// The time between two instants.
    pub(crate) fn between(&self, from: Moment, to: Moment) -> String {
        span(self.text, to.0.since(from.0))
    }
}

/// An instant of the core or of the API.
pub(crate) struct ShownInstant(Time);

impl From<Time> for ShownInstant {
    fn from(time: Time) -> Self {
        Self(time)
    }
}

impl From<Moment> for ShownInstant {
    fn from(moment: Moment) -> Self {
        Self(moment.0)
    }
}

fn relative(text: &Texts, at: Time, now: Time) -> Markup {
    let exact = Moment(at).to_string();
    html! { time datetime=(exact) title=(exact) data-relative { (words(text, at, now)) } }
}

/// The words for an instant. Times within a second are "now".
fn words(text: &Texts, at: Time, now: Time) -> String {
    let (past, future) = (now.since(at), at.since(now));
    let rounded = |span: Span| Span::from_secs(span.as_millis() / 1000);
    if past.max(future) < Span::from_secs(1) {
        return text.now.to_owned();
    }
    match past > future {
        true => fill(text.ago, &[&span(text, coarse(rounded(past)))]),
        false => fill(text.in_future, &[&span(text, coarse(rounded(future)))]),
    }
}

/// A relative time has one unit.
fn coarse(span: Span) -> Span {
    let unit = match span.as_millis() {
        0..60_000 => 1000,
        60_000..3_600_000 => 60_000,
        3_600_000..86_400_000 => 3_600_000,
        _ => 86_400_000,
    };
    Span::from_millis(span.as_millis() / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ENGLISH;

    #[test]
    fn instants_are_relative_with_one_unit() {
        let now = Time::from_millis(1_000_000_000);
        let at = |seconds: i64| Time::from_millis(now.as_millis() + seconds * 1000);
        for (seconds, expected) in [
            (0, "now"),
            (-5, "5 s ago"),
            (-125, "2 min ago"),
            (-7300, "2 h ago"),
            (40, "in 40 s"),
            (3 * 86_400, "in 3 d"),
        ] {
            assert_eq!(words(&ENGLISH, at(seconds), now), expected);
        }
    }
}
