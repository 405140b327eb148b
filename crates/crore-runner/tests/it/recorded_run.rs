//! Runs a job with a recorded log.

use std::sync::{Arc, Mutex};

use crore_core::{Delivery, Encoding, JobId, Name, Payload, Time};
use crore_runner::{EncodedBytes, Output, RunContext, RunFailure, RunMessage, Runner, Task};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A context that records log lines, and can stop the run.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRun {
    pub(crate) stop: CancellationToken,
    pub(crate) context: RunContext,
    lines: Arc<Mutex<Vec<String>>>,
    new_line: Arc<Notify>,
}

impl RecordedRun {
    pub(crate) fn new() -> Self {
        let stop = CancellationToken::new();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let new_line = Arc::new(Notify::new());
        let (sink, notify) = (lines.clone(), new_line.clone());
        let context = RunContext::new(stop.clone(), move |message| {
            if let RunMessage::Line(line) = message {
                sink.lock().expect("no panic").push(line);
                notify.notify_one();
            }
        });
        Self { stop, context, lines, new_line }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic").clone()
    }

    /// Waits for a line with this prefix and returns the rest.
    pub(crate) async fn line(&self, start: &str) -> String {
        loop {
            let lines = self.lines();
            if let Some(rest) = lines.iter().find_map(|line| line.strip_prefix(start)) {
                return rest.to_owned();
            }
            self.new_line.notified().await;
        }
    }
}

pub(crate) fn task(payload: impl AsRef<[u8]>) -> Task {
    Task {
        store: "feed".into(),
        job: JobId::new(7).expect("a number"),
        delivery: Delivery(1),
        kind: Name::new("kind", "kind").expect("a name"),
        attempt: 1,
        pushed_at: Time::from_millis(5),
        payload: Payload::new(Encoding::Bytes, payload.as_ref()).into(),
        timeout: None,
        trace: None,
    }
}

/// Runs without recording or stopping.
pub(crate) async fn run(
    runner: &dyn Runner,
    payload: impl AsRef<[u8]>,
) -> Result<Output, RunFailure> {
    runner.run(&task(payload), &RecordedRun::new().context).await
}

/// The output items as texts.
pub(crate) fn texts(output: &Output) -> Vec<String> {
    let text = |item: &EncodedBytes| String::from_utf8_lossy(&item.bytes).into_owned();
    output.items.iter().map(text).collect()
}
