//! What tests give a runner, and what they hear of it.

use std::sync::Arc;
use std::time::Duration;

use crore_core::{Delivery, Encoding, JobId, Name, Payload};
use crore_runner::command::Command;
use crore_runner::{Context, Failure, Maker, Options, Output, Runner, Said, Task};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// One delivery of a job, with this payload.
pub(crate) fn task(payload: &[u8]) -> Task {
    Task {
        job: JobId(7),
        delivery: Delivery(1),
        kind: Name::new("kind", "resize").expect("a name"),
        attempt: 2,
        payload: Payload::new(Encoding::Bytes, payload).into(),
        timeout: None,
        trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
    }
}

/// What is said, and a stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ear {
    pub(crate) stop: CancellationToken,
    heard: Arc<watch::Sender<Vec<String>>>,
}

impl Ear {
    pub(crate) fn context(&self) -> Context {
        let heard = Arc::clone(&self.heard);
        Context::new(self.stop.clone(), move |said| {
            if let Said::Line(line) = said {
                heard.send_modify(|lines| lines.push(line));
            }
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.heard.borrow().clone()
    }

    /// Waits until this line is heard.
    pub(crate) async fn hear(&self, line: &str) {
        let mut heard = self.heard.subscribe();
        let is_heard = heard.wait_for(|lines| lines.iter().any(|one| one == line));
        let in_time = timeout(Duration::from_secs(20), is_heard).await;
        in_time.expect("it is said in time").expect("somebody says it");
    }
}

/// A command, with a shell allowed.
pub(crate) async fn command(settings: &Value) -> Box<dyn Runner> {
    let options = Options { shell: true, ..Options::default() };
    Command::new(options).make(settings).await.expect("settings that are right")
}

/// Runs a command once, with nobody listening.
pub(crate) async fn run(settings: &Value, payload: &[u8]) -> Result<Output, Failure> {
    command(settings).await.run(&task(payload), &Ear::default().context()).await
}

/// The one item that came out, as text.
pub(crate) fn text(output: &Output) -> String {
    let [item] = &output.items[..] else { panic!("one item: {output:?}") };
    String::from_utf8_lossy(&item.bytes).into_owned()
}
