//! NATS with JetStream: a work queue, asynchronous publishes that are acknowledged, and a pull consumer that
//! asks for more when half of what it asked for has come. Acknowledgements of work are not answered; at the
//! end the stream has to be empty.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crore_testkit::{Package, Process};
use serde_json::{Value, json};

use crate::job::{self, SLOTS};
use crate::ledger::Ledger;
use crate::line::Line;
use crate::peer::{Durability, Fault, Peer, Setting};
use crate::produce::{Producer, produce};
use crate::server;

const MEMORY: Setting = Setting::new("memory", Durability::None);
const FILE: Setting = Setting::new("file", Durability::Later("every 2 min"));
const SYNCED: Setting = Setting::new("sync", Durability::Synced);
/// The first version that can sync before it answers.
const CAN_SYNC: (u32, u32) = (2, 10);

const SCRIPT: &str = r#"
port=$1
printf '%s' "$2" >nats.conf
exec nats-server -c nats.conf -a 127.0.0.1 -p "$port"
"#;

/// How long a worker asks at most.
const NAP: Duration = Duration::from_millis(200);
/// How long a server has to handle the last acknowledgements.
const LAST: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Nats;

impl Peer for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn packages(&self) -> Vec<Package> {
        vec![Package::Other { name: "nats-server", programs: &["nats-server"] }]
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        let said = Command::new("nats-server").arg("--version").output()?.stdout;
        let said = String::from_utf8_lossy(&said);
        let version = version(&said).ok_or_else(|| format!("`{said}` has no version"))?;
        Ok([MEMORY, FILE].into_iter().chain((version >= CAN_SYNC).then_some(SYNCED)).collect())
    }

    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault> {
        let sync = if *setting == SYNCED { "sync_interval: always" } else { "" };
        let options = format!("jetstream {{ store_dir: data\n{sync} }}\n");
        server::start("nats", SCRIPT, &[&options], below)
    }

    fn drive(&self, setting: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault> {
        let mut client = Client::open(port)?;
        client.make_stream(if *setting == MEMORY { "memory" } else { "file" })?;
        let (mut pushing, mut working) = (Client::open(port)?, Client::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        client.left()
    }
}

/// Of `nats-server: v2.9.10`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().rsplit_once('v')?.1.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Several requests may be on their way; together they ask for no more than there are slots.
fn work(ledger: &Ledger, client: &mut Client) -> Result<(), Fault> {
    let mut asked: VecDeque<(u64, usize)> = VecDeque::new();
    let mut nth = 0;
    let mut done = Vec::with_capacity(SLOTS);
    loop {
        let wanted: usize = asked.iter().map(|(_, n)| n).sum();
        if wanted <= SLOTS / 2 {
            let more = json!({ "batch": SLOTS - wanted, "expires": NAP.as_nanos() as u64 });
            client.publish("$JS.API.CONSUMER.MSG.NEXT.JOBS.work", nth, more.to_string().as_bytes());
            asked.push_back((nth, SLOTS - wanted));
            nth += 1;
        }
        client.line.send()?;
        ledger.finished(done.drain(..));
        if ledger.is_over() {
            return client.flush();
        }
        loop {
            let message = client.message()?;
            match message.reply {
                // The oldest request is served first.
                Some(reply) => {
                    if let Some((_, n)) = asked.front_mut() {
                        *n = n.saturating_sub(1);
                    }
                    let number = job::number(&message.payload);
                    ledger.ran([number]);
                    client.acknowledge(&reply);
                    done.push(number);
                }
                // What it says instead is that a request has ended.
                None => asked.retain(|(nth, _)| Some(*nth) != message.nth),
            }
            asked.retain(|(_, n)| *n > 0);
            if !client.line.has_more() || done.len() >= SLOTS / 2 {
                break;
            }
        }
    }
}

/// What came to one of our inboxes.
#[derive(Debug)]
struct Message {
    /// The number of what it answers; a job has none.
    nth: Option<u64>,
    reply: Option<String>,
    payload: Vec<u8>,
}

/// A connection with an inbox of its own, in which a number says what is answered.
#[derive(Debug)]
struct Client {
    line: Line,
    inbox: String,
}

impl Client {
    fn open(port: u16) -> Result<Self, Fault> {
        static INBOXES: AtomicU64 = AtomicU64::new(0);
        let inbox = format!("_INBOX.{}", INBOXES.fetch_add(1, Ordering::Relaxed));
        let mut client = Self { line: Line::open(port)?, inbox };
        client.line.line()?;
        client.say(r#"CONNECT {"verbose":false,"pedantic":false,"headers":true}"#);
        client.say(&format!("SUB {}.* 1", client.inbox));
        client.flush()?;
        Ok(client)
    }

    fn say(&mut self, words: &str) {
        self.line.say.extend_from_slice(words.as_bytes());
        self.line.say.extend_from_slice(b"\r\n");
    }

    /// A message whose answer has this number.
    fn publish(&mut self, subject: &str, nth: u64, payload: &[u8]) {
        self.say(&format!("PUB {subject} {}.{nth} {}", self.inbox, payload.len()));
        self.line.say.extend_from_slice(payload);
        self.line.say.extend_from_slice(b"\r\n");
    }

    fn acknowledge(&mut self, reply: &str) {
        self.say(&format!("PUB {reply} 4\r\n+ACK"));
    }

    /// Waits until the server has heard everything that was said.
    fn flush(&mut self) -> Result<(), Fault> {
        self.say("PING");
        self.line.send()?;
        loop {
            let line = self.line.line()?;
            if line == "PONG" {
                return Ok(());
            }
            // A message that nobody waits for any more.
            if let Some(length) = line.split(' ').next_back().filter(|_| line.contains("MSG ")) {
                let length = length.parse()?;
                self.line.block(length)?;
            }
        }
    }

    /// The next message.
    fn message(&mut self) -> Result<Message, Fault> {
        loop {
            let line = self.line.line()?.to_owned();
            let words: Vec<&str> = line.split(' ').collect();
            let (subject, reply, head, length) = match words[..] {
                ["PING"] => {
                    self.say("PONG");
                    self.line.send()?;
                    continue;
                }
                ["MSG", subject, _, length] => (subject, None, "0", length),
                ["MSG", subject, _, reply, length] => (subject, Some(reply), "0", length),
                ["HMSG", subject, _, head, length] => (subject, None, head, length),
                ["HMSG", subject, _, reply, head, length] => (subject, Some(reply), head, length),
                _ => return Err(format!("nats said `{line}`").into()),
            };
            let (head, length): (usize, usize) = (head.parse()?, length.parse()?);
            let nth = subject.rsplit('.').next().and_then(|nth| nth.parse().ok());
            let payload = self.line.block(length)?[head..].to_vec();
            return Ok(Message { nth, reply: reply.map(str::to_owned), payload });
        }
    }

    /// Asks the server for something, and gives its answer.
    fn ask(&mut self, subject: &str, what: &Value) -> Result<Value, Fault> {
        self.publish(&format!("$JS.API.{subject}"), 0, what.to_string().as_bytes());
        self.line.send()?;
        let answer: Value = serde_json::from_slice(&self.message()?.payload)?;
        match answer.get("error") {
            Some(error) => Err(format!("{subject}: {error}").into()),
            None => Ok(answer),
        }
    }

    fn make_stream(&mut self, storage: &str) -> Result<(), Fault> {
        let stream = json!({
            "name": "JOBS", "subjects": ["jobs"], "retention": "workqueue", "storage": storage,
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "num_replicas": 1,
        });
        self.ask("STREAM.CREATE.JOBS", &stream)?;
        let config = json!({ "durable_name": "work", "ack_policy": "explicit", "deliver_policy": "all",
            "replay_policy": "instant", "max_ack_pending": 1000 });
        let consumer = json!({ "stream_name": "JOBS", "config": config });
        self.ask("CONSUMER.DURABLE.CREATE.JOBS.work", &consumer).map(drop)
    }

    /// What is in the stream when the last acknowledgements were handled.
    fn left(&mut self) -> Result<u64, Fault> {
        let start = Instant::now();
        loop {
            let info = self.ask("STREAM.INFO.JOBS", &json!({}))?;
            let left = info["state"]["messages"].as_u64().ok_or("no count of messages")?;
            if left == 0 || start.elapsed() > LAST {
                return Ok(left);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Producer for Client {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault> {
        jobs.for_each(|job| self.publish("jobs", job, &job::with(job)));
        self.line.send()
    }

    fn answer(&mut self) -> Result<u64, Fault> {
        let mut n = 0;
        while n == 0 || self.line.has_more() {
            let answer = self.message()?.payload;
            if !answer.starts_with(br#"{"stream":"#) {
                return Err(format!("nats said `{}`", String::from_utf8_lossy(&answer)).into());
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
    fn a_version_is_read_from_what_the_program_says() {
        assert_eq!(version("nats-server: v2.9.10\n"), Some((2, 9)));
        assert!(version("nats-server: v2.10.1").is_some_and(|version| version >= CAN_SYNC));
        assert_eq!(version("nats-server"), None);
    }
}
