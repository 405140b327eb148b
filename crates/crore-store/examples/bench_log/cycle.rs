//! Full cycles over a backlog: a job is pushed, the oldest is claimed and finished. Two of the
//! three are waited for, so a cycle is counted as two appends.

use crate::bench::{Bench, settle, short};
use crate::contender::Contender;
use crate::drive::Ran;
use crate::subject::Subject;
use crate::table::{Goal, Row, Runs};

const APPENDS: f64 = 2.0;
const CPU_MICROS: f64 = 4.0;

#[derive(Debug, Clone, Copy)]
struct Load {
    in_flight: usize,
    group: usize,
    goal: f64,
}

const LOADS: [Load; 2] = [
    Load { in_flight: 64, group: 32, goal: 0.5 },
    Load { in_flight: 1024, group: 512, goal: 0.25 },
];

/// One that is given the work, and the jobs that lie there before.
struct Side<'a> {
    contender: &'a dyn Contender,
    backlog: u64,
}

/// The figures of one side under one load.
#[derive(Debug, Default)]
struct Figures {
    rates: Runs,
    cpu_micros: Runs,
    last: Option<Ran>,
}

impl Side<'_> {
    fn name(&self, load: Load) -> String {
        let peer = match self.contender.name() {
            "crore" => String::new(),
            peer => format!(", {peer}"),
        };
        format!("cycle {}, {} backlog{peer}", load.in_flight, short(self.backlog))
    }

    fn run(&self, bench: &Bench, load: Load, figures: &mut Figures) {
        settle();
        let ran = self.contender.cycle(bench.span(), load.in_flight);
        assert_eq!(self.contender.count(), self.backlog, "what was pushed is finished");
        figures.rates.0.push(ran.rate());
        figures.cpu_micros.0.push(ran.cpu_micros_a_job());
        bench.progress(&format!("{}: {:.0} jobs/s", self.name(load), ran.rate()));
        figures.last = Some(ran);
    }
}

pub(crate) fn measure(bench: &mut Bench) {
    let [few, many] = bench.scale.backlogs;
    let stores = [Subject::open(&bench.fresh("few")), Subject::open(&bench.fresh("many"))];
    let peers = bench.peers();
    let mut sides: Vec<Side<'_>> = vec![
        Side { contender: &stores[0], backlog: few },
        Side { contender: &stores[1], backlog: many },
    ];
    sides.extend(peers.iter().map(|peer| Side { contender: peer, backlog: few }));
    for side in &sides {
        let ran = side.contender.fill(side.backlog);
        bench.progress(&format!("{} filled at {:.0} jobs/s", side.contender.name(), ran.rate()));
    }
    for load in LOADS {
        under(bench, load, &sides);
    }
    drop(sides);
    stores.into_iter().for_each(Subject::close);
}

/// All sides in turn under one load, again and again, with the bare loop first.
fn under(bench: &mut Bench, load: Load, sides: &[Side<'_>]) {
    let mut bare = Runs::default();
    let mut all: Vec<Figures> = sides.iter().map(|_| Figures::default()).collect();
    for run in 1..=bench.scale.runs {
        let (bytes, span) = (bench.append_bytes.cycle, bench.scale.span);
        settle();
        bare.0.push(bench.bare.rate(load.group, bytes, span));
        let rate = bare.0[run - 1];
        bench.progress(&format!("cycle {} run {run}: bare {rate:.0} appends/s", load.in_flight));
        for (side, figures) in sides.iter().zip(&mut all) {
            side.run(bench, load, figures);
        }
    }
    let baseline = format!("appends in groups of {}", load.group);
    for (side, figures) in sides.iter().zip(&all) {
        let ours = side.contender.name() == "crore";
        let goal = if ours { Goal::AtLeast(load.goal) } else { Goal::None };
        let (named, appends) = ((side.name(load), "appends/s"), figures.rates.times(APPENDS));
        bench.report.rows.push(Row::beside(named, &appends, (baseline.as_str(), &bare), goal));
        if let Some(ran) = &figures.last {
            bench.note(&side.name(load), ran);
        }
    }
    let [few, many, ..] = &all[..] else { unreachable!("two backlogs are measured") };
    let name = format!(
        "cycle {}, {} / {} backlog",
        load.in_flight,
        short(sides[1].backlog),
        short(sides[0].backlog)
    );
    let beside = ("the same, small backlog", &few.rates);
    bench.report.rows.push(Row::beside((name, "jobs/s"), &many.rates, beside, Goal::AtLeast(0.8)));
    if load.in_flight == 1024 {
        for (side, figures) in sides.iter().zip(&all) {
            let name = format!("processor time, {}", side.name(load));
            let row = Row::allowed(name, (figures.cpu_micros.median(), "µs/job"), CPU_MICROS);
            let ours = side.contender.name() == "crore";
            bench.report.rows.push(if ours { row } else { row.without_goal() });
        }
    }
}
