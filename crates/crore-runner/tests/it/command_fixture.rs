//! Tasks and contexts for tests of commands.

use std::sync::Arc;
use std::time::Duration;

use crore_core::{Delivery, Encoding, JobId, Name, Payload, Time};
use crore_runner::command::CommandFactory;
use crore_runner::{
    Options, Output, RunContext, RunFailure, RunMessage, Runner, RunnerFactory, Task,
};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// One delivery of a job with this payload.
pub(crate) fn task(payload: &[u8]) -> Task {
    Task {
        store: "feed".into(),
        job: JobId(7),
        delivery: Delivery(1),
        kind: Name::new("kind", "resize").expect("a name"),
        attempt: 2,
        pushed_at: Time::from_millis(5),
        payload: Payload::new(Encoding::Bytes, payload).into(),
        timeout: None,
        trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    }
}

/// Records log lines, and can stop the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogRecorder {
    pub(crate) stop: CancellationToken,
    lines: Arc<watch::Sender<Vec<String>>>,
}

impl LogRecorder {
    pub(crate) fn context(&self) -> RunContext {
        let sink = Arc::clone(&self.lines);
        RunContext::new(self.stop.clone(), move |message| {
            if let RunMessage::Line(line) = message {
                sink.send_modify(|lines| lines.push(line));
            }
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits for this line.
    pub(crate) async fn wait_for_line(&self, line: &str) {
        let mut logged = self.lines.subscribe();
        let is_logged = logged.wait_for(|lines| lines.iter().any(|one| one == line));
        let in_time = timeout(Duration::from_secs(20), is_logged).await;
        in_time.expect("the line is logged in time").expect("the recorder is alive");
    }
}

/// A command runner that allows a shell.
pub(crate) async fn command(settings: &Value) -> Box<dyn Runner> {
    let secrets = ["*".parse().expect("a pattern")].into_iter().collect();
    let options = Options { shell: true, secrets, ..Options::default() };
    CommandFactory::new(options).make(settings).await.expect("valid settings")
}

/// Runs a command once.
pub(crate) async fn run(settings: &Value, payload: &[u8]) -> Result<Output, RunFailure> {
    command(settings).await.run(&task(payload), &LogRecorder::default().context()).await
}

/// The only output item, as text.
pub(crate) fn text(output: &Output) -> String {
    let [item] = &output.items[..] else { panic!("one item: {output:?}") };
    String::from_utf8_lossy(&item.bytes).into_owned()
}
