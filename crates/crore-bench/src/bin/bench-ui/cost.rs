//! The cost of open live pages: processor time of the server, and the speed of the full cycle beside them.

use std::time::{Duration, Instant};

use crate::UiBench;
use crate::first_byte::{BenchPage, pages};
use crate::live_pages::LivePages;
use crate::load::{BackgroundLoad, SETTLE, full_speed};
use crore_bench::report::{Goal, ReportRow, RunValues};

/// Maximum processor time of the open pages, in percent of one core.
const MAX_CORE_PERCENT: f64 = 5.0;
const MANY: usize = 100;
const FEW: usize = 10;
/// Minimum speed of the cycle beside the pages.
const MIN_SPEED: f64 = 0.95;

/// The pages that people keep open.
const KEPT_OPEN: [&str; 8] =
    ["overview", "queues", "queue", "jobs", "job", "errors", "limits", "workers"];

fn kept_open(bench: &UiBench) -> Vec<BenchPage> {
    let is_kept = |page: &BenchPage| KEPT_OPEN.contains(&page.name);
    pages(&bench.data).into_iter().filter(is_kept).collect()
}

/// Processor time of the server in percent of a core.
fn core_percent(bench: &UiBench, span: Duration) -> f64 {
    let (cpu, start) = (bench.server.cpu_seconds(), Instant::now());
    std::thread::sleep(span);
    (bench.server.cpu_seconds() - cpu) / start.elapsed().as_secs_f64() * 100.0
}

/// Processor time of many open pages at a steady rate of jobs, in turns with and without them.
pub(crate) fn live_pages(bench: &mut UiBench) {
    let pages = kept_open(bench);
    let (turn, turns) = (bench.scale.turn, bench.scale.turns);
    // A turn without pages, one with them, and the time until they are connected.
    let all = (turn * 2 + SETTLE * 2) * turns.try_into().unwrap();
    let load = BackgroundLoad::start(&bench.server, bench.scale.rate, all + SETTLE);
    let mut costs = RunValues::default();
    for nth in 1..=turns {
        let without = core_percent(bench, turn);
        let live = LivePages::open(bench.server.address, &pages, MANY);
        std::thread::sleep(SETTLE);
        let loads = live.loads();
        let with = core_percent(bench, turn);
        let loads = (live.loads() - loads) as f64 / turn.as_secs_f64();
        drop(live);
        costs.0.push(with - without);
        let line = format!(
            "turn {nth}: {without:.1} % of a core without pages, {with:.1} % with {MANY}, which load {loads:.1} times per second"
        );
        bench.work_dir.progress(&line);
        bench.report.notes.push(line);
    }
    bench.report.notes.push(load.end("live pages"));
    bench.report.rows.push(ReportRow::with_bound(
        format!("{MANY} open live pages: share of a core"),
        (costs.median(), "%"),
        MAX_CORE_PERCENT,
    ));
}

/// The full cycle, in turns with and without open pages.
pub(crate) fn cycle(bench: &mut UiBench) {
    let pages = kept_open(bench);
    let turn = bench.scale.turn / 2;
    let (mut without, mut with) = (RunValues::default(), RunValues::default());
    // Once before it counts, so that files and memory of the store have their size.
    full_speed(&bench.server, turn);
    for nth in 0..bench.scale.turns * 2 {
        // Each side is first in every second turn.
        for has_pages in [nth % 2 == 0, nth % 2 == 1] {
            let live = has_pages.then(|| LivePages::open(bench.server.address, &pages, FEW));
            let rate = full_speed(&bench.server, turn);
            drop(live);
            if has_pages { with.0.push(rate) } else { without.0.push(rate) }
        }
    }
    bench.report.notes.push(format!(
        "full cycle, jobs/s: without pages {:.0?}, with {FEW} {:.0?}",
        without.0, with.0
    ));
    bench.report.rows.push(ReportRow::compared(
        (format!("full cycle with {FEW} live pages open"), "jobs/s"),
        &with,
        ("without open pages", &without),
        Goal::AtLeast(MIN_SPEED),
    ));
}
