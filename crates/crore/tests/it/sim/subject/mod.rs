//! The engine as the simulator's subject: an engine on the embedded store, without threads. Used by the
//! engine's simulator (`sim`) and by the drill of planted mistakes (`tests/bugs.rs`).

mod deadlines;
mod desk;
mod ear;
mod front;
mod interference;
mod scribe;
mod sleepers;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crore::{Engine, Options};
use crore_conformance::simulation::{Config, OnLog, Running, Subject};
use crore_core::{Clock, Span};
use crore_store::Error;
use crore_store::embedded::disk::Disk;
use crore_testkit::history::Recorder;

use deadlines::Deadlines;
use desk::Desk;
use ear::Ear;
use front::Engaged;
use interference::Interference;
use scribe::Scribe;
use sleepers::Sleepers;

/// A lie that the engine or its store tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    /// Nothing.
    Nothing,
    /// That what is answered is durable.
    AnswersAreDurable,
    /// That any delivery's report is the current one's.
    AnyDeliveryCounts,
    /// That leases are extended.
    RenewalsAreIgnored,
    /// That there is nothing new.
    NobodyIsWoken,
    /// That nothing has happened, now and then.
    EventsAreLost,
    /// That something has happened which is not durable, now and then.
    EventsComeEarly,
}

/// An engine on the embedded store, without threads.
#[derive(Debug)]
pub(super) struct OnEngine {
    lie: Lie,
    recorder: Option<Arc<Recorder>>,
    ticked: Arc<AtomicU64>,
    interference: Option<Arc<Interference>>,
    /// Whether the clock of the run may go back; known when the first engine is opened.
    clock_goes_back: Option<bool>,
    /// How many engines there were.
    opened: u64,
}

impl OnEngine {
    pub(super) fn new(lie: Lie) -> Self {
        Self {
            lie,
            recorder: None,
            ticked: Arc::default(),
            interference: None,
            clock_goes_back: None,
            opened: 0,
        }
    }

    fn options(&mut self, config: &Config) -> Options {
        let mut options = Options::default();
        // Leases that end within a run are what it is about.
        options.caps.min_lease = Span::from_millis(1);
        options.seed = Some(config.seed ^ self.opened);
        self.opened += 1;
        options
    }
}

impl Subject for OnEngine {
    fn open(
        &mut self,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Running, Error> {
        let mut store_config = config.clone();
        if self.lie == Lie::AnswersAreDurable {
            store_config.store.durability = crore_conformance::simulation::Durability::None;
        }
        let mut running = OnLog.open(disk, Arc::clone(&clock), &store_config)?;
        let recorder = self.recorder.clone().expect("told before anything is opened");
        let (store, ticked) = (Arc::clone(&running.store), Arc::clone(&self.ticked));
        // At the end of a run its faults are over, and the clock may have gone back before.
        let goes_back = *self.clock_goes_back.get_or_insert(!config.has_steady_clock());
        let sleepers = Sleepers::new(Arc::clone(&store));
        let deadlines = Deadlines::new(Arc::clone(&store), Arc::clone(&clock), goes_back);
        let interference =
            self.interference.get_or_insert_with(|| Arc::new(Interference::new(config)));
        let interference = Arc::clone(interference);
        let (ear, lie) = (Arc::<Ear>::default(), self.lie);
        let desk = Desk::new(Arc::clone(&recorder));
        let scribe = Scribe {
            store,
            recorder,
            ticked,
            deadlines: Arc::clone(&deadlines),
            interference: Arc::clone(&interference),
            ear: Arc::clone(&ear),
            desk: Arc::clone(&desk),
            known: Mutex::default(),
            lie,
        };
        let options = self.options(config);
        let engine =
            crore::block_on(Engine::without_thread(Arc::new(scribe), Arc::clone(&clock), options));
        let engine = engine.map_err(front::plain)?;
        ear.listen(engine.listen());
        running.front = Some(Arc::new(Engaged {
            engine,
            clock,
            ear,
            desk,
            deadlines,
            interference,
            sleepers,
            lie,
        }));
        Ok(running)
    }

    fn survives(&self) -> bool {
        true
    }

    fn has_front(&self) -> bool {
        true
    }

    fn again(&self) -> &'static str {
        "cargo xtask sim --engine"
    }

    fn write_into(&mut self, recorder: &Arc<Recorder>) {
        self.recorder = Some(Arc::clone(recorder));
    }
}
