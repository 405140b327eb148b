//! A run: rounds on one directory, and the verdict on all of them together.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crore_core::Time;
use crore_testkit::history::{Node, Rules};
use crore_testkit::{Dice, Error};
use tokio::runtime::Builder;

use crate::desk::{Desk, NODE};
use crate::draft::SHORTEST;
use crate::dump::dump;
use crate::harm::Harm;
use crate::pause::wall;
use crate::place::Place;
use crate::posted::Crew;
use crate::round::Stage;
use crate::server::Launch;
use crate::streamed::Streamers;
use crate::tally::Tally;
use crate::verdict::{Broken, judge, tolerant};

/// The size of segments: so small that rolling and compaction are at work all the time.
pub(crate) const SEGMENT_BYTES: u64 = 512 << 10;
/// How much may wait for the disk: an eighth of a segment, as it is by default.
const BUFFER_BYTES: u64 = SEGMENT_BYTES / 8;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    /// To the server.
    pub harm: Harm,
    /// So many times.
    pub rounds: u32,
    /// Where chance comes from.
    pub seed: u64,
    /// The built server.
    pub server: PathBuf,
    /// More keys of its configuration, as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Whether the data of a run that fails is kept, with its history.
    pub keep: bool,
    /// The planted mistake that a server with the feature `bug-drill` makes.
    pub bug: Option<String>,
}

impl Plan {
    /// The command that runs exactly this plan, on the server that it builds.
    pub fn command(&self) -> String {
        let Self { harm, rounds, seed, set, .. } = self;
        let command = format!("cargo xtask chaos {harm} --rounds {rounds} --plan-seed {seed}");
        set.iter().fold(command, |command, set| format!("{command} --set {set}"))
    }
}

/// Why there is no tally.
#[derive(Debug)]
pub enum Failed {
    /// It cannot be tried here.
    Here(Error),
    /// A promise was broken.
    Broken(Broken),
}

impl Failed {
    pub(crate) fn broken(what: impl Into<String>) -> Self {
        Self::Broken(Broken::plain(what))
    }
}

/// Does what is planned, on a new directory, and judges it.
///
/// # Errors
///
/// [`Failed::Broken`] says which promise was not kept, [`Failed::Here`] that it cannot be tried.
pub fn run(plan: &Plan) -> Result<Tally, Failed> {
    let place = Arc::new(plan.harm.place()?);
    let epoch = Time::from_millis(wall());
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("no runtime: {error}")))?;
    let mut stage = stage(plan, &place)?;
    let mut round = 0;
    let done = runtime.block_on(async {
        while round < plan.rounds {
            round += 1;
            stage.round().await?;
        }
        stage.settle().await?;
        let dumped = dump(place.data(), SEGMENT_BYTES).await;
        let dumped = dumped.map_err(|error| Failed::broken(format!("no look: {error:?}")))?;
        stage.desk.recorder.node(NODE, Node::Dump(dumped));
        Ok(())
    });
    let desk = Arc::clone(&stage.desk);
    drop(stage);
    let rules = Rules { epoch: Some(epoch), ..tolerant() };

    let failed = match done {
        Ok(()) => match verdict(&desk, &rules) {
            Ok(tally) => return Ok(Tally { rounds: u64::from(plan.rounds), ..tally }),
            Err(broken) => broken,
        },
        Err(Failed::Broken(broken)) => broken.at(round),
        Err(here) => return Err(here),
    };
    let failed = failed.said_by(plan);
    let failed = if plan.keep { kept(failed, place, &desk) } else { failed };
    Err(Failed::Broken(failed.repeated_by(&plan.command())))
}

fn stage(plan: &Plan, place: &Arc<Place>) -> Result<Stage, Error> {
    let mut set = vec![
        format!("store.segment={SEGMENT_BYTES}B"),
        format!("store.buffer={BUFFER_BYTES}B"),
        format!("caps.min-lease={}ms", SHORTEST.as_millis()),
        "listen.drain-for=100ms".to_owned(),
        // Push workers misbehave all the time, and have to be asked again soon.
        "lightjq.rest=10ms".to_owned(),
        "lightjq.max-rest=50ms".to_owned(),
        "lightjq.unknown-for=30ms".to_owned(),
    ];
    set.extend(plan.set.iter().cloned());
    let log = place.home().join("server.log");
    let (program, data) = (plan.server.clone(), place.data().to_owned());
    let (desk, mut dice) = (Arc::new(Desk::new(plan.harm)), Dice(plan.seed));
    let crew = Crew::new(&desk, &mut dice)?;
    let streamers = Streamers::new(&desk, &mut dice);
    Ok(Stage {
        harm: plan.harm,
        dice,
        desk,
        crew,
        streamers,
        place: Arc::clone(place),
        clock: plan.harm.clock(place)?,
        launch: Launch { program, data, log, set, bug: plan.bug.clone() },
        is_full: false,
        is_limited: false,
    })
}

pub(crate) fn verdict(desk: &Desk, rules: &Rules) -> Result<Tally, Broken> {
    let tally = judge(&desk.recorder.history(), rules)?;
    let wrong = desk.all_wrong();
    match wrong.first() {
        Some(first) => Err(Broken::plain(format!("{first} ({} such answers)", wrong.len()))),
        None => Ok(tally),
    }
}

/// Leaves everything where somebody can look at it.
pub(crate) fn kept(broken: Broken, place: Arc<Place>, desk: &Desk) -> Broken {
    let Some(place) = Arc::into_inner(place) else { return broken };
    let home = place.keep();
    let history = home.join("history.jsonl");
    match desk.recorder.history().save(&history) {
        Ok(()) => broken.kept_in(&home, &history),
        Err(error) => broken.but(&format!("its history is not kept: {error}")),
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(error) => error.fmt(f),
            Self::Broken(broken) => broken.fmt(f),
        }
    }
}
