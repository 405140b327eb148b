//! One run from one seed, and what came of it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crore_testkit::FakeClock;
use crore_testkit::history::check::{self, Rules, Violation};
use crore_testkit::history::{Answer, Hash, History, Node, Op, What};

use super::config::{Config, Durability, Generation};
use super::coverage::{Coverage, Sometimes};
use super::failure::Failure;
use super::scene::Purpose;
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

/// Makes the run of a seed.
pub fn run(seed: u64, subject: &mut dyn Subject) -> Result<Report, Box<Failure>> {
    run_as(Config::draw(seed), subject)
}

/// Makes the run of a configuration.
pub fn run_as(mut config: Config, subject: &mut dyn Subject) -> Result<Report, Box<Failure>> {
    if !subject.survives() {
        config.faults = config.faults.without_crashes();
    }
    let (drawn, again) = (config.clone(), again(subject, &config));
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
        let trace = scene.trace.take_lines();
        return Err(Box::new(Failure { config: drawn, again, violations, trace, history }));
    }
    let mut coverage = std::mem::take(&mut scene.coverage);
    coverage.runs = 1;
    coverage.steps = u64::from(scene.step);
    coverage.events = history.events.len() as u64;
    coverage.millis = scene.elapsed();
    look_for_lost_pushes(&history, &mut coverage);
    Ok(Report { coverage, trace: scene.trace.hash() })
}

/// The command that makes a run again.
fn again(subject: &dyn Subject, config: &Config) -> String {
    let generation = match config.generation {
        Generation::First => " --generation 1",
        Generation::Second => "",
    };
    format!("{} --seed {}{generation}", subject.again(), config.seed)
}

fn make(world: &mut World<'_>) {
    let (last, skip) = {
        let scene = world.scene();
        (scene.config.last_step, scene.config.skip.clone())
    };
    world.open();
    world.set_limits();
    for step in (1..=last).filter(|step| !skip.contains(step)) {
        world.step(step);
        // What is wrong once is only the more confusing the longer it goes on.
        if !world.scene().wrongs.is_empty() {
            return;
        }
    }
    world.scene().draws_for(Purpose::End);
    world.finish();
}

/// Makes the run of a seed twice, and compares the traces.
pub fn run_twice<S: Subject>(seed: u64, make: impl FnMut() -> S) -> Result<Report, Box<Failure>> {
    run_twice_as(&Config::draw(seed), make)
}

/// Makes the run of a configuration twice, and compares the traces.
pub fn run_twice_as<S: Subject>(
    config: &Config,
    mut make: impl FnMut() -> S,
) -> Result<Report, Box<Failure>> {
    let first = run_as(config.clone(), &mut make())?;
    let second = run_as(config.clone(), &mut make())?;
    if first.trace == second.trace {
        return Ok(first);
    }
    let violations = vec!["two runs of the same seed differ".to_owned()];
    let (again, config) = (again(&make(), config), config.clone());
    let (trace, history) = (Vec::new(), History::default());
    Err(Box::new(Failure { config, again, violations, trace, history }))
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
    // A store's time stands still when its clock is put back, or does.
    let epoch = config.has_steady_clock().then_some(FakeClock::START);
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
