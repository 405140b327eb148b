//! The engine as the simulator's subject: an engine on the embedded store, without threads. Used by the engine's
//! simulator and by the drill of planted bugs (`bugs.rs`).

mod checked_engine;
mod deadlines;
mod event_checker;
mod interference;
mod program_recorder;
mod recording_store;
mod waiting_fetches;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crore::{Engine, Options};
use crore_conformance::simulation::{OpenStore, SimConfig, SimulatedEmbedded, SimulatedStore};
use crore_core::{Clock, Span};
use crore_store::Error;
use crore_store::embedded::disk::Disk;
use crore_testkit::history::Recorder;

use checked_engine::CheckedEngine;
use deadlines::Deadlines;
use event_checker::EventChecker;
use interference::Interference;
use program_recorder::ProgramRecorder;
use recording_store::RecordingStore;
use waiting_fetches::WaitingFetches;

/// A bug of the engine or its store that the simulator has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InjectedBug {
    /// No bug.
    None,
    /// Acknowledged writes are not durable.
    NotDurable,
    /// A report of any delivery is accepted as the current one's.
    UnfencedReports,
    /// Where any delivery may report, every report counts, not only the first since a hand-over.
    ForgottenReports,
    /// Leases are not renewed, but reported as such.
    IgnoredRenewals,
    /// Waiting fetches are not woken.
    NoWakeUps,
    /// Some events are lost.
    LostEvents,
    /// Some events are published before they are durable.
    EarlyEvents,
}

/// An engine on the embedded store, without threads.
#[derive(Debug)]
pub(super) struct OnEngine {
    bug: InjectedBug,
    recorder: Option<Arc<Recorder>>,
    ticked: Arc<AtomicU64>,
    interference: Option<Arc<Interference>>,
    /// Whether the clock of the run may go back; set when the first engine is opened.
    clock_goes_back: Option<bool>,
    /// The number of engines opened so far.
    opened: u64,
}

impl OnEngine {
    pub(super) fn new(bug: InjectedBug) -> Self {
        Self {
            bug,
            recorder: None,
            ticked: Arc::default(),
            interference: None,
            clock_goes_back: None,
            opened: 0,
        }
    }

    fn options(&mut self, config: &SimConfig) -> Options {
        let mut options = Options::default();
        // Runs need leases short enough to end within them.
        options.caps.min_lease = Span::from_millis(1);
        options.seed = Some(config.seed ^ self.opened);
        self.opened += 1;
        options
    }
}

impl SimulatedStore for OnEngine {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &SimConfig,
    ) -> Result<OpenStore, Error> {
        let mut store_config = config.clone();
        if self.bug == InjectedBug::NotDurable {
            store_config.store.durability = crore_conformance::simulation::StoreDurability::None;
        }
        let mut running = SimulatedEmbedded.open(disk, Arc::clone(&clock), &store_config)?;
        let recorder = self.recorder.clone().expect("set before an engine is opened");
        let (store, ticked) = (Arc::clone(&running.store), Arc::clone(&self.ticked));
        // At the end of a run its faults are switched off, but the clock may have gone back before.
        let goes_back = *self.clock_goes_back.get_or_insert(!config.has_steady_clock());
        let waiting_fetches = WaitingFetches::new(Arc::clone(&store));
        let deadlines = Deadlines::new(Arc::clone(&store), Arc::clone(&clock), goes_back);
        let interference =
            self.interference.get_or_insert_with(|| Arc::new(Interference::new(config)));
        let interference = Arc::clone(interference);
        let (event_checker, bug) = (Arc::<EventChecker>::default(), self.bug);
        let program_recorder = ProgramRecorder::new(Arc::clone(&recorder));
        let recording_store = RecordingStore {
            store,
            recorder,
            ticked,
            deadlines: Arc::clone(&deadlines),
            interference: Arc::clone(&interference),
            event_checker: Arc::clone(&event_checker),
            program_recorder: Arc::clone(&program_recorder),
            read_jobs: Mutex::default(),
            bug,
        };
        let options = self.options(config);
        let engine = crore::block_on(Engine::without_thread(
            Arc::new(recording_store),
            Arc::clone(&clock),
            options,
        ));
        let engine = engine.map_err(checked_engine::to_store_error)?;
        event_checker.listen(engine.listen());
        running.engine = Some(Arc::new(CheckedEngine {
            engine,
            clock,
            event_checker,
            program_recorder,
            deadlines,
            interference,
            waiting_fetches,
            bug,
        }));
        Ok(running)
    }

    fn survives_crash(&self) -> bool {
        true
    }

    fn has_engine(&self) -> bool {
        true
    }

    fn repeat_command(&self) -> &'static str {
        "cargo xtask sim --engine"
    }

    fn record_to(&mut self, recorder: &Arc<Recorder>) {
        self.recorder = Some(Arc::clone(recorder));
    }
}
