//! Redis lists as a queue that loses nothing when a worker dies: `RPUSH` of a batch, `LMOVE` to a list of active jobs,
//! `LREM` from there. Moves and removals of all slots are pipelined.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crore_testkit::{DebianPackage, SupervisedServer};

use crate::connection::PeerConnection;
use crate::job::{self, SLOTS};
use crate::ledger::PeerLedger;
use crate::peer::{PeerDurability, PeerFault, PeerSetting, QueuePeer};
use crate::produce::{PeerProducer, produce};
use crate::server;

const MEMORY: PeerSetting = PeerSetting::new("memory", PeerDurability::None);
pub(crate) const EVERY_SECOND: PeerSetting =
    PeerSetting::new("everysec", PeerDurability::Later("every second"));
pub(crate) const ALWAYS: PeerSetting = PeerSetting::new("always", PeerDurability::Synced);

const SCRIPT: &str = r#"
port=$1
shift
exec redis-server --port "$port" --bind 127.0.0.1 --dir "$PWD" --save '' --daemonize no "$@"
"#;

const WAITING: &str = "jobs";
const ACTIVE: &str = "jobs:active";

/// How long a worker blocks when there is no job, in seconds.
const BLOCK_SECONDS: &str = "0.2";

#[derive(Debug)]
pub(crate) struct RedisPeer;

impl QueuePeer for RedisPeer {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        vec![DebianPackage::Redis]
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        Ok(vec![MEMORY, EVERY_SECOND, ALWAYS])
    }

    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        let sync = match setting.durability {
            PeerDurability::None => {
                return server::start("redis", SCRIPT, &["--appendonly", "no"], below);
            }
            PeerDurability::Later(_) => "everysec",
            PeerDurability::Synced => "always",
        };
        let options = ["--appendonly", "yes", "--appendfsync", sync];
        server::start("redis", SCRIPT, &options, below)
    }

    fn drive(
        &self,
        _: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault> {
        let (mut pushing, mut working) = (RedisClient::open(port)?, RedisClient::open(port)?);
        thread::scope(|scope| {
            let producer = scope.spawn(move || produce(ledger, &mut pushing));
            work(ledger, &mut working)?;
            producer.join().map_err(|_| "the producer panicked")?
        })?;
        let mut client = RedisClient::open(port)?;
        [WAITING, ACTIVE].iter().map(|list| client.length(list)).sum()
    }
}

/// Jobs take no time; the removal of finished ones and the move of the next ones share a write.
fn work(ledger: &PeerLedger, client: &mut RedisClient) -> Result<(), PeerFault> {
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(SLOTS);
    while !ledger.is_over() {
        for job in &held {
            client.put_command(&[b"LREM", ACTIVE.as_bytes(), b"1", job]);
        }
        for _ in 0..SLOTS {
            client.put_command(&[
                b"LMOVE",
                WAITING.as_bytes(),
                ACTIVE.as_bytes(),
                b"LEFT",
                b"RIGHT",
            ]);
        }
        client.connection.send()?;
        for job in &held {
            if client.number()? != 1 {
                return Err(format!("{:?} was not in the active list", job::number(job)).into());
            }
        }
        ledger.finished(held.drain(..).map(|job| job::number(&job)));
        for _ in 0..SLOTS {
            held.extend(client.value()?);
        }
        if held.is_empty() && !ledger.is_over() {
            let (from, to) = (WAITING.as_bytes(), ACTIVE.as_bytes());
            client.put_command(&[b"BLMOVE", from, to, b"LEFT", b"RIGHT", BLOCK_SECONDS.as_bytes()]);
            client.connection.send()?;
            held.extend(client.value()?);
        }
        ledger.ran(held.iter().map(|job| job::number(job)));
    }
    Ok(())
}

/// A connection, and the batches that it has pushed.
#[derive(Debug)]
struct RedisClient {
    connection: PeerConnection,
    batches: std::collections::VecDeque<u64>,
}

impl RedisClient {
    fn open(port: u16) -> Result<Self, PeerFault> {
        Ok(Self { connection: PeerConnection::open(port)?, batches: Default::default() })
    }

    fn put_command(&mut self, words: &[&[u8]]) {
        self.put_array(words.len());
        words.iter().for_each(|word| self.put_bulk_string(word));
    }

    fn put_array(&mut self, words: usize) {
        self.connection.output.extend_from_slice(format!("*{words}\r\n").as_bytes());
    }

    fn put_bulk_string(&mut self, word: &[u8]) {
        let say = &mut self.connection.output;
        say.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        say.extend_from_slice(word);
        say.extend_from_slice(b"\r\n");
    }

    fn number(&mut self) -> Result<u64, PeerFault> {
        let line = self.connection.line()?;
        let number = line.strip_prefix(':').and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("unexpected answer of redis: `{line}`").into())
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>, PeerFault> {
        let line = self.connection.line()?;
        // A null value or a null array.
        if line == "$-1" || line == "*-1" {
            return Ok(None);
        }
        let length = line.strip_prefix('$').and_then(|length| length.parse().ok());
        let length = length.ok_or_else(|| format!("unexpected answer of redis: `{line}`"))?;
        Ok(Some(self.connection.block(length)?.to_vec()))
    }

    fn length(&mut self, list: &str) -> Result<u64, PeerFault> {
        self.put_command(&[b"LLEN", list.as_bytes()]);
        self.connection.send()?;
        self.number()
    }
}

impl PeerProducer for RedisClient {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault> {
        let n = jobs.end - jobs.start;
        self.batches.push_back(n);
        self.put_array(2 + n as usize);
        self.put_bulk_string(b"RPUSH");
        self.put_bulk_string(WAITING.as_bytes());
        jobs.for_each(|job| self.put_bulk_string(&job::with(job)));
        self.connection.send()
    }

    fn answer(&mut self) -> Result<u64, PeerFault> {
        self.number()?;
        Ok(self.batches.pop_front().ok_or("an answer to nothing")?)
    }
}
