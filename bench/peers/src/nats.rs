//! NATS with JetStream: a work queue, asynchronous publishes that are acknowledged, and a pull consumer that requests
//! more when half of a request was delivered. Acknowledgements of jobs are not answered; at the end the stream has to
//! be empty.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crore_testkit::{DebianPackage, SupervisedServer};
use serde_json::{Value, json};

use crate::connection::PeerConnection;
use crate::job::{self, SLOTS};
use crate::ledger::PeerLedger;
use crate::peer::{PeerDurability, PeerFault, PeerSetting, QueuePeer};
use crate::produce::{PeerProducer, produce};
use crate::server;

const MEMORY: PeerSetting = PeerSetting::new("memory", PeerDurability::None);
const FILE: PeerSetting = PeerSetting::new("file", PeerDurability::Later("every 2 min"));
const SYNCED: PeerSetting = PeerSetting::new("sync", PeerDurability::Synced);
/// The first version that can sync before it answers.
const CAN_SYNC: (u32, u32) = (2, 10);

const SCRIPT: &str = r#"
port=$1
printf '%s' "$2" >nats.conf
exec nats-server -c nats.conf -a 127.0.0.1 -p "$port"
"#;

/// Timeout of a pull request.
const PULL_TIMEOUT: Duration = Duration::from_millis(200);
/// Time for the server to handle the last acknowledgements.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct NatsPeer;

