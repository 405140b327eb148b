//! One run from one seed, and its result.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use crore_testkit::FakeClock;
use crore_testkit::history::check::{self, CheckRules, Violation};
use crore_testkit::history::{
    History, HistoryEventBody, NodeObservation, PayloadHash, RecordedOp, RecordedResponse,
};

use super::config::{Generation, SimConfig, StoreDurability};
use super::context::Purpose;
use super::coverage::{Coverage, RareSituation};
use super::event_loop::SimEventLoop;
use super::failure::SimFailure;
use super::subject::SimulatedStore;

/// The result of a run without violations.
#[derive(Debug, Clone)]
pub struct SimReport {
    /// The coverage of the run.
    pub coverage: Coverage,
    /// The hash of the trace: another run of the seed must have the same.
    pub trace: u64,
}

/// Runs a seed.
pub fn run(seed: u64, subject: &mut dyn SimulatedStore) -> Result<SimReport, Box<SimFailure>> {
    run_as(SimConfig::draw(seed), subject)
}

/// Runs a configuration.
pub fn run_as(
    mut config: SimConfig,
    subject: &mut dyn SimulatedStore,
) -> Result<SimReport, Box<SimFailure>> {
    if !subject.survives_crash() {
        config.faults = config.faults.without_crashes();
    }
    let (drawn, again) = (config.clone(), repeat_command(subject, &config));
    let mut sim = SimEventLoop::new(config, subject);
    let context = Rc::clone(&sim.context);
    let panic = catch_unwind(AssertUnwindSafe(|| drive(&mut sim))).err();
    // The shared state may have been borrowed when the panic came; its operations are dropped first.
    drop(catch_unwind(AssertUnwindSafe(|| drop(sim))));
    let mut context = context.borrow_mut();
    let history = context.recorder.take();
    let mut violations = std::mem::take(&mut context.violations);
    match panic {
        Some(panic) => violations.push(format!("a panic: {}", message(&*panic))),
        None => violations.extend(check_history(&history, &drawn)),
    }
    if !violations.is_empty() {
        let trace = context.trace.take_lines();
        return Err(Box::new(SimFailure {
            config: drawn,
            repeat_command: again,
            violations,
            trace,
            history,
        }));
    }
    let mut coverage = std::mem::take(&mut context.coverage);
    coverage.runs = 1;
    coverage.steps = u64::from(context.step);
    coverage.events = history.events.len() as u64;
    coverage.millis = context.elapsed();
    cover_lost_pushes(&history, &mut coverage);
    Ok(SimReport { coverage, trace: context.trace.hash() })
}

/// Command that reproduces a run.
fn repeat_command(subject: &dyn SimulatedStore, config: &SimConfig) -> String {
    let generation = match config.generation {
        Generation::First => " --generation 1",
        Generation::Second => " --generation 2",
        Generation::Third => " --generation 3",
        Generation::Fourth => "",
    };
    format!("{} --seed {}{generation}", subject.repeat_command(), config.seed)
}

fn drive(sim: &mut SimEventLoop<'_>) {
    let (last, skip) = {
        let context = sim.context();
        (context.config.last_step, context.config.skip.clone())
    };
    sim.open();
    sim.set_limits();
    for step in (1..=last).filter(|step| !skip.contains(step)) {
        sim.step(step);
        // A violation only becomes more confusing the longer the run continues.
        if !sim.context().violations.is_empty() {
            return;
        }
    }
    sim.context().switch_stream(Purpose::End);
    sim.finish();
}

/// Runs a seed twice, and compares the traces.
pub fn run_twice<S: SimulatedStore>(
    seed: u64,
    make: impl FnMut() -> S,
) -> Result<SimReport, Box<SimFailure>> {
    run_twice_as(&SimConfig::draw(seed), make)
}

/// Runs a configuration twice, and compares the traces.
pub fn run_twice_as<S: SimulatedStore>(
    config: &SimConfig,
    mut make: impl FnMut() -> S,
) -> Result<SimReport, Box<SimFailure>> {
    let first = run_as(config.clone(), &mut make())?;
    let second = run_as(config.clone(), &mut make())?;
    if first.trace == second.trace {
        return Ok(first);
    }
    let violations = vec!["two runs of the same seed differ".to_owned()];
    let (again, config) = (repeat_command(&make(), config), config.clone());
    let (trace, history) = (Vec::new(), History::default());
    Err(Box::new(SimFailure { config, repeat_command: again, violations, trace, history }))
}

/// The first seed of a range whose run fails, and its failure.
pub fn first_failing_seed<S: SimulatedStore>(
    seeds: Range<u64>,
    mut make: impl FnMut() -> S,
) -> Option<(u64, SimFailure)> {
    seeds.into_iter().find_map(|seed| Some((seed, *run(seed, &mut make()).err()?)))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Checks the history against the invariants.
fn check_history(history: &History, config: &SimConfig) -> Vec<String> {
    let durability = match config.store.durability {
        StoreDurability::Always => check::DurabilityClass::D2,
        // Their runs have no power cuts.
        StoreDurability::Interval | StoreDurability::None => check::DurabilityClass::D1,
    };
    // A store's time stands still when its clock jumps back or stops.
    let epoch = config.has_steady_clock().then_some(FakeClock::START);
    let report = check::check(history, &CheckRules { durability, epoch, ..CheckRules::default() });
    report.violations.iter().map(|violation| with_events(history, violation)).collect()
}

/// A violation, and the events that prove it.
fn with_events(history: &History, violation: &Violation) -> String {
    let events = history.events.iter().filter(|event| violation.events.contains(&event.i));
    let events: Vec<String> = events.map(|event| format!("\n      {event:?}")).collect();
    format!("{violation}{}", events.concat())
}

/// Pushes without a response may have happened or not; runs must cover both cases.
fn cover_lost_pushes(history: &History, coverage: &mut Coverage) {
    let (mut asked, mut lost) = (std::collections::BTreeMap::new(), BTreeSet::new());
    let mut seen = BTreeSet::new();
    for event in &history.events {
        match &event.what {
            HistoryEventBody::Invoke { n, op: RecordedOp::Push { items, .. }, .. } => {
                asked.insert(
                    *n,
                    items.iter().map(|item| item.payload).collect::<Vec<PayloadHash>>(),
                );
            }
            HistoryEventBody::Info { n, .. } => lost.extend(asked.remove(n).into_iter().flatten()),
            HistoryEventBody::Ok { r: RecordedResponse::Fetched(jobs), .. } => {
                seen.extend(jobs.iter().map(|job| job.payload));
            }
            HistoryEventBody::Node { node: NodeObservation::Dump(dump) } => {
                seen.extend(dump.jobs.iter().map(|job| job.payload));
            }
            _ => {}
        }
    }
    if lost.iter().any(|payload| seen.contains(payload)) {
        coverage.reached(RareSituation::LostPushHappened);
    }
    if lost.iter().any(|payload| !seen.contains(payload)) {
        coverage.reached(RareSituation::LostPushVanished);
    }
}
