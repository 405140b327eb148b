//! Full cycles over a backlog: a job is pushed, the oldest is claimed and finished. Two of the three are awaited, so a
//! cycle counts as two appends.

use crate::measurement::LogBench;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::{short, take_turns};
use crore_bench::report::{Goal, ReportRow, RunValues};

const APPENDS: f64 = 2.0;
const CPU_MICROS: f64 = 4.0;

#[derive(Debug, Clone, Copy)]
struct CycleLoad {
    in_flight: usize,
    /// Records per append of the bare loop.
    group: usize,
    goal: f64,
}

const FEW: CycleLoad = CycleLoad { in_flight: 64, group: 32, goal: 0.5 };
const MANY: CycleLoad = CycleLoad { in_flight: 1024, group: 512, goal: 0.25 };

/// A contender, and the size of its backlog.
struct CycleSide<'a> {
    contender: &'a dyn Contender,
    backlog: u64,
}

impl CycleSide<'_> {
    fn is_ours(&self) -> bool {
        self.contender.name() == "crore"
    }

    fn name(&self, load: CycleLoad) -> String {
        let ours = format!("cycle {}, {} backlog", load.in_flight, short(self.backlog));
        if self.is_ours() { ours } else { format!("{ours}, {}", self.contender.name()) }
    }
}

/// All runs of one side under one load.
#[derive(Debug, Default)]
struct SideFigures {
    rates: RunValues,
    cpu_micros: RunValues,
    last: RunFigures,
}

impl SideFigures {
    fn add(&mut self, ran: RunFigures) {
        self.rates.0.push(ran.rate());
        self.cpu_micros.0.push(ran.cpu_micros_per_job());
        self.last = ran;
    }
}

pub(crate) fn measure(bench: &mut LogBench) {
    let [few, many] = bench.scale.backlogs;
    let stores = [
        EmbeddedStore::open(&bench.work_dir.fresh("few")),
        EmbeddedStore::open(&bench.work_dir.fresh("many")),
    ];
    let peers = bench.databases();
    let mut sides: Vec<CycleSide<'_>> = vec![
        CycleSide { contender: &stores[0], backlog: few },
        CycleSide { contender: &stores[1], backlog: many },
    ];
    sides.extend(peers.iter().map(|peer| CycleSide { contender: peer, backlog: few }));
    for side in &sides {
        let ran = side.contender.fill(side.backlog);
        bench.work_dir.progress(&format!(
            "{} filled at {:.0} jobs/s",
            side.contender.name(),
            ran.rate()
        ));
    }
    measure_load(bench, FEW, &sides);
    let figures = measure_load(bench, MANY, &sides);
    for (side, figures) in sides.iter().zip(&figures) {
        let name = format!("processor time, {}", side.name(MANY));
        let row = ReportRow::with_bound(name, (figures.cpu_micros.median(), "µs/job"), CPU_MICROS);
        bench.report.rows.push(if side.is_ours() { row } else { row.without_goal() });
    }
    drop(sides);
    stores.into_iter().for_each(EmbeddedStore::close);
}

/// All sides in turn under one load, the bare loop first.
fn measure_load(
    bench: &mut LogBench,
    load: CycleLoad,
    sides: &[CycleSide<'_>],
) -> Vec<SideFigures> {
    let mut bare = RunValues::default();
    let mut figures: Vec<SideFigures> = sides.iter().map(|_| SideFigures::default()).collect();
    for run in 1..=bench.scale.runs {
        let mut ran = one_run(bench, load, sides).into_iter();
        bare.0.extend(ran.next().map(|ran| ran.rate()));
        let mut line = format!("cycle {} run {run}, appends/s:", load.in_flight);
        line += &format!(" {:.0}; jobs/s:", bare.0[run - 1]);
        for (figures, ran) in figures.iter_mut().zip(ran) {
            line += &format!(" {:.0}", ran.rate());
            figures.add(ran);
        }
        bench.work_dir.progress(&line);
    }
    let baseline = format!("appends in groups of {}", load.group);
    for (side, figures) in sides.iter().zip(&figures) {
        let goal = if side.is_ours() { Goal::AtLeast(load.goal) } else { Goal::None };
        let (named, appends) = ((side.name(load), "appends/s"), figures.rates.scaled(APPENDS));
        bench.report.rows.push(ReportRow::compared(
            named,
            &appends,
            (baseline.as_str(), &bare),
            goal,
        ));
        bench.note(&side.name(load), &figures.last);
    }
    let name = format!("{} / {}", sides[1].name(load), short(sides[0].backlog));
    let baseline = ("the same, small backlog", &figures[0].rates);
    let row =
        ReportRow::compared((name, "jobs/s"), &figures[1].rates, baseline, Goal::AtLeast(0.8));
    bench.report.rows.push(row);
    figures
}

fn one_run(bench: &mut LogBench, load: CycleLoad, sides: &[CycleSide<'_>]) -> Vec<RunFigures> {
    let (bytes, bare) = (bench.append_bytes.cycle, &mut bench.append_loop);
    let mut turns: Vec<Box<dyn FnMut(_) -> RunFigures + '_>> =
        vec![Box::new(|span| bare.append(load.group, bytes, span))];
    for side in sides {
        turns.push(Box::new(|span| side.contender.cycle(Until::After(span), load.in_flight)));
    }
    let ran = take_turns(&mut turns, bench.scale.span);
    drop(turns);
    for side in sides {
        assert_eq!(side.contender.count(), side.backlog, "every pushed job is finished");
    }
    ran
}
