//! Live updates: a stream of ticks. An open page loads itself again on each tick.
//!
//! A tick carries no data, so the stream needs no subscription to the engine's events, and an open page costs nothing
//! between two ticks. The interval grows with the number of open pages and with the time that a load takes, up to a
//! maximum; until then all pages together use at most 4 % of a core.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use crore_api::calls::ListenerPermit;
use futures_util::stream::unfold;
use tokio::time::{Instant, sleep_until};

use crate::Ui;
use crate::context::PageResult;

/// Minimum interval between two ticks of a page.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum interval, also on a server that is too busy to answer soon.
const MAX_INTERVAL: Duration = Duration::from_secs(15);
/// All open pages together use at most 1/25 of a core, until the interval is at its maximum.
const SHARE_OF_CORE: u32 = 25;
/// Work of a load outside its handler: reading the request, writing the response.
const OVERHEAD: Duration = Duration::from_micros(300);
/// The average duration follows about this many loads.
const AVERAGED: u64 = 16;

/// The open pages, and the average duration of their loads.
#[derive(Debug, Default)]
pub(crate) struct LiveLoad {
    pages: AtomicU32,
    average_micros: AtomicU64,
}

impl LiveLoad {
    /// Counts a load of an open page.
    pub(crate) fn loaded(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(1 << 40);
        let average = |average: u64| match average {
            0 => Some(took),
            _ => Some(average - average / AVERAGED + took / AVERAGED),
        };
        // It always has a new value.
        let _ = self.average_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, average);
    }

    /// Time until the next tick of a page.
    fn interval(&self) -> Duration {
        let average = Duration::from_micros(self.average_micros.load(Ordering::Relaxed));
        let pages = self.pages.load(Ordering::Relaxed);
        let all = (average + OVERHEAD).saturating_mul(pages).saturating_mul(SHARE_OF_CORE);
        all.clamp(MIN_INTERVAL, MAX_INTERVAL)
    }
}

/// An open page.
struct LivePage {
    ui: Ui,
    is_first: bool,
    _permit: ListenerPermit,
}

impl Drop for LivePage {
    fn drop(&mut self) {
        self.ui.live_load().pages.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of ticks. It ends when the server stops, and the browser connects again when it is back.
pub(crate) async fn ticks(State(ui): State<Ui>) -> PageResult {
    let permit = ui.api().acquire_listener()?;
    ui.live_load().pages.fetch_add(1, Ordering::Relaxed);
    let page = LivePage { ui, is_first: true, _permit: permit };
    let stream = unfold(page, |mut page| async {
        if std::mem::take(&mut page.is_first) {
            // Sends the head of the response, so that the browser knows that it is connected.
            return Some((Ok::<_, Infallible>(Event::default().comment("connected")), page));
        }
        tokio::select! {
            () = sleep_until(Instant::now() + page.ui.live_load().interval()) => {}
            () = page.ui.api().closing() => return None,
        }
        // A browser drops an event without data.
        Some((Ok(Event::default().event("tick").data("1")), page))
    });
    Ok(Sse::new(stream).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_pages_use_a_bounded_share_of_a_core() {
        let load = LiveLoad::default();
        for (pages, millis) in [(1, 1), (10, 2), (100, 1), (100, 3), (1000, 500)] {
            load.pages.store(pages, Ordering::Relaxed);
            (0..200).for_each(|_| load.loaded(Duration::from_millis(millis)));
            let (interval, each) = (load.interval(), Duration::from_millis(millis) + OVERHEAD);
            assert!((MIN_INTERVAL..=MAX_INTERVAL).contains(&interval), "{interval:?}");
            let is_slowest = interval == MAX_INTERVAL;
            // A hundredth for rounding.
            let share = each.as_secs_f64() * f64::from(pages) / interval.as_secs_f64();
            assert!(is_slowest || share <= 1.01 / f64::from(SHARE_OF_CORE), "{pages}: {share}");
        }
        load.pages.store(1, Ordering::Relaxed);
        (0..200).for_each(|_| load.loaded(Duration::from_millis(1)));
        assert_eq!(load.interval(), MIN_INTERVAL, "the average follows");
    }
}
