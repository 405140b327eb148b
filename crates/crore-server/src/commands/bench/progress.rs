//! Progress of a run: a progress bar, and the decision whether it is over.

use indicatif::{ProgressBar, ProgressStyle};

use super::load::{EventCounter, LoadState};
use super::page::grouped;
use super::plan::PushEnd;

/// Refresh interval of the progress bar, in nanoseconds.
const REFRESH_NANOS: u64 = 250_000_000;

/// Progress of a run.
#[derive(Debug)]
pub(super) struct RunProgress {
    bar: ProgressBar,
    began: u64,
    shown_at: u64,
    shown: (u64, u64),
}

impl RunProgress {
    pub(super) fn new(load: &LoadState) -> Self {
        let max = match load.plan.end {
            PushEnd::After(span) => span.as_millis() as u64,
            PushEnd::Jobs(jobs) => jobs,
        };
        let bar = ProgressBar::new(max);
        if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {wide_msg}") {
            bar.set_style(style.progress_chars("## "));
        }
        let now = load.clock.now();
        Self { bar, began: now, shown_at: now, shown: (0, 0) }
    }

    /// Updates the progress bar; on terminals only.
    pub(super) fn show(&mut self, load: &LoadState) {
        let now = load.clock.now();
        let since = now - self.shown_at;
        if since < REFRESH_NANOS || self.bar.is_hidden() {
            return;
        }
        let (pushed, finished) = (load.pushed.n(), load.finished.n());
        let a_second = |n: u64| grouped((n as f64 * 1e9 / since as f64) as u64);
        let mut message = format!("{} pushed/s", a_second(pushed - self.shown.0));
        if load.plan.workers > 0 {
            let finished_now = a_second(finished - self.shown.1);
            let waiting = grouped(pushed.saturating_sub(finished));
            message += &format!(", {finished_now} finished/s, {waiting} to go");
        }
        self.bar.set_message(message);
        self.bar.set_position(match load.plan.end {
            PushEnd::After(_) => (now - self.began) / 1_000_000,
            PushEnd::Jobs(_) if load.plan.workers == 0 => pushed,
            PushEnd::Jobs(_) => finished,
        });
        (self.shown_at, self.shown) = (now, (pushed, finished));
    }

    /// Whether every pushed job is finished, or nothing has happened for the settle time. Valid once pushing has
    /// ended.
    pub(super) fn is_over(&self, load: &LoadState) -> bool {
        let last = [&load.pushed, &load.delivered, &load.finished].map(EventCounter::last);
        let last = last.into_iter().max().unwrap_or_default().max(self.began);
        let idle = load.clock.now().saturating_sub(last);
        if u128::from(idle) >= load.plan.settle.as_nanos() {
            return true;
        }
        if load.finished.n() < load.pushed.n() {
            return false;
        }
        // Duplicates may make the counters equal while jobs are still missing.
        let tally = load.ledger.tally(load.source.handed_out());
        tally.lost == 0 && tally.unfinished == 0
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
