//! Turns of the two simulators.

use serde_json::Value;

use super::part::Part;
use super::progress::{Progress, Seeds};
use super::{Soak, turn_file};
use crate::sim;

/// How many seeds one turn has: about a minute of them.
const STORE_TURN: u64 = 30_000;
const ENGINE_TURN: u64 = 10_000;

/// Which simulator.
#[derive(Debug, Clone, Copy)]
enum Which {
    Store,
    Engine,
}

/// Runs the two by turns until so many seeds of each are done.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    loop {
        let mut is_done = true;
        for which in [Which::Store, Which::Engine] {
            let (from, n) = which.next(&soak.progress());
            if n > 0 && soak.goes_on(Part::Seeds) {
                turn(soak, which, from, n)?;
                is_done = false;
            }
        }
        if is_done {
            return Ok(());
        }
    }
}

impl Which {
    fn seeds(self, progress: &mut Progress) -> &mut Seeds {
        match self {
            Self::Store => &mut progress.store,
            Self::Engine => &mut progress.engine,
        }
    }

    /// Where the next turn begins, and how many seeds it has.
    fn next(self, progress: &Progress) -> (u64, u64) {
        let (seeds, wanted, turn) = match self {
            Self::Store => (&progress.store, progress.wanted.store_seeds, STORE_TURN),
            Self::Engine => (&progress.engine, progress.wanted.engine_seeds, ENGINE_TURN),
        };
        (seeds.from + seeds.done, wanted.saturating_sub(seeds.done).min(turn))
    }
}

fn turn(soak: &Soak, which: Which, from: u64, n: u64) -> Result<(), String> {
    let file = turn_file(&soak.file, "seeds.json");
    let (seeds, first) = (n.to_string(), from.to_string());
    let path = file.to_string_lossy();
    let args = ["--seeds", &seeds, "--from", &first, "--json", &path];
    let ran = match which {
        Which::Store => sim::run(&args),
        Which::Engine => sim::run(&[&["--engine"], &args[..]].concat()),
    };
    let text = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    let Ok(text) = text else {
        return ran.and(Err("the simulator has written nothing".to_owned()));
    };
    let report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    soak.note(|progress| {
        let seeds = which.seeds(progress);
        seeds.done += n;
        seeds.possible = seeds.possible.max(report["cells_possible"].as_u64().unwrap_or_default());
        for (cell, n) in report["cells"].as_object().into_iter().flatten() {
            *seeds.cells.entry(cell.clone()).or_default() += n.as_u64().unwrap_or_default();
        }
        let failures = report["failures"].as_array().into_iter().flatten();
        let again = failures.filter_map(|failure| failure["again"].as_str());
        progress.failures.extend(again.map(str::to_owned));
        println!("{progress}");
    })
}
