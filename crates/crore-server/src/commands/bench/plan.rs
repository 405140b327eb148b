//! Arguments of `crore bench`, and the plan of a run made from them.

use std::path::PathBuf;
use std::time::Duration;

use crore_wire::units::{Period, Size};

use super::doors::BenchDoor;
use super::ledger;
use super::payload;
use crate::cli::RemoteArgs;
use crate::environment;
use crate::exit::{CliError, FailureCode};
use crate::output::OutputFormat;

const ABOUT: &str = "\
How each door pushes and delivers jobs:
  grpc     batches on a push stream; each worker has a stream, with slots
  http     POST /v1/jobs; workers fetch as many jobs as they have slots
  lakh     one Work call per batch; workers receive jobs as fast as they read
  jobber   POST /jobber/queue, one job per call; workers as for http
  lightjq  POST /job, one job per call; the server calls push workers

Without --server (or CRORE_SERVER), crore bench starts a temporary server with a temporary data directory. On an existing \
server it uses its own queue (lightjq: its own job name) and deletes its jobs at the end. A token needs the scopes push, \
work, read and operate.

With --rate, latency is measured from the time when a push should have begun, even if it had to wait. Without --rate, \
producers push as fast as the server answers and jobs queue up: to measure latency, set a rate below the server's maximum.

Examples:
  crore bench                                     maximum throughput of this machine
  crore bench --rate 1000 --batch 1               latency at 1000 jobs per second
  crore bench --door http --workers 0 -o json     push only, output for a script

Exit codes: 0 every job was finished once; 1 a job was lost or run twice, or the run failed; others as for every command.";

/// Arguments of `crore bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct LoadArgs {
    /// Protocol of producers and workers
    #[arg(long, value_enum, default_value = "grpc")]
    door: BenchDoor,
    /// Number of producers
    #[arg(long, value_name = "N", default_value = "1")]
    producers: usize,
    /// Number of workers; with 0, jobs are only pushed [default: 1; http, jobber and lightjq: 4]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Concurrent jobs per worker [default: 100; not for lakh]
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    /// Payload size of a job
    #[arg(long, value_name = "SIZE", default_value = "250B", value_parser = str::parse::<Size>)]
    payload: Size,
    /// Jobs per push [default: 100, or as many as fit in 4MiB; jobber and lightjq: 1]
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// Concurrent pushes per producer [default: 16; jobber and lightjq: 64]
    #[arg(long, value_name = "N")]
    in_flight: Option<usize>,
    /// Jobs pushed per second, in total [default: unlimited]
    #[arg(long, value_name = "JOBS")]
    rate: Option<f64>,
    /// Duration of the push phase
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = str::parse::<Period>)]
    duration: Period,
    /// Number of jobs to push, instead of --duration
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    jobs: Option<u64>,
    /// Maximum number of pushed jobs that are not finished; producers pause above it; 0: unlimited [default: 10000, or
    /// twice the number of jobs that can be in flight, if that is more]
    #[arg(long, value_name = "N")]
    backlog: Option<usize>,
    /// Idle time at the end of the run after which missing jobs count as lost
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = str::parse::<Period>)]
    settle: Period,
    /// Delete jobs when they are done, instead of the usual retention; grpc and http only
    #[arg(long)]
    discard: bool,
    /// Parent directory of the temporary server's data [default: the system's temporary directory]
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    pub(super) data: Option<PathBuf>,
    /// Server URL [default: a temporary server]
    #[arg(long, value_name = "URL", env = environment::SERVER, help_heading = "Server")]
    server: Option<String>,
    /// File with the access token; alternatively, set CRORE_TOKEN
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    token_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust for https, instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    ca: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", display_order = 900)]
    pub(super) output: OutputFormat,
}

/// Parameters of a run.
#[derive(Debug, Clone)]
pub(super) struct RunPlan {
    pub(super) door: BenchDoor,
    pub(super) producers: usize,
    pub(super) workers: usize,
    pub(super) slots: u32,
    /// In bytes.
    pub(super) payload: usize,
    pub(super) batch: u64,
    pub(super) in_flight: usize,
    pub(super) rate: Option<f64>,
    pub(super) end: PushEnd,
    pub(super) backlog: Option<usize>,
    pub(super) settle: Duration,
    pub(super) discard: bool,
}

/// When pushing ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum PushEnd {
    After(Duration),
    Jobs(u64),
}

/// Maximum number of connections and of concurrent calls.
const MAX_CONCURRENT: usize = 10_000;

/// Maximum payload bytes per push.
const MAX_PUSH_BYTES: u64 = 64 << 20;
/// Default payload bytes per push; below the server's default limit.
const DEFAULT_PUSH_BYTES: u64 = 4 << 20;

impl LoadArgs {
    /// The existing server to use, if one is named.
    pub(super) fn remote(&self) -> Option<RemoteArgs> {
        let server = self.server.clone()?;
        Some(self.remote_at(server))
    }

    pub(super) fn remote_at(&self, server: String) -> RemoteArgs {
        let (token_file, ca) = (self.token_file.clone(), self.ca.clone());
        RemoteArgs { server, token_file, ca, output: self.output }
    }

