//! Full cycles over a backlog: push, fetch one, finish; through the engine, and on the store itself.

use crate::engine::DrivenEngine;
use crate::measurement::Bench;
use crore_bench::contender::Contender;
use crore_bench::driver::{Ran, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::{short, take_turns};
use crore_bench::report::{Goal, Row, Runs};

const GOAL: f64 = 0.7;
const LOADS: [usize; 2] = [64, 1024];

/// How often the sides take all their turns in a run: where a sync takes thirty times as long in one second
/// as in the next, only short turns meet the same weather.
const ROUNDS: u32 = 4;

pub(crate) fn measure(bench: &mut Bench) {
    let store = EmbeddedStore::open(&bench.work_dir.fresh("store"));
    let engine = DrivenEngine::open(&bench.work_dir.fresh("engine"));
    let sides: [&dyn Contender; 2] = [&store, &engine];
    for side in sides {
        let ran = side.fill(bench.scale.backlog);
        bench.work_dir.progress(&format!("{} filled at {:.0} jobs/s", side.name(), ran.rate()));
    }
    for in_flight in LOADS {
        under(bench, in_flight, sides);
    }
    for side in sides {
        side.drain();
    }
    store.close();
    engine.close();
}

fn under(bench: &mut Bench, in_flight: usize, sides: [&dyn Contender; 2]) {
    let mut rates = [Runs::default(), Runs::default()];
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
    let row =
        Row::beside((name, "jobs/s"), engine, ("the store's own", store), Goal::AtLeast(GOAL));
    bench.report.rows.push(row);
}

fn one_run(bench: &Bench, in_flight: usize, sides: [&dyn Contender; 2]) -> Vec<Ran> {
    let mut turns: Vec<Box<dyn FnMut(_) -> Ran + '_>> = Vec::new();
    for side in sides {
        turns.push(Box::new(move |span| side.cycle(Until::After(span), in_flight)));
    }
    let mut ran = vec![Ran::default(), Ran::default()];
    for _ in 0..ROUNDS {
        let round = take_turns(&mut turns, bench.scale.span / ROUNDS);
        ran = ran.into_iter().zip(round).map(|(so_far, more)| so_far.and(more)).collect();
    }
    for side in sides {
        assert_eq!(side.count(), bench.scale.backlog, "what was pushed is finished");
    }
    ran
}
