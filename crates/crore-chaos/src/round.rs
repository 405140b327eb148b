//! One round: start a server, load it, inject the fault, end it.

use std::sync::Arc;
use std::time::Duration;

use crore_testkit::SeededRng;
use crore_testkit::history::op::{DefinitionContent, RecordedDefinition};
use crore_testkit::history::{NodeObservation, RecordedFault, RecordedOp, RecordedResponse};
use crore_wire::Format;
use crore_wire::api::limits::{Limit, SetLimit};
use tokio::task::JoinSet;

use crate::calls::RecordingCaller;
use crate::client::{ApiRequest, CallResult, ChaosClient};
use crate::clock::JumpingClock;
use crate::context::{ChaosContext, NODE};
use crate::data_dir::DataDir;
use crate::draft::{KIND_LIMIT, POSTED_LIMIT, name};
use crate::fault::{ChaosFault, ServerExit, drain};
use crate::push_workers::PushWorkers;
use crate::pusher::run_pusher;
use crate::run::ChaosError;
use crate::server::{ServerLaunch, ServerProcess};
use crate::settle::{missing_workers, settle};
use crate::stream_workers::{Behavior, StreamWorkers};
use crate::time::sleep;
use crate::worker::run_worker;

/// Callers that push and change jobs.
const PUSHERS: usize = 5;
/// Callers that work.
const WORKERS: usize = 5;

/// Maximum number of answered calls before the fault.
const MAX_ANSWERS: u64 = 100;
/// The fault is injected after this time, however few calls were answered.
const LOAD_TIMEOUT: Duration = Duration::from_millis(500);

/// A run in progress: one directory, its callers and its current fault.
#[derive(Debug)]
pub(crate) struct ChaosRun {
    pub(crate) fault: ChaosFault,
    pub(crate) rng: SeededRng,
    pub(crate) context: Arc<ChaosContext>,
    pub(crate) data_dir: Arc<DataDir>,
    pub(crate) clock: Option<JumpingClock>,
    pub(crate) launch: ServerLaunch,
    pub(crate) push_workers: PushWorkers,
    pub(crate) stream_workers: StreamWorkers,
    pub(crate) is_full: bool,
    /// Whether the server has acknowledged the limits.
    pub(crate) limits_defined: bool,
}

impl ChaosRun {
    /// Runs one round.
    pub(crate) async fn round(&mut self) -> Result<(), ChaosError> {
        if self.fault.may_hit_startup() && self.rng.percent(8) {
            return self.round_during_startup().await;
        }
        self.push_workers.begin()?;
        let server = self.start()?;
        self.define_limits(&server).await?;
        let mut callers = self.callers(&server);
        self.load().await;
        let exit = self.inject(server).await?;
        self.context.set_server_running(false);
        while let Some(ended) = callers.join_next().await {
            ended.map_err(|error| ChaosError::broken(format!("a caller panicked: {error}")))?;
        }
        self.push_workers.end().await;
        self.record_exit(&exit)?;
        Ok(())
    }

    /// Lets callers work until a random number of calls is answered, so that a busy machine does no less work, and
    /// then a moment more, so that the fault interrupts others in flight.
    pub(crate) async fn load(&mut self) {
        let answers = self.rng.below(MAX_ANSWERS);
        self.context.wait_for_answers(answers, LOAD_TIMEOUT).await;
        sleep(Duration::from_micros(self.rng.below(4_000))).await;
    }

    /// Injects the fault while the server starts, often before its store is open.
    async fn round_during_startup(&mut self) -> Result<(), ChaosError> {
        self.push_workers.begin()?;
        let mut child = self.launch.spawn(self.clock.as_ref()).map_err(ChaosError::broken)?;
        sleep(Duration::from_millis(self.rng.below(25))).await;
        let exit = if self.fault == ChaosFault::Kill {
            ServerExit::Killed
        } else {
            self.data_dir.cut_power(child.id())?;
            ServerExit::PowerCut
        };
        // It may have exited already.
        let _ = child.kill();
        let _ = child.wait();
        self.push_workers.end().await;
        self.record_exit(&exit)?;
        Ok(())
    }

    fn start(&self) -> Result<ServerProcess, ChaosError> {
        let server =
            ServerProcess::start(&self.launch, self.clock.as_ref()).map_err(ChaosError::broken)?;
        self.context.recorder.node(NODE, NodeObservation::Opened);
        self.context.set_server_running(true);
        Ok(server)
    }

