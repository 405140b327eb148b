//! Full cycles over a backlog (push, fetch one, finish): through the engine, and directly on the store.

use crate::engine::DrivenEngine;
use crate::measurement::EngineBench;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::{short, take_turns};
use crore_bench::report::{Goal, ReportRow, RunValues};

const GOAL: f64 = 0.7;
const LOADS: [usize; 2] = [64, 1024];

/// Turns per run. The duration of a sync varies thirtyfold from one second to the next, so that only short turns see
/// the same disk speed.
const ROUNDS: u32 = 4;

pub(crate) fn measure(bench: &mut EngineBench) {
    let store = EmbeddedStore::open(&bench.work_dir.fresh("store"));
    let engine = DrivenEngine::open(&bench.work_dir.fresh("engine"));
    let sides: [&dyn Contender; 2] = [&store, &engine];
    for side in sides {
        let ran = side.fill(bench.scale.backlog);
        bench.work_dir.progress(&format!("{} filled at {:.0} jobs/s", side.name(), ran.rate()));
    }
    for in_flight in LOADS {
        measure_load(bench, in_flight, sides);
    }
    for side in sides {
        side.drain();
    }
    store.close();
    engine.close();
}

fn measure_load(bench: &mut EngineBench, in_flight: usize, sides: [&dyn Contender; 2]) {
    let mut rates = [RunValues::default(), RunValues::default()];
    let mut last = Vec::new();
    for run in 1..=bench.scale.runs {
        last = one_run(bench, in_flight, sides);
        let [store, engine] = [last[0].rate(), last[1].rate()];
        rates[0].0.push(store);
        rates[1].0.push(engine);
        bench
            .work_dir
            .progress(&format!("cycle {in_flight} run {run}, jobs/s: {store:.0} {engine:.0}"));
    }
    let [store, engine] = &rates;
    let name = format!("cycle {in_flight}, {} backlog", short(bench.scale.backlog));
    for (side, ran) in ["store", "engine"].iter().zip(&last) {
        bench.note(&format!("{name}, {side}"), ran);
    }
    let row = ReportRow::compared(
        (name, "jobs/s"),
        engine,
        ("the store's own", store),
        Goal::AtLeast(GOAL),
    );
    bench.report.rows.push(row);
}

fn one_run(bench: &EngineBench, in_flight: usize, sides: [&dyn Contender; 2]) -> Vec<RunFigures> {
    let mut turns: Vec<Box<dyn FnMut(_) -> RunFigures + '_>> = Vec::new();
    for side in sides {
        turns.push(Box::new(move |span| side.cycle(Until::After(span), in_flight)));
    }
    let mut ran = vec![RunFigures::default(), RunFigures::default()];
    for _ in 0..ROUNDS {
        let round = take_turns(&mut turns, bench.scale.span / ROUNDS);
        ran = ran.into_iter().zip(round).map(|(so_far, more)| so_far.merge(more)).collect();
    }
    for side in sides {
        assert_eq!(side.count(), bench.scale.backlog, "every pushed job is finished");
    }
    ran
}
