//! How far a run is: for people who watch, and for whoever has to know when it is over.

use indicatif::{ProgressBar, ProgressStyle};

use super::load::{Count, Load};
use super::page::grouped;
use super::plan::End;

/// How often what people see changes.
const SHOW_EVERY: u64 = 250_000_000;

/// How far a run is.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    began: u64,
    shown_at: u64,
    shown: (u64, u64),
}

impl Progress {
    pub(super) fn new(load: &Load) -> Self {
        let most = match load.plan.end {
            End::After(span) => span.as_millis() as u64,
            End::Jobs(jobs) => jobs,
        };
        let bar = ProgressBar::new(most);
        if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {wide_msg}") {
            bar.set_style(style.progress_chars("## "));
        }
        let now = load.clock.now();
        Self { bar, began: now, shown_at: now, shown: (0, 0) }
    }

    /// Shows it, on a terminal.
    pub(super) fn show(&mut self, load: &Load) {
        let now = load.clock.now();
        let since = now - self.shown_at;
        if since < SHOW_EVERY || self.bar.is_hidden() {
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
            End::After(_) => (now - self.began) / 1_000_000,
            End::Jobs(_) if load.plan.workers == 0 => pushed,
            End::Jobs(_) => finished,
        });
        (self.shown_at, self.shown) = (now, (pushed, finished));
    }

    /// Whether every job that was pushed is finished, or nothing has happened for so long that none will be. Asked
    /// when nobody pushes any more.
    pub(super) fn is_over(&self, load: &Load) -> bool {
        let last = [&load.pushed, &load.handed, &load.finished].map(Count::last);
        let last = last.into_iter().max().unwrap_or_default().max(self.began);
        let idle = load.clock.now().saturating_sub(last);
        if u128::from(idle) >= load.plan.settle.as_nanos() {
            return true;
        }
        if load.finished.n() < load.pushed.n() {
            return false;
        }
        // What came twice may hide what has yet to come.
        let tally = load.ledger.tally(load.source.given_out());
        tally.lost == 0 && tally.unfinished == 0
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