    fn callers(&mut self, server: &ServerProcess) -> JoinSet<()> {
        let mut callers = JoinSet::new();
        for n in 0..PUSHERS {
            callers.spawn(run_pusher(self.caller(server, "pusher", n), self.rng.fork()));
        }
        for n in 0..WORKERS {
            callers.spawn(run_worker(self.caller(server, "worker", n), self.rng.fork()));
        }
        self.start_push_workers(server, &mut callers);
        self.stream_workers.begin(server.address, &mut callers);
        callers
    }

    fn start_push_workers(&mut self, server: &ServerProcess, callers: &mut JoinSet<()>) {
        let mut rng = self.rng.fork();
        let caller = |name: &str| {
            let client = ChaosClient::new(server.address, Format::Msgpack);
            RecordingCaller { name: name.to_owned(), context: Arc::clone(&self.context), client }
        };
        self.push_workers.start_clients(caller, &mut rng, callers);
    }

    fn caller(&self, server: &ServerProcess, what: &str, n: usize) -> RecordingCaller {
        let format = if n.is_multiple_of(2) { Format::Json } else { Format::Msgpack };
        let client = ChaosClient::new(server.address, format);
        RecordingCaller { name: format!("{what}-{n}"), context: Arc::clone(&self.context), client }
    }

    /// Defines the limits, unless the server has acknowledged them.
    async fn define_limits(&mut self, server: &ServerProcess) -> Result<(), ChaosError> {
        if self.limits_defined {
            return Ok(());
        }
        let mut caller = self.caller(server, "operator", 0);
        let unreachable = |_| ChaosError::broken("the server listens but cannot be reached");
        caller.client.connect().await.map_err(unreachable)?;
        for limit in [KIND_LIMIT, POSTED_LIMIT] {
            self.define_limit(&mut caller, limit).await?;
        }
        self.limits_defined = true;
        Ok(())
    }

    async fn define_limit(
        &self,
        caller: &mut RecordingCaller,
        (limit, text, concurrency): (&str, &str, u32),
    ) -> Result<(), ChaosError> {
        let to = DefinitionContent::Limit { concurrency: Some(concurrency), rate: None };
        let entry = RecordedDefinition { name: name(limit), to, expires_after: None };
        let op = RecordedOp::Define { entries: vec![entry] };
        let call = self.context.recorder.invoke(caller.name.as_str(), op);
        let set = SetLimit { limit: text.to_owned() };
        let path = format!("/v1/limits/{limit}");
        let request =
            ApiRequest { method: "PUT", ..ApiRequest::post(&path, caller.client.format, &set) };
        match caller.client.call::<Limit>(&request).await {
            CallResult::Answered(_) => {
                self.context.recorder.ok(call, None, RecordedResponse::Defined(vec![true]));
            }
            other => return Err(ChaosError::broken(format!("a limit cannot be set: {other:?}"))),
        }
        Ok(())
    }

    /// Ends the run: repairs the machine, finishes every job, and stops the server.
    pub(crate) async fn settle(&mut self) -> Result<(), ChaosError> {
        if std::mem::take(&mut self.is_full) {
            self.context.recorder.fault(NODE, RecordedFault::DiskFreed);
            self.data_dir.free()?;
        }
        let lag = self.clock.as_ref().map_or(0, JumpingClock::behind);
        if lag > 0 {
            self.set_clock(lag)?;
        }
        self.push_workers.behave();
        self.stream_workers.set_behavior(Behavior::Correct).await;
        self.push_workers.begin()?;
        let server = self.start()?;
        let mut workers = JoinSet::new();
        self.start_push_workers(&server, &mut workers);
        self.stream_workers.begin(server.address, &mut workers);
        let mut caller = self.caller(&server, "honest", 0);
        let forgotten = missing_workers(&mut caller, &self.push_workers.registered_ids())
            .await
            .map_err(ChaosError::broken)?;
        if !forgotten.is_empty() {
            self.context.add_anomaly(format!("the server lost these push workers: {forgotten:?}"));
            self.push_workers.forget(&forgotten);
        }
        settle(&mut caller).await.map_err(ChaosError::broken)?;
        caller.client.disconnect();
        let exit = drain(server).await?;
        self.context.set_server_running(false);
        while workers.join_next().await.is_some() {}
        self.push_workers.end().await;
        Ok(self.record_exit(&exit)?)
    }
}
