//! One run from one seed, and what came of it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crore_testkit::FakeClock;
use crore_testkit::history::check::{self, Rules, Violation};
use crore_testkit::history::{Answer, Hash, History, Node, Op, What};

use super::config::{Config, Durability};
use super::coverage::{Coverage, Sometimes};
use super::subject::Subject;
use super::world::World;

/// What came of a run in which all was well.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was reached.
    pub coverage: Coverage,
    /// The hash of the trace: another run of the seed must have the same.
    pub trace: u64,
}

/// What came of a run in which something was not.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What the run was like.
    pub config: Config,
    /// What makes it again.
    pub again: String,
    /// What must not be, in words.
    pub violations: Vec<String>,
    /// The last that happened.
    pub tail: Vec<String>,
    /// All that callers did and were told.
    pub history: History,
}

/// How many violations of one run are shown; the others mostly follow from these.
const SHOWN: usize = 10;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} fails; again: {}", self.config.seed, self.again)?;
        writeln!(f, "{:#?}", self.config)?;
        writeln!(f, "the last that happened (step, milliseconds, who):")?;
        self.tail.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        writeln!(f, "violations:")?;
        let mut shown = self.violations.iter().take(SHOWN);
        shown.try_for_each(|violation| writeln!(f, "  {violation}"))?;
        match self.violations.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// Makes the run of a seed.
pub fn run(seed: u64, subject: &mut dyn Subject) -> Result<Report, Box<Failure>> {
    let mut config = Config::draw(seed);
    if !subject.survives() {
        config.faults = config.faults.without_crashes();
    }
    let (drawn, again) = (config.clone(), subject.again(seed));
    let mut world = World::new(config, subject);
    let scene = Rc::clone(&world.scene);
    let panic = catch_unwind(AssertUnwindSafe(|| make(&mut world))).err();
    // The scene may have been borrowed when the panic came; its operations go first.
    drop(catch_unwind(AssertUnwindSafe(|| drop(world))));
    let mut scene = scene.borrow_mut();
    let history = scene.recorder.take();
    let mut violations = std::mem::take(&mut scene.wrongs);
    match panic {
        Some(panic) => violations.push(format!("a panic: {}", message(&*panic))),
        None => violations.extend(judge(&history, &drawn)),
    }
    if !violations.is_empty() {
        let tail = scene.trace.tail();
        return Err(Box::new(Failure { config: drawn, again, violations, tail, history }));
    }
    let mut coverage = std::mem::take(&mut scene.coverage);
    coverage.runs = 1;
    coverage.steps = u64::from(scene.step);
    coverage.events = history.events.len() as u64;
    coverage.millis = scene.elapsed();
    look_for_lost_pushes(&history, &mut coverage);
    Ok(Report { coverage, trace: scene.trace.hash() })
}

fn make(world: &mut World<'_>) {
    let steps = world.scene().config.steps;
    world.open();
    world.set_limits();
    for _ in 0..steps {
        world.step();
        // What is wrong once is only the more confusing the longer it goes on.
        if !world.scene().wrongs.is_empty() {
            return;
        }
    }
    world.finish();
}

/// Makes the run of a seed twice, and compares the traces.
pub fn run_twice<S: Subject>(
    seed: u64,
    mut make: impl FnMut() -> S,
) -> Result<Report, Box<Failure>> {
    let again = make().again(seed);
    let first = run(seed, &mut make())?;
    let second = run(seed, &mut make())?;
    if first.trace == second.trace {
        return Ok(first);
    }
    let violations = vec!["two runs of the same seed differ".to_owned()];
    let (tail, history) = (Vec::new(), History::default());
    Err(Box::new(Failure { config: Config::draw(seed), again, violations, tail, history }))
}

/// The first seed of a range whose run fails, and how.
pub fn first_failing_seed<S: Subject>(
    seeds: Range<u64>,
    mut make: impl FnMut() -> S,
) -> Option<(u64, Failure)> {
    seeds.into_iter().find_map(|seed| Some((seed, *run(seed, &mut make()).err()?)))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// What the history says of the promises.
fn judge(history: &History, config: &Config) -> Vec<String> {
    let durability = match config.store.durability {
        Durability::Always => check::Durability::D2,
        // Their runs have no power cuts.
        Durability::Interval | Durability::None => check::Durability::D1,
    };
    // A store's time stands still when its clock is put back.
    let epoch = (config.faults.clock_back == 0).then_some(FakeClock::START);
    let report = check::check(history, &Rules { durability, epoch, ..Rules::default() });
    report.violations.iter().map(|violation| shown(history, violation)).collect()
}

/// A violation, and the events that show it.
fn shown(history: &History, violation: &Violation) -> String {
    let events = history.events.iter().filter(|event| violation.events.contains(&event.i));
    let events: Vec<String> = events.map(|event| format!("\n      {event:?}")).collect();
    format!("{violation}{}", events.concat())
}

/// Pushes whose answer was lost may have happened or not; both must be met now and then.
fn look_for_lost_pushes(history: &History, coverage: &mut Coverage) {
    let (mut asked, mut lost) = (std::collections::BTreeMap::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    for event in &history.events {
        match &event.what {
            What::Invoke { n, op: Op::Push { items, .. }, .. } => {
                asked.insert(*n, items.iter().map(|item| item.payload).collect::<Vec<Hash>>());
            }
            What::Info { n, .. } => lost.extend(asked.remove(n).into_iter().flatten()),
            What::Ok { r: Answer::Fetched(jobs), .. } => {
                seen.extend(jobs.iter().map(|job| job.payload));
            }
            What::Node { node: Node::Dump(dump) } => {
                seen.extend(dump.jobs.iter().map(|job| job.payload));
            }
            _ => {}
        }
    }
    if lost.iter().any(|payload| seen.contains(payload)) {
        coverage.happened(Sometimes::LostPushHappened);
    }
    if lost.iter().any(|payload| !seen.contains(payload)) {
        coverage.happened(Sometimes::LostPushVanished);
    }
}
