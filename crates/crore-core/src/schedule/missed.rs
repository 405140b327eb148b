//! Due ticks of a schedule, and the policy for missed ones.

use serde::{Deserialize, Serialize};

use super::Timing;
use crate::time::{Span, Time};

/// Maximum delay of a tick that still counts as on time under [`Missed::Skip`]. One minute is the
/// resolution of cron, and long enough for a restart or a leader change, which should not skip a run.
pub const GRACE: Span = Span::from_secs(60);

/// Policy for ticks that were missed because no server was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// Skip them: only the latest due tick fires, and only if it is at most [`GRACE`] old.
    Skip,
    /// Fire once: only the latest due tick fires, however old.
    Once,
    /// Fire all of them, oldest first.
    All,
}

/// The due ticks of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTicks {
    /// The ticks that fire, oldest first.
    pub fire: Vec<Time>,
    /// The latest tick that has fired or been skipped, to be passed to the next call. Never earlier than
    /// the cursor passed in; no tick up to it fires again.
    pub cursor: Time,
    /// The first tick after the cursor. Already due if `max` was reached.
    pub next: Option<Time>,
}

/// The ticks that are due at `now` and later than `cursor`. The initial cursor of a schedule is its
/// creation time.
///
/// At most `max` ticks fire; with [`Missed::All`] the rest is left for the next call, and with `max` zero
/// nothing fires and nothing is skipped. A clock that was set back fires nothing. The cost depends on the
/// number of ticks that fire, not on the number missed.
pub fn due(timing: &Timing, missed: Missed, cursor: Time, now: Time, max: usize) -> DueTicks {
    let (fire, cursor) = match missed {
        _ if max == 0 => (Vec::new(), cursor),
        Missed::All => all(timing, cursor, now, max),
        Missed::Once => newest(timing, cursor, now, Span::MAX),
        Missed::Skip => newest(timing, cursor, now, GRACE),
    };
    DueTicks { fire, cursor, next: timing.next_after(cursor) }
}

fn all(timing: &Timing, cursor: Time, now: Time, max: usize) -> (Vec<Time>, Time) {
    let mut fire = Vec::new();
    let mut last = cursor;
    while fire.len() < max
        && let Some(tick) = timing.next_after(last).filter(|tick| *tick <= now)
    {
        fire.push(tick);
        last = tick;
    }
    (fire, last)
}

fn newest(timing: &Timing, cursor: Time, now: Time, grace: Span) -> (Vec<Time>, Time) {
    match timing.last_between(cursor, now) {
        Some(tick) if now.since(tick) <= grace => (vec![tick], tick),
        Some(tick) => (Vec::new(), tick),
        None => (Vec::new(), cursor),
    }
}
