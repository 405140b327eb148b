//! Pushes, compared with bare appends in the groups that a group commit would form.

use crate::measurement::LogBench;
use crore_bench::contender::Contender;
use crore_bench::driver::{RunFigures, Until};
use crore_bench::embedded::EmbeddedStore;
use crore_bench::interleave::take_turns;
use crore_bench::report::{Goal, ReportRow, RunValues};

/// How jobs are pushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PushShape {
    pub(crate) name: &'static str,
    in_flight: usize,
    batch: usize,
    /// Records per append of the bare loop: half of those in flight wait while the others are written.
    group: usize,
    goal: f64,
    peers: bool,
}

pub(crate) const SHAPES: [PushShape; 3] = [
    PushShape { name: "push 64", in_flight: 64, batch: 1, group: 32, goal: 0.5, peers: true },
    PushShape {
        name: "push 1024",
        in_flight: 1024,
        batch: 1,
        group: 512,
        goal: 0.25,
        peers: false,
    },
    PushShape {
        name: "push by 1000",
        in_flight: 2,
        batch: 1000,
        group: 1000,
        goal: 0.25,
        peers: false,
    },
];

/// Each contender stays open and is emptied after every run, outside the measured time, so that its files are reused
/// like those of the bare loop.
pub(crate) fn measure(bench: &mut LogBench, shape: PushShape) {
    let store = EmbeddedStore::open(&bench.work_dir.fresh("store"));
    let peers = if shape.peers { bench.databases().into() } else { Vec::new() };
    let mut contenders: Vec<&dyn Contender> = vec![&store];
    contenders.extend(peers.iter().map(|peer| peer as &dyn Contender));
    let mut rates = vec![RunValues::default(); 1 + contenders.len()];
    let mut last = Vec::new();
    for run in 1..=bench.scale.runs {
        last = one_run(bench, shape, &contenders);
        let mut line = format!("{} run {run}, jobs/s:", shape.name);
        for (rates, ran) in rates.iter_mut().zip(&last) {
            rates.0.push(ran.rate());
            line += &format!(" {:.0}", ran.rate());
        }
        bench.work_dir.progress(&line);
    }
    let (bare, rates) = rates.split_first().unwrap();
    let baseline = format!("appends in groups of {}", shape.group);
    for (n, contender) in contenders.iter().enumerate() {
        let (name, goal) = match contender.name() {
            "crore" => (shape.name.to_owned(), Goal::AtLeast(shape.goal)),
            peer => (format!("{}, {peer}", shape.name), Goal::None),
        };
        bench.note(&name, &last[n + 1]);
        let row = ReportRow::compared((name, "jobs/s"), &rates[n], (baseline.as_str(), bare), goal);
        bench.report.rows.push(row);
    }
    store.close();
}

/// One run of the bare loop, and one of each contender.
fn one_run(
    bench: &mut LogBench,
    shape: PushShape,
    contenders: &[&dyn Contender],
) -> Vec<RunFigures> {
    let (bytes, bare) = (bench.append_bytes.push, &mut bench.append_loop);
    let mut sides: Vec<Box<dyn FnMut(_) -> RunFigures + '_>> =
        vec![Box::new(|span| bare.append(shape.group, bytes, span))];
    for contender in contenders {
        let push = |span| contender.push(Until::After(span), shape.in_flight, shape.batch);
        sides.push(Box::new(push));
    }
    let ran = take_turns(&mut sides, bench.scale.span);
    drop(sides);
    for (contender, ran) in contenders.iter().zip(&ran[1..]) {
        assert_eq!(contender.count(), ran.jobs, "{} has what was pushed", contender.name());
        contender.drain();
    }
    ran
}
