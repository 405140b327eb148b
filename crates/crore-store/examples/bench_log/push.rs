//! Pushes, beside bare appends in groups that a group commit would make of them.

use crate::bench::{Bench, settle};
use crate::contender::Contender;
use crate::subject::Subject;
use crate::table::{Goal, Row, Runs};

/// How jobs are pushed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    in_flight: usize,
    batch: usize,
    /// How many the bare loop appends at once: half of those in flight wait while the others are
    /// being written.
    group: usize,
    goal: f64,
    peers: bool,
}

pub(crate) const SHAPES: [Shape; 3] = [
    Shape { name: "push 64", in_flight: 64, batch: 1, group: 32, goal: 0.5, peers: true },
    Shape { name: "push 1024", in_flight: 1024, batch: 1, group: 512, goal: 0.25, peers: false },
    Shape {
        name: "push by 1000",
        in_flight: 2,
        batch: 1000,
        group: 1000,
        goal: 0.25,
        peers: false,
    },
];

/// Each contender stays open, and is emptied after every run, outside of the clock: so its files
/// are used again, as those of the bare loop are.
pub(crate) fn measure(bench: &mut Bench, shape: Shape) {
    let store = Subject::open(&bench.fresh("store"));
    let peers = if shape.peers { bench.peers().into() } else { Vec::new() };
    let mut contenders: Vec<&dyn Contender> = vec![&store];
    contenders.extend(peers.iter().map(|peer| peer as &dyn Contender));
    let mut bare = Runs::default();
    let mut rates = vec![Runs::default(); contenders.len()];
    for run in 1..=bench.scale.runs {
        settle();
        bare.0.push(bench.bare.rate(shape.group, bench.append_bytes.push, bench.scale.span));
        let mut line = format!("{} run {run}: bare {:.0}/s", shape.name, bare.0[run - 1]);
        for (contender, rates) in contenders.iter().zip(&mut rates) {
            settle();
            let ran = contender.push(bench.span(), shape.in_flight, shape.batch);
            assert_eq!(contender.count(), ran.jobs, "{} lost no push", contender.name());
            contender.drain();
            rates.0.push(ran.rate());
            line += &format!(", {} {:.0}/s", contender.name(), ran.rate());
            if run == bench.scale.runs {
                bench.note(&format!("{}, {}", shape.name, contender.name()), &ran);
            }
        }
        bench.progress(&line);
    }
    let baseline = format!("appends in groups of {}", shape.group);
    for (contender, rates) in contenders.iter().zip(&rates) {
        let (name, goal) = match contender.name() {
            "crore" => (shape.name.to_owned(), Goal::AtLeast(shape.goal)),
            peer => (format!("{}, {peer}", shape.name), Goal::None),
        };
        let row = Row::beside((name, "jobs/s"), rates, (baseline.as_str(), &bare), goal);
        bench.report.rows.push(row);
    }
    store.close();
}
