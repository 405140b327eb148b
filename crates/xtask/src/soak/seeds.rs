//! The part `seeds`: fresh seeds of the two simulators.

use serde_json::Value;

use super::part::SoakPart;
use super::progress::{SeedProgress, SoakProgress};
use super::{Soak, turn_file};
use crate::sim;

/// Seeds per turn: about a minute.
const STORE_TURN: u64 = 30_000;
const ENGINE_TURN: u64 = 10_000;

#[derive(Debug, Clone, Copy)]
enum Simulator {
    Store,
    Engine,
}

/// Alternates the two simulators until each has its seeds.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    loop {
        let mut is_done = true;
        for which in [Simulator::Store, Simulator::Engine] {
            let (from, n) = which.next(&soak.progress());
            if n > 0 && soak.may_continue(SoakPart::Seeds) {
                turn(soak, which, from, n)?;
                is_done = false;
            }
        }
        if is_done {
            return Ok(());
        }
    }
}

impl Simulator {
    fn seeds(self, progress: &mut SoakProgress) -> &mut SeedProgress {
        match self {
            Self::Store => &mut progress.store,
            Self::Engine => &mut progress.engine,
        }
    }

    /// The first seed and the number of seeds of the next turn.
    fn next(self, progress: &SoakProgress) -> (u64, u64) {
        let (seeds, wanted, turn) = match self {
            Self::Store => (&progress.store, progress.goals.store_seeds, STORE_TURN),
            Self::Engine => (&progress.engine, progress.goals.engine_seeds, ENGINE_TURN),
        };
        (seeds.from + seeds.done, wanted.saturating_sub(seeds.done).min(turn))
    }
}

fn turn(soak: &Soak, which: Simulator, from: u64, n: u64) -> Result<(), String> {
    let file = turn_file(&soak.file, "seeds.json");
    let (seeds, first) = (n.to_string(), from.to_string());
    let path = file.to_string_lossy();
    let args = ["--seeds", &seeds, "--from", &first, "--json", &path];
    let ran = match which {
        Simulator::Store => sim::run(&args),
        Simulator::Engine => sim::run(&[&["--engine"], &args[..]].concat()),
    };
    let text = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    let Ok(text) = text else {
        return ran.and(Err("the simulator wrote no report".to_owned()));
    };
    let report: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    soak.update(|progress| {
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
