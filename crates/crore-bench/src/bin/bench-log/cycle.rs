//! Full cycles over a backlog: a job is pushed, the oldest is claimed and finished. Two of the
//! three are waited for, so a cycle is counted as two appends.

use crate::measurement::Bench;
use crore_bench::contender::Contender;
use crore_bench::driver::{Ran, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::{short, take_turns};
use crore_bench::report::{Goal, Row, Runs};

const APPENDS: f64 = 2.0;
const CPU_MICROS: f64 = 4.0;

#[derive(Debug, Clone, Copy)]
struct Load {
    in_flight: usize,
    /// How many the bare loop appends at once.
    group: usize,
    goal: f64,
}

const FEW: Load = Load { in_flight: 64, group: 32, goal: 0.5 };
const MANY: Load = Load { in_flight: 1024, group: 512, goal: 0.25 };

/// One that is given the work, and the jobs that lie there before.
struct Side<'a> {
    contender: &'a dyn Contender,
    backlog: u64,
}

impl Side<'_> {
    fn is_ours(&self) -> bool {
        self.contender.name() == "crore"
    }

    fn name(&self, load: Load) -> String {
        let ours = format!("cycle {}, {} backlog", load.in_flight, short(self.backlog));
        if self.is_ours() { ours } else { format!("{ours}, {}", self.contender.name()) }
    }
}

/// All runs of one side under one load.
#[derive(Debug, Default)]
struct Figures {
    rates: Runs,
    cpu_micros: Runs,
    last: Ran,
}

impl Figures {
    fn add(&mut self, ran: Ran) {
        self.rates.0.push(ran.rate());
        self.cpu_micros.0.push(ran.cpu_micros_a_job());
        self.last = ran;
    }
}

pub(crate) fn measure(bench: &mut Bench) {
    let [few, many] = bench.scale.backlogs;
    let stores = [
        EmbeddedStore::open(&bench.work_dir.fresh("few")),
        EmbeddedStore::open(&bench.work_dir.fresh("many")),
    ];
    let peers = bench.databases();
    let mut sides: Vec<Side<'_>> = vec![
        Side { contender: &stores[0], backlog: few },
        Side { contender: &stores[1], backlog: many },
    ];
    sides.extend(peers.iter().map(|peer| Side { contender: peer, backlog: few }));
    for side in &sides {
        let ran = side.contender.fill(side.backlog);
        bench.work_dir.progress(&format!(
            "{} filled at {:.0} jobs/s",
            side.contender.name(),
            ran.rate()
        ));
    }
    under(bench, FEW, &sides);
    let figures = under(bench, MANY, &sides);
    for (side, figures) in sides.iter().zip(&figures) {
        let name = format!("processor time, {}", side.name(MANY));
        let row = Row::allowed(name, (figures.cpu_micros.median(), "µs/job"), CPU_MICROS);
        bench.report.rows.push(if side.is_ours() { row } else { row.without_goal() });
    }
    drop(sides);
    stores.into_iter().for_each(EmbeddedStore::close);
}

/// All sides in turn under one load, with the bare loop first.
fn under(bench: &mut Bench, load: Load, sides: &[Side<'_>]) -> Vec<Figures> {
    let mut bare = Runs::default();
    let mut figures: Vec<Figures> = sides.iter().map(|_| Figures::default()).collect();
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
        let (named, appends) = ((side.name(load), "appends/s"), figures.rates.times(APPENDS));
        bench.report.rows.push(Row::beside(named, &appends, (baseline.as_str(), &bare), goal));
        bench.note(&side.name(load), &figures.last);
    }
    let name = format!("{} / {}", sides[1].name(load), short(sides[0].backlog));
    let beside = ("the same, small backlog", &figures[0].rates);
    let row = Row::beside((name, "jobs/s"), &figures[1].rates, beside, Goal::AtLeast(0.8));
    bench.report.rows.push(row);
    figures
}

fn one_run(bench: &mut Bench, load: Load, sides: &[Side<'_>]) -> Vec<Ran> {
    let (bytes, bare) = (bench.append_bytes.cycle, &mut bench.append_loop);
    let mut turns: Vec<Box<dyn FnMut(_) -> Ran + '_>> =
        vec![Box::new(|span| bare.append(load.group, bytes, span))];
    for side in sides {
        turns.push(Box::new(|span| side.contender.cycle(Until::After(span), load.in_flight)));
    }
    let ran = take_turns(&mut turns, bench.scale.span);
    drop(turns);
    for side in sides {
        assert_eq!(side.contender.count(), side.backlog, "what was pushed is finished");
    }
    ran
}
