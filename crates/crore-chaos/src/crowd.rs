//! A crowd of streaming workers that disconnect, gracefully or not, and return as the same or as another incarnation.
//! No fault is injected, and leases are longer than the run: the server has to take back the jobs of a worker because
//! its stream has ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crore_core::{Span, Time};
use crore_testkit::history::{CheckRules, NodeObservation};
use crore_testkit::{Error, SeededRng};
use crore_wire::Format;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::calls::RecordingCaller;
use crate::client::ChaosClient;
use crate::context::{ChaosContext, NODE};
use crate::data_dir::DataDir;
use crate::draft::JobDraft;
use crate::dump::dump;
use crate::fault::{ChaosFault, drain};
use crate::run::{ChaosError, SEGMENT_BYTES, keep_data, verdict};
use crate::server::{ServerLaunch, ServerProcess};
use crate::settle::wait_until_ended;
use crate::stream_workers::{Behavior, StreamWorkers};
use crate::tally::ChaosTally;
use crate::time::{instant, sleep, wall_clock_ms};
use crate::verdict::{ChaosFailure, tolerant_rules};

/// The lease of every job: much longer than the run.
const LEASE: Span = Span::from_secs(600);
/// Timeout for the last jobs; generous, for a busy machine.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Jobs per push, and the pause between two pushes.
const JOBS_PER_PUSH: usize = 10;
const PUSH_INTERVAL: Duration = Duration::from_millis(20);

/// The plan of a crowd.
#[derive(Debug, Clone)]
pub struct CrowdPlan {
    /// Number of workers.
    pub workers: usize,
    /// How long they connect and disconnect.
    pub time: Duration,
    /// Seed of the jobs and of the workers' actions.
    pub seed: u64,
    /// The server binary.
    pub server: PathBuf,
    /// Whether to keep the data and the history of a failed run.
    pub keep: bool,
}

impl CrowdPlan {
    /// The command that runs the same plan again.
    pub fn command(&self) -> String {
        let Self { workers, time, seed, .. } = self;
        let ms = time.as_millis();
        format!("cargo xtask chaos crowd --workers {workers} --for {ms}ms --seed {seed}")
    }
}

/// Lets workers connect and disconnect for a while, and checks that every job was done exactly once.
///
/// # Errors
///
/// [`ChaosError::Broken`]: a promise was broken. [`ChaosError::CannotRun`]: this machine cannot run the plan.
pub fn run_crowd(plan: &CrowdPlan) -> Result<ChaosTally, ChaosError> {
    let data_dir = Arc::new(DataDir::plain()?);
    let epoch = Time::from_millis(wall_clock_ms());
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("no runtime: {error}")))?;
    let context = Arc::new(ChaosContext::new(ChaosFault::Drain));
    let done = runtime.block_on(run_workers(plan, &data_dir, &context));
    drop(runtime);
    let rules = CheckRules { epoch: Some(epoch), ..tolerant_rules() };
    let judged = match done {
        Ok(()) => verdict(&context, &rules).and_then(check_all_done),
        Err(ChaosError::Broken(broken)) => Err(broken),
        Err(error) => return Err(error),
    };
    judged.map_err(|broken| {
        let broken = if plan.keep { keep_data(broken, data_dir, &context) } else { broken };
        ChaosError::Broken(broken.repeated_by(&plan.command()))
    })
}

async fn run_workers(
    plan: &CrowdPlan,
    data_dir: &DataDir,
    context: &Arc<ChaosContext>,
) -> Result<(), ChaosError> {
    let launch = ServerLaunch {
        program: plan.server.clone(),
        data: data_dir.data().to_owned(),
        log: data_dir.home().join("server.log"),
        set: vec![format!("store.segment={SEGMENT_BYTES}B"), "listen.drain-for=1s".to_owned()],
        bug: None,
    };
    let server = ServerProcess::start(&launch, None).map_err(ChaosError::broken)?;
    context.recorder.node(NODE, NodeObservation::Opened);
    context.set_server_running(true);
    let mut rng = SeededRng(plan.seed);
    let stream_workers = StreamWorkers::many(plan.workers, context, &mut rng);
    stream_workers.set_behavior(Behavior::Churning).await;
    let mut workers = JoinSet::new();
    stream_workers.begin(server.address, &mut workers);
    let client = ChaosClient::new(server.address, Format::Json);
    let mut caller =
        RecordingCaller { name: "pusher-0".to_owned(), context: Arc::clone(context), client };
    let until = instant() + plan.time;
    while instant() < until {
        let unreachable = |_| ChaosError::broken("the server is unreachable");
        caller.client.connect().await.map_err(unreachable)?;
        let draft = |_| JobDraft::with_long_lease(&mut rng, context.next_seq(), LEASE);
        let drafts: Vec<_> = (0..JOBS_PER_PUSH).map(draft).collect();
        caller.push_all(&drafts).await;
        sleep(PUSH_INTERVAL).await;
    }
    wait_until_ended(&mut caller, SETTLE_TIMEOUT).await.map_err(ChaosError::broken)?;
    caller.client.disconnect();
    drain(server).await?;
    context.set_server_running(false);
    while workers.join_next().await.is_some() {}
    context.recorder.node(NODE, NodeObservation::Closed);
    let dumped = dump(data_dir.data(), SEGMENT_BYTES).await;
    let dumped = dumped
        .map_err(|error| ChaosError::broken(format!("the store cannot be dumped: {error:?}")))?;
    context.recorder.node(NODE, NodeObservation::Dump(dumped));
    Ok(())
}

/// No disconnect may prevent a job from being done.
fn check_all_done(tally: ChaosTally) -> Result<ChaosTally, ChaosFailure> {
    if tally.done == tally.acknowledged && tally.refused == 0 {
        return Ok(tally);
    }
    Err(ChaosFailure::plain(format!("not every job is done:\n{tally}")))
}
