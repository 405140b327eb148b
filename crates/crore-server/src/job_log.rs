//! One log line per run of a job that ends, if `log.jobs` is set.

use crore::Engine;
use crore::core::State;
use crore::events::{EngineEvent, EventType, ListenerItem};

/// Logs until the engine stops.
pub(crate) async fn run(engine: Engine) {
    let mut listener = engine.listen();
    while let Some(item) = listener.next().await {
        match item {
            ListenerItem::Event(event) => log(&event),
            ListenerItem::Sent(_) => {}
            ListenerItem::Missed(jobs) => {
                tracing::warn!(target: "crore::jobs", jobs, "runs ended too fast to be logged");
            }
        }
    }
}

fn log(event: &EngineEvent) {
    let EngineEvent { id, kind, queue, what, .. } = event;
    let state = match what {
        EventType::Became(State::Done) => "done",
        EventType::Became(State::Dead) => "dead",
        EventType::Became(State::Cancelled) => "cancelled",
        EventType::Became(State::Scheduled) => "scheduled",
        _ => return,
    };
    tracing::info!(target: "crore::jobs", job = id.0, %kind, %queue, state, "run ended");
}
