//! How far a soak is, in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

/// How much of each is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) store_seeds: u64,
    pub(super) engine_seeds: u64,
    pub(super) chaos_seconds: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { store_seeds: 1_000_000, engine_seeds: 300_000, chaos_seconds: 2 * 60 * 60 }
    }
}

/// Seeds of one simulator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seeds {
    /// The first one, which was drawn.
    pub(super) from: u64,
    pub(super) done: u64,
    /// How often each cell of (deed, state, fault) was reached.
    pub(super) cells: BTreeMap<String, u64>,
    /// How many cells there are.
    pub(super) possible: u64,
}

/// Chaos.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chaos {
    pub(super) seconds: u64,
    pub(super) rounds: u64,
    /// Rounds of each harm.
    pub(super) harms: BTreeMap<String, u64>,
    /// Seeds of the turns.
    pub(super) seeds: Vec<u64>,
}

/// How far a soak is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) code: String,
    pub(super) wanted: Wanted,
    pub(super) store: Seeds,
    pub(super) engine: Seeds,
    pub(super) chaos: Chaos,
    /// Commands that repeat what failed.
    pub(super) failures: Vec<String>,
}

impl Progress {
    /// Goes on where a file ends; if there is none, begins with fresh seeds.
    pub(super) fn load_or_new(file: &Path, code: &str, wanted: Wanted) -> Result<Self, String> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::new(code, wanted));
            }
            Err(error) => return Err(format!("cannot read {}: {error}", file.display())),
        };
        let value = serde_json::from_str(&text).map_err(|error| error.to_string());
        let progress = value.and_then(|value| Self::of_json(&value));
        let mut progress =
            progress.map_err(|why| format!("{} is no soak: {why}", file.display()))?;
        if progress.code != code {
            return Err(format!(
                "{} is of other code ({}, not {code}): begin another one with --file",
                file.display(),
                progress.code
            ));
        }
        progress.wanted = wanted;
        Ok(progress)
    }

    fn new(code: &str, wanted: Wanted) -> Self {
        let fresh = || Seeds { from: fresh_seed(), ..Seeds::default() };
        let (store, engine, chaos) = (fresh(), fresh(), Chaos::default());
        Self { code: code.to_owned(), wanted, store, engine, chaos, failures: Vec::new() }
    }

    /// Writes all of it, whole or not at all.
    pub(super) fn save(&self, file: &Path) -> Result<(), String> {
        let new = file.with_extension("new");
        let text = serde_json::to_string_pretty(&self.to_json()).unwrap_or_default() + "\n";
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, file))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    /// Whether all that is wanted is done, and nothing has failed.
    pub(super) fn verdict(&self) -> Result<(), String> {
        if !self.failures.is_empty() {
            return Err(format!("violations; again:\n  {}", self.failures.join("\n  ")));
        }
        let is_done = self.store.done >= self.wanted.store_seeds
            && self.engine.done >= self.wanted.engine_seeds
            && self.chaos.seconds >= self.wanted.chaos_seconds;
        if is_done { Ok(()) } else { Err("not done yet: run it again to go on".to_owned()) }
    }

    fn to_json(&self) -> Value {
        let seeds = |seeds: &Seeds| {
            json!({
                "from": seeds.from, "done": seeds.done,
                "cells_reached": seeds.cells.len(), "cells_possible": seeds.possible,
                "cells": seeds.cells,
            })
        };
        let Chaos { seconds, rounds, harms, seeds: turns } = &self.chaos;
        json!({
            "code": self.code,
            "wanted": {
                "store_seeds": self.wanted.store_seeds,
                "engine_seeds": self.wanted.engine_seeds,
                "chaos_seconds": self.wanted.chaos_seconds,
            },
            "store": seeds(&self.store),
            "engine": seeds(&self.engine),
            "chaos": { "seconds": seconds, "rounds": rounds, "harms": harms, "seeds": turns },
            "failures": self.failures,
        })
    }

    fn of_json(value: &Value) -> Result<Self, String> {
        let number = |value: &Value, key: &str| {
            value[key].as_u64().ok_or_else(|| format!("`{key}` is no number"))
        };
        let counts = |value: &Value| -> BTreeMap<String, u64> {
            let all = value.as_object().into_iter().flatten();
            all.filter_map(|(name, n)| Some((name.clone(), n.as_u64()?))).collect()
        };
        let seeds = |value: &Value| -> Result<Seeds, String> {
            let (from, done) = (number(value, "from")?, number(value, "done")?);
            let possible = number(value, "cells_possible")?;
            Ok(Seeds { from, done, cells: counts(&value["cells"]), possible })
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let chaos = &value["chaos"];
        let failures = list(&value["failures"]).into_iter();
        Ok(Self {
            code: value["code"].as_str().ok_or("`code` is no text")?.to_owned(),
            wanted: Wanted::default(),
            store: seeds(&value["store"])?,
            engine: seeds(&value["engine"])?,
            chaos: Chaos {
                seconds: number(chaos, "seconds")?,
                rounds: number(chaos, "rounds")?,
                harms: counts(&chaos["harms"]),
                seeds: list(&chaos["seeds"]).iter().filter_map(Value::as_u64).collect(),
            },
            failures: failures.filter_map(|again| again.as_str().map(str::to_owned)).collect(),
        })
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { store_seeds, engine_seeds, chaos_seconds } = self.wanted;
        for (name, seeds, wanted) in
            [("store", &self.store, store_seeds), ("engine", &self.engine, engine_seeds)]
        {
            let Seeds { from, done, cells, possible } = seeds;
            let reached = cells.len();
            writeln!(
                f,
                "{name:<7} {done} of {wanted} seeds from {from}, {reached} of {possible} cells"
            )?;
        }
        let Chaos { seconds, rounds, .. } = self.chaos;
        writeln!(f, "chaos   {seconds} of {chaos_seconds} s, {rounds} rounds")?;
        write!(f, "{} violations", self.failures.len())
    }
}

/// A seed that nobody has seen, with room for many after it.
pub(super) fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library draws the keys of its hash maps from the system's randomness.
    RandomState::new().hash_one("soak") >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_goes_on_where_its_file_ends_and_only_with_the_same_code() {
        let dir = std::env::temp_dir().join(format!("crore-soak-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("soak.json");
        let mut progress = Progress::load_or_new(&file, "abc", Wanted::default()).expect("new");
        progress.store.done = 7;
        progress.store.cells.insert("Push - × Kill".to_owned(), 3);
        progress.chaos.harms.insert("stop".to_owned(), 12);
        progress.chaos.seeds.push(u64::MAX);
        progress.failures.push("cargo xtask sim --seed 1".to_owned());
        progress.save(&file).expect("saved");
        let again = Progress::load_or_new(&file, "abc", Wanted::default()).expect("loaded");
        assert_eq!(again, progress);
        let other = Progress::load_or_new(&file, "def", Wanted::default());
        assert!(other.is_err_and(|why| why.contains("other code")));
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    #[test]
    fn a_soak_is_done_when_all_of_it_is_and_nothing_has_failed() {
        let mut progress = Progress::new("abc", Wanted::default());
        assert!(progress.verdict().is_err_and(|why| why.contains("not done")));
        progress.store.done = progress.wanted.store_seeds;
        progress.engine.done = progress.wanted.engine_seeds;
        progress.chaos.seconds = progress.wanted.chaos_seconds;
        assert_eq!(progress.verdict(), Ok(()));
        progress.failures.push("again".to_owned());
        assert!(progress.verdict().is_err());
    }
}