impl QueuePeer for NatsPeer {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        vec![DebianPackage::Other { name: "nats-server", programs: &["nats-server"] }]
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        let output = Command::new("nats-server").arg("--version").output()?.stdout;
        let output = String::from_utf8_lossy(&output);
        let version = version(&output).ok_or_else(|| format!("`{output}` has no version"))?;
        Ok([MEMORY, FILE].into_iter().chain((version >= CAN_SYNC).then_some(SYNCED)).collect())
    }

    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        let sync = if *setting == SYNCED { "sync_interval: always" } else { "" };
        let options = format!("jetstream {{ store_dir: data\n{sync} }}\n");
        server::start("nats", SCRIPT, &[&options], below)
    }

    fn drive(
        &self,
        setting: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault> {
        let mut client = NatsClient::open(port)?;
        client.make_stream(if *setting == MEMORY { "memory" } else { "file" })?;
        let (mut pushing, mut working) = (NatsClient::open(port)?, NatsClient::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        client.left()
    }
}

/// Parses `nats-server: v2.9.10`.
fn version(output: &str) -> Option<(u32, u32)> {
    let mut numbers = output.trim().rsplit_once('v')?.1.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Several requests may be in flight; together they ask for no more jobs than there are slots.
fn work(ledger: &PeerLedger, client: &mut NatsClient) -> Result<(), PeerFault> {
    let mut requests: VecDeque<(u64, usize)> = VecDeque::new();
    let mut nth = 0;
    let mut done = Vec::with_capacity(SLOTS);
    loop {
        let requested: usize = requests.iter().map(|(_, n)| n).sum();
        if requested <= SLOTS / 2 {
            let more =
                json!({ "batch": SLOTS - requested, "expires": PULL_TIMEOUT.as_nanos() as u64 });
            client.publish("$JS.API.CONSUMER.MSG.NEXT.JOBS.work", nth, more.to_string().as_bytes());
            requests.push_back((nth, SLOTS - requested));
            nth += 1;
        }
        client.connection.send()?;
        ledger.finished(done.drain(..));
        if ledger.is_over() {
            return client.flush();
        }
        loop {
            let message = client.message()?;
            match message.reply {
                // The oldest request is served first.
                Some(reply) => {
                    if let Some((_, n)) = requests.front_mut() {
                        *n = n.saturating_sub(1);
                    }
                    let number = job::number(&message.payload);
                    ledger.ran([number]);
                    client.acknowledge(&reply);
                    done.push(number);
                }
                // Another status ends the request.
                None => requests.retain(|(nth, _)| Some(*nth) != message.nth),
            }
            requests.retain(|(_, n)| *n > 0);
            if !client.connection.has_more() || done.len() >= SLOTS / 2 {
                break;
            }
        }
    }
}

/// A message to one of our inboxes.
#[derive(Debug)]
struct NatsMessage {
    /// The number of the request that it answers; a job has none.
    nth: Option<u64>,
    reply: Option<String>,
    payload: Vec<u8>,
}

/// A connection with an inbox of its own; the last part of a subject numbers the request.
#[derive(Debug)]
struct NatsClient {
    connection: PeerConnection,
    inbox: String,
}

impl NatsClient {
    fn open(port: u16) -> Result<Self, PeerFault> {
        static INBOXES: AtomicU64 = AtomicU64::new(0);
        let inbox = format!("_INBOX.{}", INBOXES.fetch_add(1, Ordering::Relaxed));
        let mut client = Self { connection: PeerConnection::open(port)?, inbox };
        client.connection.line()?;
        client.put_line(r#"CONNECT {"verbose":false,"pedantic":false,"headers":true}"#);
        client.put_line(&format!("SUB {}.* 1", client.inbox));
        client.flush()?;
        Ok(client)
    }

    fn put_line(&mut self, line: &str) {
        self.connection.output.extend_from_slice(line.as_bytes());
        self.connection.output.extend_from_slice(b"\r\n");
    }

    /// Publishes a message whose answer has this number.
    fn publish(&mut self, subject: &str, nth: u64, payload: &[u8]) {
        self.put_line(&format!("PUB {subject} {}.{nth} {}", self.inbox, payload.len()));
        self.connection.output.extend_from_slice(payload);
        self.connection.output.extend_from_slice(b"\r\n");
    }

    fn acknowledge(&mut self, reply: &str) {
        self.put_line(&format!("PUB {reply} 4\r\n+ACK"));
    }

    /// Waits until the server has processed all output.
    fn flush(&mut self) -> Result<(), PeerFault> {
        self.put_line("PING");
        self.connection.send()?;
        loop {
            let line = self.connection.line()?;
            if line == "PONG" {
                return Ok(());
            }
            // A late message; nothing waits for it any more.
            if let Some(length) = line.split(' ').next_back().filter(|_| line.contains("MSG ")) {
                let length = length.parse()?;
                self.connection.block(length)?;
            }
        }
    }

    /// The next message.
    fn message(&mut self) -> Result<NatsMessage, PeerFault> {
        loop {
            let line = self.connection.line()?.to_owned();
            let words: Vec<&str> = line.split(' ').collect();
            let (subject, reply, head, length) = match words[..] {
                ["PING"] => {
                    self.put_line("PONG");
                    self.connection.send()?;
                    continue;
                }
                ["MSG", subject, _, length] => (subject, None, "0", length),
                ["MSG", subject, _, reply, length] => (subject, Some(reply), "0", length),
                ["HMSG", subject, _, head, length] => (subject, None, head, length),
                ["HMSG", subject, _, reply, head, length] => (subject, Some(reply), head, length),
                _ => return Err(format!("unexpected answer of nats: `{line}`").into()),
            };
            let (head, length): (usize, usize) = (head.parse()?, length.parse()?);
            let nth = subject.rsplit('.').next().and_then(|nth| nth.parse().ok());
            let payload = self.connection.block(length)?[head..].to_vec();
            return Ok(NatsMessage { nth, reply: reply.map(str::to_owned), payload });
        }
    }

    /// Sends a request to the JetStream API, and returns its answer.
    fn request(&mut self, subject: &str, body: &Value) -> Result<Value, PeerFault> {
        self.publish(&format!("$JS.API.{subject}"), 0, body.to_string().as_bytes());
        self.connection.send()?;
        let response: Value = serde_json::from_slice(&self.message()?.payload)?;
        match response.get("error") {
            Some(error) => Err(format!("{subject}: {error}").into()),
            None => Ok(response),
        }
    }

    fn make_stream(&mut self, storage: &str) -> Result<(), PeerFault> {
        let stream = json!({
            "name": "JOBS", "subjects": ["jobs"], "retention": "workqueue", "storage": storage,
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "num_replicas": 1,
        });
        self.request("STREAM.CREATE.JOBS", &stream)?;
        let config = json!({ "durable_name": "work", "ack_policy": "explicit", "deliver_policy": "all",
            "replay_policy": "instant", "max_ack_pending": 1000 });
        let consumer = json!({ "stream_name": "JOBS", "config": config });
        self.request("CONSUMER.DURABLE.CREATE.JOBS.work", &consumer).map(drop)
    }

    /// Messages in the stream after the last acknowledgements were handled.
    fn left(&mut self) -> Result<u64, PeerFault> {
        let start = Instant::now();
        loop {
            let info = self.request("STREAM.INFO.JOBS", &json!({}))?;
            let left = info["state"]["messages"].as_u64().ok_or("no count of messages")?;
            if left == 0 || start.elapsed() > SETTLE_TIMEOUT {
                return Ok(left);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl PeerProducer for NatsClient {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault> {
        jobs.for_each(|job| self.publish("jobs", job, &job::with(job)));
        self.connection.send()
    }

    fn answer(&mut self) -> Result<u64, PeerFault> {
        let mut n = 0;
        while n == 0 || self.connection.has_more() {
            let response = self.message()?.payload;
            if !response.starts_with(br#"{"stream":"#) {
                return Err(format!(
                    "unexpected answer of nats: `{}`",
                    String::from_utf8_lossy(&response)
                )
                .into());
            }
            n += 1;
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_parsed_from_the_output() {
        assert_eq!(version("nats-server: v2.9.10\n"), Some((2, 9)));
        assert!(version("nats-server: v2.10.1").is_some_and(|version| version >= CAN_SYNC));
        assert_eq!(version("nats-server"), None);
    }
}
