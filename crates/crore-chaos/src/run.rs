//! A run: rounds on one directory, and one verdict on all of them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crore_core::Time;
use crore_testkit::history::{CheckRules, NodeObservation};
use crore_testkit::{Error, SeededRng};
use tokio::runtime::Builder;

use crate::context::{ChaosContext, NODE};
use crate::data_dir::DataDir;
use crate::draft::MIN_LEASE;
use crate::dump::dump;
use crate::fault::ChaosFault;
use crate::push_workers::PushWorkers;
use crate::round::ChaosRun;
use crate::server::ServerLaunch;
use crate::stream_workers::StreamWorkers;
use crate::tally::ChaosTally;
use crate::time::wall_clock_ms;
use crate::verdict::{ChaosFailure, judge, tolerant_rules};

/// Segment size: so small that rolling and compaction never pause.
pub(crate) const SEGMENT_BYTES: u64 = 512 << 10;
/// Write buffer: an eighth of a segment, the default ratio.
const BUFFER_BYTES: u64 = SEGMENT_BYTES / 8;

/// The plan of one run.
#[derive(Debug, Clone)]
pub struct ChaosPlan {
    /// The fault to inject.
    pub fault: ChaosFault,
    /// Number of rounds.
    pub rounds: u32,
    /// Seed of the jobs, the callers' actions and the moments of the faults.
    pub seed: u64,
    /// The server binary.
    pub server: PathBuf,
    /// More keys of its configuration, as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Whether to keep the data and the history of a failed run.
    pub keep: bool,
    /// The planted bug to enable; the server needs the feature `bug-drill`.
    pub bug: Option<String>,
}

impl ChaosPlan {
    /// The command that runs exactly this plan, on the server that it builds.
    pub fn command(&self) -> String {
        let Self { fault, rounds, seed, set, .. } = self;
        let command = format!("cargo xtask chaos {fault} --rounds {rounds} --plan-seed {seed}");
        set.iter().fold(command, |command, set| format!("{command} --set {set}"))
    }
}

/// Why a run has no tally.
#[derive(Debug)]
pub enum ChaosError {
    /// This machine cannot run it.
    CannotRun(Error),
    /// A promise was broken.
    Broken(ChaosFailure),
}

impl ChaosError {
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::Broken(ChaosFailure::plain(what))
    }
}

/// Runs a plan on a new directory, and judges its history.
///
/// # Errors
///
/// [`ChaosError::Broken`]: a promise was broken. [`ChaosError::CannotRun`]: this machine cannot run the plan.
pub fn run(plan: &ChaosPlan) -> Result<ChaosTally, ChaosError> {
    let data_dir = Arc::new(plan.fault.data_dir()?);
    let epoch = Time::from_millis(wall_clock_ms());
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("no runtime: {error}")))?;
    let mut chaos_run = new_run(plan, &data_dir)?;
    let mut round = 0;
    let done = runtime.block_on(async {
        while round < plan.rounds {
            round += 1;
            chaos_run.round().await?;
        }
        chaos_run.settle().await?;
        let dumped = dump(data_dir.data(), SEGMENT_BYTES).await;
        let dumped = dumped.map_err(|error| {
            ChaosError::broken(format!("the store cannot be dumped: {error:?}"))
        })?;
        chaos_run.context.recorder.node(NODE, NodeObservation::Dump(dumped));
        Ok(())
    });
    let context = Arc::clone(&chaos_run.context);
    drop(chaos_run);
    let rules = CheckRules { epoch: Some(epoch), ..tolerant_rules() };

    let failed = match done {
        Ok(()) => match verdict(&context, &rules) {
            Ok(tally) => return Ok(ChaosTally { rounds: u64::from(plan.rounds), ..tally }),
            Err(broken) => broken,
        },
        Err(ChaosError::Broken(broken)) => broken.in_round(round),
        Err(error) => return Err(error),
    };
    let failed = failed.in_plan(plan);
    let failed = if plan.keep { keep_data(failed, data_dir, &context) } else { failed };
    Err(ChaosError::Broken(failed.repeated_by(&plan.command())))
}

fn new_run(plan: &ChaosPlan, data_dir: &Arc<DataDir>) -> Result<ChaosRun, Error> {
    let mut set = vec![
        format!("store.segment={SEGMENT_BYTES}B"),
        format!("store.buffer={BUFFER_BYTES}B"),
        format!("caps.min-lease={}ms", MIN_LEASE.as_millis()),
        "listen.drain-for=100ms".to_owned(),
        // Push workers misbehave often; without short pauses the server would hardly call them.
        "lightjq.rest=10ms".to_owned(),
        "lightjq.max-rest=50ms".to_owned(),
        "lightjq.unknown-for=30ms".to_owned(),
    ];
    set.extend(plan.set.iter().cloned());
    let log = data_dir.home().join("server.log");
    let (program, data) = (plan.server.clone(), data_dir.data().to_owned());
    let (context, mut rng) = (Arc::new(ChaosContext::new(plan.fault)), SeededRng(plan.seed));
    let push_workers = PushWorkers::new(&context, &mut rng)?;
    let stream_workers = StreamWorkers::new(&context, &mut rng);
    Ok(ChaosRun {
        fault: plan.fault,
        rng,
        context,
        push_workers,
        stream_workers,
        data_dir: Arc::clone(data_dir),
        clock: plan.fault.clock(data_dir)?,
        launch: ServerLaunch { program, data, log, set, bug: plan.bug.clone() },
        is_full: false,
        limits_defined: false,
    })
}

pub(crate) fn verdict(
    context: &ChaosContext,
    rules: &CheckRules,
) -> Result<ChaosTally, ChaosFailure> {
    let tally = judge(&context.recorder.history(), rules)?;
    let anomalies = context.anomalies();
    match anomalies.first() {
        Some(first) => {
            Err(ChaosFailure::plain(format!("{first} ({} such answers)", anomalies.len())))
        }
        None => Ok(tally),
    }
}

/// Keeps the data and the history for inspection.
pub(crate) fn keep_data(
    broken: ChaosFailure,
    data_dir: Arc<DataDir>,
    context: &ChaosContext,
) -> ChaosFailure {
    let Some(data_dir) = Arc::into_inner(data_dir) else { return broken };
    let home = data_dir.keep();
    let history = home.join("history.jsonl");
    match context.recorder.history().save(&history) {
        Ok(()) => broken.kept_in(&home, &history),
        Err(error) => broken.with_line(&format!("its history cannot be saved: {error}")),
    }
}

impl From<Error> for ChaosError {
    fn from(error: Error) -> Self {
        Self::CannotRun(error)
    }
}

impl fmt::Display for ChaosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotRun(error) => error.fmt(f),
            Self::Broken(broken) => broken.fmt(f),
        }
    }
}
