//! Which ticks to push jobs for, when some may have been missed.

use serde::{Deserialize, Serialize};

use super::Timing;
use crate::time::{Span, Time};

/// How late a tick may be and still count as on time under [`Missed::Skip`]. A minute is the grain
/// of cron, and long enough for a restart or for another node to take over, neither of which is
/// what people mean by a missed run.
pub const GRACE: Span = Span::from_secs(60);

/// What becomes of ticks that nobody was there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missed {
    /// They are skipped: the newest due tick fires if it is at most [`GRACE`] old, and no other.
    Skip,
    /// They are made up for by one: the newest due tick fires, however old, and no other.
    Once,
    /// They are made up for one by one: every due tick fires, oldest first.
    All,
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The ticks to push a job for, oldest first.
    pub fire: Vec<Time>,
    /// The newest tick that is now accounted for, fired or skipped; to be passed in next time. It
    /// is never earlier than the one that was passed in, and no tick up to it fires again.
    pub cursor: Time,
    /// The first tick after the cursor. It is already due when `max` left some for the next call.
    pub next: Option<Time>,
}

/// The ticks that are due at `now`, given that all ticks up to `cursor` are accounted for. A new
/// schedule's cursor is the instant of its creation.
///
/// At most `max` ticks fire; with [`Missed::All`] the rest is left for the next call, and if `max`
/// is zero nothing fires and nothing is skipped. A clock that went back fires nothing. The cost
/// grows with the ticks that fire and not with those that were missed.
pub fn due(timing: &Timing, missed: Missed, cursor: Time, now: Time, max: usize) -> Due {
    let (fire, cursor) = match missed {
        _ if max == 0 => (Vec::new(), cursor),
        Missed::All => all(timing, cursor, now, max),
        Missed::Once => newest(timing, cursor, now, Span::MAX),
        Missed::Skip => newest(timing, cursor, now, GRACE),
    };
    Due { fire, cursor, next: timing.next_after(cursor) }
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
