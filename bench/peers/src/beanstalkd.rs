//! beanstalkd: `put`, `reserve` and `delete`, pipelined. The server takes one command of each connection in turn; a job
//! needs one command of its producer and two of its worker, which therefore has two connections.

use std::collections::VecDeque;
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
const SYNCED: PeerSetting = PeerSetting::new("-f0", PeerDurability::Synced);

const SCRIPT: &str = r#"
port=$1
shift
exec beanstalkd -l 127.0.0.1 -p "$port" "$@"
"#;

/// A worker's connections, each with its share of the slots.
const CONNECTIONS: usize = 2;

#[derive(Debug)]
pub(crate) struct BeanstalkdPeer;

impl QueuePeer for BeanstalkdPeer {
    fn name(&self) -> &'static str {
        "beanstalkd"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        vec![DebianPackage::Other { name: "beanstalkd", programs: &["beanstalkd"] }]
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        Ok(vec![MEMORY, SYNCED])
    }

    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        let options: &[&str] = if *setting == SYNCED { &["-b", ".", "-f0"] } else { &[] };
        server::start("beanstalkd", SCRIPT, options, below)
    }

    fn drive(
        &self,
        _: &PeerSetting,
        port: u16,
        ledger: &Arc<PeerLedger>,
    ) -> Result<u64, PeerFault> {
        let mut pushing = BeanstalkdClient::open(port)?;
        thread::scope(|scope| {
            let mut threads = vec![scope.spawn(move || produce(ledger, &mut pushing))];
            for _ in 0..CONNECTIONS {
                threads.push(scope.spawn(move || work(ledger, &mut BeanstalkdClient::open(port)?)));
            }
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a panic")?)
        })?;
        BeanstalkdClient::open(port)?.left()
    }
}

fn work(ledger: &PeerLedger, client: &mut BeanstalkdClient) -> Result<(), PeerFault> {
    const SHARE: usize = SLOTS / CONNECTIONS;
    let mut held: Vec<ReservedJob> = Vec::new();
    while !ledger.is_over() {
        // No more than the likely number of ready jobs is requested: a refusal takes as long as a job.
        let asked = (2 * held.len()).clamp(1, SHARE);
        for job in &held {
            client.put_command(&format!("delete {}", job.id));
        }
        for _ in 0..asked {
            client.put_command("reserve-with-timeout 0");
        }
        client.connection.send()?;
        for _ in &held {
            client.expect("DELETED")?;
        }
        ledger.finished(held.drain(..).map(|job| job.number));
        for _ in 0..asked {
            held.extend(client.reserved()?);
        }
        if held.is_empty() && !ledger.is_over() {
            client.put_command("reserve-with-timeout 1");
            client.connection.send()?;
            held.extend(client.reserved()?);
        }
        ledger.ran(held.iter().map(|job| job.number));
    }
    Ok(())
}

#[derive(Debug)]
struct ReservedJob {
    id: u64,
    number: Option<u64>,
}

#[derive(Debug)]
struct BeanstalkdClient {
    connection: PeerConnection,
    batches: VecDeque<u64>,
}

impl BeanstalkdClient {
    fn open(port: u16) -> Result<Self, PeerFault> {
        Ok(Self { connection: PeerConnection::open(port)?, batches: VecDeque::new() })
    }

    fn put_command(&mut self, words: &str) {
        self.connection.output.extend_from_slice(words.as_bytes());
        self.connection.output.extend_from_slice(b"\r\n");
    }

    fn expect(&mut self, word: &str) -> Result<(), PeerFault> {
        let line = self.connection.line()?;
        if line.split(' ').next() == Some(word) {
            Ok(())
        } else {
            Err(format!("beanstalkd answered `{line}`, expected `{word}`").into())
        }
    }

    fn reserved(&mut self) -> Result<Option<ReservedJob>, PeerFault> {
        let line = self.connection.line()?.to_owned();
        let strange = || format!("unexpected answer of beanstalkd: `{line}`");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["TIMED_OUT"] => Ok(None),
            ["RESERVED", id, length] => {
                let id = id.parse().map_err(|_| strange())?;
                let length = length.parse().map_err(|_| strange())?;
                Ok(Some(ReservedJob { id, number: job::number(self.connection.block(length)?) }))
            }
            _ => Err(strange().into()),
        }
    }

    /// Ready and reserved jobs.
    fn left(&mut self) -> Result<u64, PeerFault> {
        self.put_command("stats");
        self.connection.send()?;
        let length = self.connection.line()?.strip_prefix("OK ").ok_or("no statistics")?.parse()?;
        let stats = str::from_utf8(self.connection.block(length)?)?;
        let count = |name| {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|n| n.trim().parse::<u64>().ok()).ok_or("no such statistics")
        };
        Ok(count("current-jobs-ready:")? + count("current-jobs-reserved:")?)
    }
}

impl PeerProducer for BeanstalkdClient {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault> {
        self.batches.push_back(jobs.end - jobs.start);
        for job in jobs {
            self.put_command(&format!("put 0 0 60 {}", job::BYTES));
            self.connection.output.extend_from_slice(&job::with(job));
            self.connection.output.extend_from_slice(b"\r\n");
        }
        self.connection.send()
    }

    fn answer(&mut self) -> Result<u64, PeerFault> {
        let n = self.batches.pop_front().ok_or("an answer without a push")?;
        (0..n).try_for_each(|_| self.expect("INSERTED"))?;
        Ok(n)
    }
}
