//! Redis lists as a queue that loses nothing when a worker dies: `RPUSH` of many, `LMOVE` to a list of what
//! is being done, `LREM` from there. Moves and removals of all slots travel together.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crore_testkit::{Package, Process};

use crate::job::{self, SLOTS};
use crate::ledger::Ledger;
use crate::line::Line;
use crate::peer::{Durability, Fault, Peer, Setting};
use crate::produce::{Producer, produce};
use crate::server;

const MEMORY: Setting = Setting::new("memory", Durability::None);
pub(crate) const EVERY_SECOND: Setting =
    Setting::new("everysec", Durability::Later("every second"));
pub(crate) const ALWAYS: Setting = Setting::new("always", Durability::Synced);

const SCRIPT: &str = r#"
port=$1
shift
exec redis-server --port "$port" --bind 127.0.0.1 --dir "$PWD" --save '' --daemonize no "$@"
"#;

const WAITING: &str = "jobs";
const UNDER_WAY: &str = "jobs:active";

/// How long a worker sleeps at most when there is nothing to do, in seconds.
const NAP: &str = "0.2";

#[derive(Debug)]
pub(crate) struct Redis;

impl Peer for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn packages(&self) -> Vec<Package> {
        vec![Package::Redis]
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        Ok(vec![MEMORY, EVERY_SECOND, ALWAYS])
    }

    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault> {
        let sync = match setting.durability {
            Durability::None => {
                return server::start("redis", SCRIPT, &["--appendonly", "no"], below);
            }
            Durability::Later(_) => "everysec",
            Durability::Synced => "always",
        };
        let options = ["--appendonly", "yes", "--appendfsync", sync];
        server::start("redis", SCRIPT, &options, below)
    }

    fn drive(&self, _: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault> {
        let (mut pushing, mut working) = (Client::open(port)?, Client::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        let mut client = Client::open(port)?;
        [WAITING, UNDER_WAY].iter().map(|list| client.length(list)).sum()
    }
}

/// Whatever runs, runs at once; what is done is removed in the same breath as the next are moved.
fn work(ledger: &Ledger, client: &mut Client) -> Result<(), Fault> {
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(SLOTS);
    while !ledger.is_over() {
        for job in &held {
            client.say(&[b"LREM", UNDER_WAY.as_bytes(), b"1", job]);
        }
        for _ in 0..SLOTS {
            client.say(&[b"LMOVE", WAITING.as_bytes(), UNDER_WAY.as_bytes(), b"LEFT", b"RIGHT"]);
        }
        client.line.send()?;
        for job in &held {
            if client.number()? != 1 {
                return Err(format!("{:?} was not there to be removed", job::number(job)).into());
            }
        }
        ledger.finished(held.drain(..).map(|job| job::number(&job)));
        for _ in 0..SLOTS {
            held.extend(client.value()?);
        }
        if held.is_empty() && !ledger.is_over() {
            let (from, to) = (WAITING.as_bytes(), UNDER_WAY.as_bytes());
            client.say(&[b"BLMOVE", from, to, b"LEFT", b"RIGHT", NAP.as_bytes()]);
            client.line.send()?;
            held.extend(client.value()?);
        }
        ledger.ran(held.iter().map(|job| job::number(job)));
    }
    Ok(())
}

/// A connection, and the batches that it has pushed.
#[derive(Debug)]
struct Client {
    line: Line,
    batches: std::collections::VecDeque<u64>,
}

impl Client {
    fn open(port: u16) -> Result<Self, Fault> {
        Ok(Self { line: Line::open(port)?, batches: Default::default() })
    }

    fn say(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    fn begin(&mut self, words: usize) {
        self.line.say.extend_from_slice(format!("*{words}\r\n").as_bytes());
    }

    fn word(&mut self, word: &[u8]) {
        let say = &mut self.line.say;
        say.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        say.extend_from_slice(word);
        say.extend_from_slice(b"\r\n");
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let line = self.line.line()?;
        let number = line.strip_prefix(':').and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("redis said `{line}`").into())
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let line = self.line.line()?;
        // No value, and no array of values.
        if line == "$-1" || line == "*-1" {
            return Ok(None);
        }
        let length = line.strip_prefix('$').and_then(|length| length.parse().ok());
        let length = length.ok_or_else(|| format!("redis said `{line}`"))?;
        Ok(Some(self.line.block(length)?.to_vec()))
    }

    fn length(&mut self, list: &str) -> Result<u64, Fault> {
        self.say(&[b"LLEN", list.as_bytes()]);
        self.line.send()?;
        self.number()
    }
}

impl Producer for Client {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault> {
        let n = jobs.end - jobs.start;
        self.batches.push_back(n);
        self.begin(2 + n as usize);
        self.word(b"RPUSH");
        self.word(WAITING.as_bytes());
        jobs.for_each(|job| self.word(&job::with(job)));
        self.line.send()
    }

    fn answer(&mut self) -> Result<u64, Fault> {
        self.number()?;
        Ok(self.batches.pop_front().ok_or("an answer to nothing")?)
    }
}
