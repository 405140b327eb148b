//! Live updates: a stream of ticks. An open page loads itself again on each tick.
//!
//! A tick carries no data, so the stream needs no subscription to the engine's events, and an open page costs nothing
//! between two ticks. The interval grows with the number of open pages: together they load a bounded number of times
//! per second.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use crore_api::calls::ListenerPermit;
use futures_util::stream::unfold;
use tokio::time::{Instant, sleep_until};

use crate::Ui;
use crate::context::PageResult;

/// Minimum interval between two ticks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time that each open page adds to the interval.
const PER_PAGE: Duration = Duration::from_millis(25);

/// An open page.
struct LivePage {
    ui: Ui,
    is_first: bool,
    _permit: ListenerPermit,
}

impl Drop for LivePage {
    fn drop(&mut self) {
        self.ui.live_pages().fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream of ticks. It ends when the server stops, and the browser connects again when it is back.
pub(crate) async fn ticks(State(ui): State<Ui>) -> PageResult {
    let permit = ui.api().acquire_listener()?;
    ui.live_pages().fetch_add(1, Ordering::Relaxed);
    let page = LivePage { ui, is_first: true, _permit: permit };
    let stream = unfold(page, |mut page| async {
        if std::mem::take(&mut page.is_first) {
            // Sends the head of the response, so that the browser knows that it is connected.
            return Some((Ok::<_, Infallible>(Event::default().comment("connected")), page));
        }
        let pages = page.ui.live_pages().load(Ordering::Relaxed).try_into().unwrap_or(u32::MAX);
        let interval = INTERVAL.max(PER_PAGE.saturating_mul(pages));
        tokio::select! {
            () = sleep_until(Instant::now() + interval) => {}
            () = page.ui.api().closing() => return None,
        }
        // A browser drops an event without data.
        Some((Ok(Event::default().event("tick").data("1")), page))
    });
    Ok(Sse::new(stream).into_response())
}
