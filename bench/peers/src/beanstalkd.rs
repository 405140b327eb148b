//! beanstalkd: `put`, `reserve` and `delete`, pipelined. A server takes one word of each connection in turn; a job has
//! one word of its producer and two of its worker, which therefore has two connections.

use std::collections::VecDeque;
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
const SYNCED: Setting = Setting::new("-f0", Durability::Synced);

const SCRIPT: &str = r#"
port=$1
shift
exec beanstalkd -l 127.0.0.1 -p "$port" "$@"
"#;

/// A worker's connections, each with its share of the slots.
const CONNECTIONS: usize = 2;

#[derive(Debug)]
pub(crate) struct Beanstalkd;

impl Peer for Beanstalkd {
    fn name(&self) -> &'static str {
        "beanstalkd"
    }

    fn packages(&self) -> Vec<Package> {
        vec![Package::Other { name: "beanstalkd", programs: &["beanstalkd"] }]
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        Ok(vec![MEMORY, SYNCED])
    }

    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault> {
        let options: &[&str] = if *setting == SYNCED { &["-b", ".", "-f0"] } else { &[] };
        server::start("beanstalkd", SCRIPT, options, below)
    }

    fn drive(&self, _: &Setting, port: u16, ledger: &Arc<Ledger>) -> Result<u64, Fault> {
        let mut pushing = Client::open(port)?;
        thread::scope(|scope| {
            let mut threads = vec![scope.spawn(move || produce(ledger, &mut pushing))];
            for _ in 0..CONNECTIONS {
                threads.push(scope.spawn(move || work(ledger, &mut Client::open(port)?)));
            }
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a panic")?)
        })?;
        Client::open(port)?.left()
    }
}

fn work(ledger: &Ledger, client: &mut Client) -> Result<(), Fault> {
    const SHARE: usize = SLOTS / CONNECTIONS;
    let mut held: Vec<Reserved> = Vec::new();
    while !ledger.is_over() {
        // No more is asked for than is likely to be there: a refusal takes as long as a job.
        let asked = (2 * held.len()).clamp(1, SHARE);
        for job in &held {
            client.say(&format!("delete {}", job.id));
        }
        for _ in 0..asked {
            client.say("reserve-with-timeout 0");
        }
        client.line.send()?;
        for _ in &held {
            client.expect("DELETED")?;
        }
        ledger.finished(held.drain(..).map(|job| job.number));
        for _ in 0..asked {
            held.extend(client.reserved()?);
        }
        if held.is_empty() && !ledger.is_over() {
            client.say("reserve-with-timeout 1");
            client.line.send()?;
            held.extend(client.reserved()?);
        }
        ledger.ran(held.iter().map(|job| job.number));
    }
    Ok(())
}

#[derive(Debug)]
struct Reserved {
    id: u64,
    number: Option<u64>,
}

#[derive(Debug)]
struct Client {
    line: Line,
    batches: VecDeque<u64>,
}

impl Client {
    fn open(port: u16) -> Result<Self, Fault> {
        Ok(Self { line: Line::open(port)?, batches: VecDeque::new() })
    }

    fn say(&mut self, words: &str) {
        self.line.say.extend_from_slice(words.as_bytes());
        self.line.say.extend_from_slice(b"\r\n");
    }

    fn expect(&mut self, word: &str) -> Result<(), Fault> {
        let line = self.line.line()?;
        if line.split(' ').next() == Some(word) {
            Ok(())
        } else {
            Err(format!("beanstalkd said `{line}` and not `{word}`").into())
        }
    }

    fn reserved(&mut self) -> Result<Option<Reserved>, Fault> {
        let line = self.line.line()?.to_owned();
        let strange = || format!("beanstalkd said `{line}`");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["TIMED_OUT"] => Ok(None),
            ["RESERVED", id, length] => {
                let id = id.parse().map_err(|_| strange())?;
                let length = length.parse().map_err(|_| strange())?;
                Ok(Some(Reserved { id, number: job::number(self.line.block(length)?) }))
            }
            _ => Err(strange().into()),
        }
    }

    /// Jobs that wait, and jobs that somebody has.
    fn left(&mut self) -> Result<u64, Fault> {
        self.say("stats");
        self.line.send()?;
        let length = self.line.line()?.strip_prefix("OK ").ok_or("no statistics")?.parse()?;
        let stats = str::from_utf8(self.line.block(length)?)?;
        let count = |name| {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|n| n.trim().parse::<u64>().ok()).ok_or("no such statistics")
        };
        Ok(count("current-jobs-ready:")? + count("current-jobs-reserved:")?)
    }
}

impl Producer for Client {
    fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault> {
        self.batches.push_back(jobs.end - jobs.start);
        for job in jobs {
            self.say(&format!("put 0 0 60 {}", job::BYTES));
            self.line.say.extend_from_slice(&job::with(job));
            self.line.say.extend_from_slice(b"\r\n");
        }
        self.line.send()
    }

    fn answer(&mut self) -> Result<u64, Fault> {
        let n = self.batches.pop_front().ok_or("an answer to nothing")?;
        (0..n).try_for_each(|_| self.expect("INSERTED"))?;
        Ok(n)
    }
}
