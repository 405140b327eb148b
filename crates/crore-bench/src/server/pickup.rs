//! Pick-up latencies and their bound: two bare round trips, one sync, and a constant.

use std::time::Duration;

use super::measurement::{ServerBench, quantile_micros};
use crate::report::{Goal, ReportRow, RunValues};

const P99: f64 = 0.99;
const TRIPS: f64 = 2.0;

/// Latencies, measured in turns.
#[derive(Debug, Default)]
pub struct PickupTimes {
    pub picked: Vec<Duration>,
    pub trips: Vec<Duration>,
    pub syncs: Vec<Duration>,
}

impl PickupTimes {
    /// Adds them to the report; the bound is two trips, a sync and `more` microseconds.
    pub fn report(&self, bench: &mut ServerBench, name: &str, baseline: &str, more: f64) {
        let [picked, trip, sync] =
            [&self.picked, &self.trips, &self.syncs].map(|times| quantile_micros(times, P99));
        let allowed = TRIPS.mul_add(trip, sync + more);
        bench.report.rows.push(ReportRow::compared(
            (name, "µs"),
            &RunValues(vec![picked]),
            (baseline, &RunValues(vec![allowed])),
            Goal::AtMost(1.0),
        ));
        let all =
            [("pick-up", &self.picked), ("a bare trip", &self.trips), ("fdatasync", &self.syncs)];
        bench.report.notes.extend(all.map(|(name, times)| {
            let [p50, p99] = [0.5, P99].map(|share| quantile_micros(times, share));
            format!("{name}: p50 {p50:.0}, p99 {p99:.0} µs")
        }));
    }
}
