//! A run as a host would have it, and what it said meanwhile.

use std::sync::{Arc, Mutex};

use crore_core::{Delivery, Encoding, JobId, Name, Payload};
use crore_runner::{Context, Failure, Item, Output, Runner, Said, Task};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What surrounds a run, in the test's hand.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub(crate) stop: CancellationToken,
    pub(crate) context: Context,
    lines: Arc<Mutex<Vec<String>>>,
    said: Arc<Notify>,
}

impl Around {
    pub(crate) fn new() -> Self {
        let stop = CancellationToken::new();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::new(Notify::new());
        let (heard, told) = (lines.clone(), said.clone());
        let context = Context::new(stop.clone(), move |said| {
            if let Said::Line(line) = said {
                heard.lock().expect("nobody panics here").push(line);
                told.notify_one();
            }
        });
        Self { stop, context, lines, said }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("nobody panics here").clone()
    }

    /// Waits for a line that begins so, and gives what follows.
    pub(crate) async fn line(&self, start: &str) -> String {
        loop {
            let lines = self.lines();
            if let Some(rest) = lines.iter().find_map(|line| line.strip_prefix(start)) {
                return rest.to_owned();
            }
            self.said.notified().await;
        }
    }
}

pub(crate) fn task(payload: impl AsRef<[u8]>) -> Task {
    Task {
        job: JobId::new(7).expect("a number"),
        delivery: Delivery(1),
        kind: Name::new("kind", "kind").expect("a name"),
        attempt: 1,
        payload: Payload::new(Encoding::Bytes, payload.as_ref()).into(),
        timeout: None,
        trace: None,
    }
}

/// Runs, without anybody who listens or stops it.
pub(crate) async fn run(runner: &dyn Runner, payload: impl AsRef<[u8]>) -> Result<Output, Failure> {
    runner.run(&task(payload), &Around::new().context).await
}

/// What came out, as texts.
pub(crate) fn texts(output: &Output) -> Vec<String> {
    let text = |item: &Item| String::from_utf8_lossy(&item.bytes).into_owned();
    output.items.iter().map(text).collect()
}