    /// Checks the arguments and applies defaults.
    pub(super) fn plan(&self) -> anyhow::Result<RunPlan> {
        let door = self.door;
        let workers = self.workers.unwrap_or(door.workers());
        let in_flight = self.in_flight.unwrap_or(door.in_flight());
        at_least_one("--producers", self.producers)?;
        at_least_one("--in-flight", in_flight)?;
        within("--producers", self.producers.saturating_mul(in_flight), MAX_CONCURRENT)?;
        within("--workers", workers, MAX_CONCURRENT)?;
        Ok(RunPlan {
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
                (true, BenchDoor::Lakh | BenchDoor::Jobber | BenchDoor::Lightjq) => {
                    return wrong(format!("--discard: not supported by {door}"));
                }
                (discard, _) => discard,
            },
        })
    }

    fn slots(&self) -> anyhow::Result<u32> {
        match (self.slots, self.door) {
            (Some(_), BenchDoor::Lakh) => wrong(
                "--slots: not supported by lakh, whose workers receive jobs as fast as they read"
                    .to_owned(),
            ),
            (slots, door) => {
                let slots = slots.unwrap_or(100);
                at_least_one("--slots", slots as usize)?;
                within("--slots", slots as usize, door.max_slots())?;
                Ok(slots)
            }
        }
    }

    fn payload(&self) -> anyhow::Result<usize> {
        let bytes = usize::try_from(self.payload.0).unwrap_or(usize::MAX);
        if bytes < payload::MIN_SIZE {
            let why = "a payload contains the number of the job and the time of its push";
            return wrong(format!("--payload: at least {}B: {why}", payload::MIN_SIZE));
        }
        if self.payload.0 > MAX_PUSH_BYTES {
            return wrong(format!("--payload: at most {}", Size(MAX_PUSH_BYTES)));
        }
        Ok(bytes)
    }

    fn batch(&self) -> anyhow::Result<u64> {
        // Large payloads get smaller batches by default.
        let default = self.door.batch().min(DEFAULT_PUSH_BYTES / self.payload()? as u64).max(1);
        let batch = self.batch.unwrap_or(default);
        at_least_one("--batch", usize::try_from(batch).unwrap_or(usize::MAX))?;
        match (batch, self.door) {
            (2.., BenchDoor::Jobber | BenchDoor::Lightjq) => {
                wrong(format!("--batch: {} takes one job per call", self.door))
            }
            (1001.., _) => wrong("--batch: at most 1000".to_owned()),
            _ if batch.saturating_mul(self.payload.0) > MAX_PUSH_BYTES => {
                let (payload, max) = (self.payload, Size(MAX_PUSH_BYTES));
                wrong(format!("--batch: {batch} payloads of {payload} are more than {max}"))
            }
            _ => Ok(batch),
        }
    }

    fn rate(&self) -> anyhow::Result<Option<f64>> {
        match self.rate {
            Some(rate) if !(rate > 0.0 && rate <= 1e8) => wrong(format!(
                "--rate: `{rate}` is not a number of jobs per second; omit it for the maximum"
            )),
            rate => Ok(rate),
        }
    }

    fn end(&self) -> anyhow::Result<PushEnd> {
        match self.jobs {
            Some(0) => wrong("--jobs: at least 1".to_owned()),
            Some(jobs) if jobs > ledger::MAX_JOBS => {
                wrong(format!("--jobs: at most {}", ledger::MAX_JOBS))
            }
            Some(jobs) => Ok(PushEnd::Jobs(jobs)),
            None if self.duration.0.as_millis() == 0 => {
                wrong("--duration: cannot be zero".to_owned())
            }
            None => Ok(PushEnd::After(self.duration.0.into())),
        }
    }

    /// Default backlog: enough that neither producers nor workers wait for lack of jobs.
    fn backlog(&self, workers: usize, in_flight: usize) -> anyhow::Result<Option<usize>> {
        let batch = usize::try_from(self.batch()?).unwrap_or(usize::MAX);
        match self.backlog {
            // Without workers, a limited backlog would never shrink.
            _ if workers == 0 => Ok(None),
            Some(0) => Ok(None),
            Some(n) if n < batch => wrong(format!("--backlog: smaller than a batch of {batch}")),
            Some(n) => Ok(Some(n)),
            None => {
                let slots = workers * self.slots.unwrap_or(100) as usize;
                Ok(Some((2 * (self.producers * in_flight * batch + slots)).max(10_000)))
            }
        }
    }
}

impl RunPlan {
    /// Maximum number of jobs to push; with a rate, those due within the duration.
    pub(super) fn max_jobs(&self) -> u64 {
        match (self.end, self.rate) {
            (PushEnd::Jobs(jobs), _) => jobs,
            (PushEnd::After(span), Some(rate)) => {
                ((rate * span.as_secs_f64()).ceil() as u64).clamp(1, ledger::MAX_JOBS)
            }
            (PushEnd::After(_), None) => ledger::MAX_JOBS,
        }
    }
}

fn wrong<T>(message: String) -> anyhow::Result<T> {
    Err(CliError::new(FailureCode::Usage, message).into())
}

fn at_least_one(flag: &str, n: usize) -> anyhow::Result<()> {
    if n == 0 { wrong(format!("{flag}: at least 1")) } else { Ok(()) }
}

fn within(flag: &str, n: usize, max: usize) -> anyhow::Result<()> {
    if n > max { wrong(format!("{flag}: {n} is too many; at most {max}")) } else { Ok(()) }
}
