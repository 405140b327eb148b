//! What can be said to `crore bench`, and what it comes to.

use std::path::PathBuf;
use std::time::Duration;

use crore_wire::words::{Period, Size};

use super::doors::Door;
use super::ledger;
use super::payload;
use crate::cli::Remote;
use crate::environment;
use crate::exit::{Failure, Why};
use crate::out::Format;

const ABOUT: &str = "\
How jobs travel, by door:
  grpc     batches on a push stream; workers with a stream each, and slots
  http     POST /v1/jobs; workers fetch as many as they have slots for
  lakh     a call of Work for each batch; workers get jobs as fast as they read
  jobber   POST /jobber/queue, one job a call; workers as for http
  lightjq  POST /job, one job a call; push workers, whom the server calls

Without --server (or CRORE_SERVER) it starts a server of its own, with its jobs in a temporary directory. On a named \
server it uses a queue of its own (lightjq: a name of its own), and removes what it pushed. A token needs the scopes \
push, work, read and operate.

With --rate, latency counts from when a push should have begun, also if it had to wait. Without it, pushes come as fast \
as they are answered and jobs wait behind each other: for latency, name a rate below what the server can do.

Examples:
  crore bench                                     what this machine can do
  crore bench --rate 1000 --batch 1               latency at a thousand a second
  crore bench --door http --workers 0 -o json     pushes alone, for a script

Exit codes: 0 every job was finished once, 1 some were lost or doubled or it could not be done, and as usual.";

/// What can be said.
#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Args {
    /// By which protocol
    #[arg(long, value_enum, default_value = "grpc")]
    door: Door,
    /// How many push
    #[arg(long, value_name = "N", default_value = "1")]
    producers: usize,
    /// How many work; with 0, jobs are only pushed [default: 1; http, jobber and lightjq: 4]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How many jobs a worker has at once [default: 100; lakh has no such thing]
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// How large the payload of a job is
    #[arg(long, value_name = "SIZE", default_value = "250B", value_parser = str::parse::<Size>)]
    payload: Size,
    /// How many jobs one push has [default: 100, or 4MiB; jobber and lightjq: 1]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// How many pushes of a producer are under way at once [default: 16; jobber and lightjq: 64]
    #[arg(long, value_name = "N")]
    in_flight: Option<usize>,
    /// How many jobs a second are pushed in all [default: as many as are answered]
    #[arg(long, value_name = "JOBS")]
    rate: Option<f64>,
    /// For how long jobs are pushed
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = str::parse::<Period>)]
    duration: Period,
    /// Or how many are pushed
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    jobs: Option<u64>,
    /// How many jobs may be pushed and not finished before pushing waits; 0: any number [default: 10000, or
    /// twice what can be under way if that is more]
    #[arg(long, value_name = "N")]
    backlog: Option<usize>,
    /// How long nothing may happen at the end before jobs that have not come are lost
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = str::parse::<Period>)]
    settle: Period,
    /// Have done jobs removed at once, and not kept as usual; grpc and http
    #[arg(long)]
    discard: bool,
    /// Where a server of its own has its directory [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    pub(super) data: Option<PathBuf>,
    /// The server [default: one of its own]
    #[arg(long, value_name = "URL", env = environment::SERVER, help_heading = "Server")]
    server: Option<String>,
    /// A file with the token to show to the server; or set CRORE_TOKEN
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// A file with the certificates to trust by https, instead of those that the system trusts
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_name = "FORMAT", default_value = "table", display_order = 900)]
    pub(super) output: Format,
}

/// What is done.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) door: Door,
    pub(super) producers: usize,
    pub(super) workers: usize,
    pub(super) slots: u32,
    /// Bytes.
    pub(super) payload: usize,
    pub(super) batch: u64,
    pub(super) in_flight: usize,
    pub(super) rate: Option<f64>,
    pub(super) end: End,
    pub(super) backlog: Option<usize>,
    pub(super) settle: Duration,
    pub(super) discard: bool,
}

/// When pushing ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    After(Duration),
    Jobs(u64),
}

/// The most connections, and calls under way, in all.
const MOST_AT_ONCE: usize = 10_000;

/// The most bytes of payloads in one push.
const MOST_BYTES: u64 = 64 << 20;
/// And unless told otherwise: less than a server takes that nobody has configured.
const USUAL_BYTES: u64 = 4 << 20;

impl Args {
    /// The server that is named, and how to speak to it.
    pub(super) fn remote(&self) -> Option<Remote> {
        let server = self.server.clone()?;
        Some(self.remote_at(server))
    }

    pub(super) fn remote_at(&self, server: String) -> Remote {
        let (token_file, ca) = (self.token_file.clone(), self.ca.clone());
        Remote { server, token_file, ca, output: self.output }
    }

