//! What was measured of pick-ups, and what they may cost: round trips, a sync, and a little more.

use std::time::Duration;

use crate::bench::{Bench, within};
use crate::table::{Goal, Row, Runs};

const LATE: f64 = 0.99;
const TRIPS: f64 = 2.0;

/// What was measured, in turns.
#[derive(Debug, Default)]
pub(crate) struct Times {
    pub(crate) picked: Vec<Duration>,
    pub(crate) trips: Vec<Duration>,
    pub(crate) syncs: Vec<Duration>,
}

impl Times {
    /// Puts them into the report, beside two trips, a sync and so many microseconds more.
    pub(crate) fn tell(&self, bench: &mut Bench, name: &str, beside: &str, more: f64) {
        let [picked, trip, sync] =
            [&self.picked, &self.trips, &self.syncs].map(|times| within(times, LATE));
        let allowed = TRIPS.mul_add(trip, sync + more);
        bench.report.rows.push(Row::beside(
            (name, "µs"),
            &Runs(vec![picked]),
            (beside, &Runs(vec![allowed])),
            Goal::AtMost(1.0),
        ));
        let all =
            [("pick-up", &self.picked), ("a bare trip", &self.trips), ("fdatasync", &self.syncs)];
        bench.report.notes.extend(all.map(|(name, times)| {
            let [p50, p99] = [0.5, LATE].map(|share| within(times, share));
            format!("{name}: p50 {p50:.0}, p99 {p99:.0} µs")
        }));
    }
}