    /// What all of it comes to, or what is wrong with it.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let door = self.door;
        let workers = self.workers.unwrap_or(door.workers());
        let in_flight = self.in_flight.unwrap_or(door.in_flight());
        at_least_one("--producers", self.producers)?;
        at_least_one("--in-flight", in_flight)?;
        within("--producers", self.producers.saturating_mul(in_flight), MOST_AT_ONCE)?;
        within("--workers", workers, MOST_AT_ONCE)?;
        Ok(Plan {
            door,
            producers: self.producers,
            workers,
            slots: self.slots()?,
            payload: self.payload()?,
            batch: self.batch()?,
            in_flight,
            rate: self.rate()?,
            end: self.end()?,
            backlog: self.backlog(workers, in_flight)?,
            settle: self.settle.0.into(),
            discard: match (self.discard, door) {
                (true, Door::Lakh | Door::Jobber | Door::Lightjq) => {
                    return wrong(format!("--discard: {door} has no word for it"));
                }
                (discard, _) => discard,
            },
        })
    }

    fn slots(&self) -> anyhow::Result<u32> {
        match (self.slots, self.door) {
            (Some(_), Door::Lakh) => wrong(
                "--slots: a worker of lakh has none: it gets jobs as fast as it reads".to_owned(),
            ),
            (slots, door) => {
                let slots = slots.unwrap_or(100);
                at_least_one("--slots", slots as usize)?;
                within("--slots", slots as usize, door.most_slots())?;
                Ok(slots)
            }
        }
    }

    fn payload(&self) -> anyhow::Result<usize> {
        let bytes = usize::try_from(self.payload.0).unwrap_or(usize::MAX);
        if bytes < payload::LEAST {
            let why = "a job carries its number, and when it was pushed";
            return wrong(format!("--payload: at least {}B: {why}", payload::LEAST));
        }
        if self.payload.0 > MOST_BYTES {
            return wrong(format!("--payload: at most {}", Size(MOST_BYTES)));
        }
        Ok(bytes)
    }

    fn batch(&self) -> anyhow::Result<u64> {
        // Large payloads come in small batches, unless told otherwise.
        let usual = self.door.batch().min(USUAL_BYTES / self.payload()? as u64).max(1);
        let batch = self.batch.unwrap_or(usual);
        at_least_one("--batch", usize::try_from(batch).unwrap_or(usize::MAX))?;
        match (batch, self.door) {
            (2.., Door::Jobber | Door::Lightjq) => {
                wrong(format!("--batch: {} takes one job a call", self.door))
            }
            (1001.., _) => wrong("--batch: at most 1000".to_owned()),
            _ if batch.saturating_mul(self.payload.0) > MOST_BYTES => {
                let (payload, most) = (self.payload, Size(MOST_BYTES));
                wrong(format!("--batch: {batch} payloads of {payload} are more than {most}"))
            }
            _ => Ok(batch),
        }
    }

    fn rate(&self) -> anyhow::Result<Option<f64>> {
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= 1e8) => wrong(format!(
                "--rate: `{rate}` is no number of jobs a second; leave it out for as many as can be"
            )),
            rate => Ok(rate),
        }
    }

    fn end(&self) -> anyhow::Result<End> {
        match self.jobs {
            Some(0) => wrong("--jobs: at least 1".to_owned()),
            Some(jobs) if jobs > ledger::MOST => {
                wrong(format!("--jobs: at most {} can be accounted for", ledger::MOST))
            }
            Some(jobs) => Ok(End::Jobs(jobs)),
            None if self.duration.0.as_millis() == 0 => {
                wrong("--duration: it has to be longer than that".to_owned())
            }
            None => Ok(End::After(self.duration.0.into())),
        }
    }

    /// So many that neither side waits for the other for want of jobs.
    fn backlog(&self, workers: usize, in_flight: usize) -> anyhow::Result<Option<usize>> {
        let batch = usize::try_from(self.batch()?).unwrap_or(usize::MAX);
        match self.backlog {
            // Nobody would ever make room.
            _ if workers == 0 => Ok(None),
            Some(0) => Ok(None),
            Some(n) if n < batch => wrong(format!("--backlog: not even one batch of {batch} fits")),
            Some(n) => Ok(Some(n)),
            None => {
                let slots = workers * self.slots.unwrap_or(100) as usize;
                Ok(Some((2 * (self.producers * in_flight * batch + slots)).max(10_000)))
            }
        }
    }
}

impl Plan {
    /// The most jobs that are pushed: with a rate, those that are due in the time.
    pub(super) fn most(&self) -> u64 {
        match (self.end, self.rate) {
            (End::Jobs(jobs), _) => jobs,
            (End::After(span), Some(rate)) => {
                ((rate * span.as_secs_f64()).ceil() as u64).clamp(1, ledger::MOST)
            }
            (End::After(_), None) => ledger::MOST,
        }
    }
}

fn wrong<T>(message: String) -> anyhow::Result<T> {
    Err(Failure::new(Why::Usage, message).into())
}

fn at_least_one(flag: &str, n: usize) -> anyhow::Result<()> {
    if n == 0 { wrong(format!("{flag}: at least 1")) } else { Ok(()) }
}

fn within(flag: &str, n: usize, most: usize) -> anyhow::Result<()> {
    if n > most { wrong(format!("{flag}: {n} is too many; at most {most}")) } else { Ok(()) }
}
