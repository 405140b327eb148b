//! The progress of a soak, kept in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use super::fuzz::{self, FuzzTotals};
use super::harm;
use super::part::SoakPart;

/// The wanted amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SoakGoals {
    pub(super) store_seeds: u64,
    pub(super) engine_seeds: u64,
    /// For each fuzz target.
    pub(super) fuzz_seconds: u64,
    pub(super) chaos_seconds: u64,
    /// Rounds of the first fault; the others have a divisor.
    pub(super) harm_rounds: u64,
}

impl Default for SoakGoals {
    fn default() -> Self {
        Self {
            store_seeds: 1_000_000,
            engine_seeds: 300_000,
            fuzz_seconds: 10 * 60,
            chaos_seconds: 2 * 60 * 60,
            harm_rounds: 5000,
        }
    }
}

/// Seeds of one simulator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SeedProgress {
    /// The first seed, drawn at random.
    pub(super) from: u64,
    pub(super) done: u64,
    /// How often each cell of (operation, state, fault) was reached.
    pub(super) cells: BTreeMap<String, u64>,
    /// Number of possible cells.
    pub(super) possible: u64,
}

/// Progress of the part `chaos`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ChaosProgress {
    pub(super) seconds: u64,
    pub(super) rounds: u64,
    /// Rounds of each fault.
    pub(super) faults: BTreeMap<String, u64>,
    /// Seeds of the turns.
    pub(super) seeds: Vec<u64>,
}

/// The progress of a soak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SoakProgress {
    pub(super) code: String,
    pub(super) goals: SoakGoals,
    pub(super) store: SeedProgress,
    pub(super) engine: SeedProgress,
    /// Each fuzz target.
    pub(super) fuzz: BTreeMap<String, FuzzTotals>,
    pub(super) chaos: ChaosProgress,
    /// Rounds of each fault of the part `harm`.
    pub(super) harm: BTreeMap<String, u64>,
    /// Parts that run once.
    pub(super) parts: BTreeMap<String, PartOutcome>,
    /// Faults that this machine cannot inject (`chaos power`), each with the reason.
    pub(super) skipped: BTreeMap<String, String>,
    /// Commands that reproduce the failures.
    pub(super) failures: Vec<String>,
}

/// The result of a part that runs once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartOutcome {
    Passed,
    Failed,
    /// Not done, for this reason.
    Skipped(String),
}

impl PartOutcome {
    fn of_text(text: &str) -> Option<Self> {
        match text {
            "passed" => Some(Self::Passed),
            "failed" => Some(Self::Failed),
            text => text.strip_prefix("skipped: ").map(|why| Self::Skipped(why.to_owned())),
        }
    }
}

impl fmt::Display for PartOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed => f.write_str("failed"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

impl SoakProgress {
    /// Loads the progress from a file; without one, starts with fresh seeds.
    pub(super) fn load_or_new(file: &Path, code: &str, wanted: SoakGoals) -> Result<Self, String> {
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
            progress.map_err(|why| format!("{} is not a soak file: {why}", file.display()))?;
        if progress.code != code {
            return Err(format!(
                "{} is a soak of other code ({}, not {code}); start another one with --file",
                file.display(),
                progress.code
            ));
        }
        progress.goals = wanted;
        Ok(progress)
    }

    fn new(code: &str, wanted: SoakGoals) -> Self {
        let fresh = || SeedProgress { from: fresh_seed(), ..SeedProgress::default() };
        let (store, engine, chaos) = (fresh(), fresh(), ChaosProgress::default());
        Self {
            code: code.to_owned(),
            goals: wanted,
            store,
            engine,
            fuzz: BTreeMap::new(),
            chaos,
            harm: BTreeMap::new(),
            parts: BTreeMap::new(),
            skipped: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Replaces the file atomically.
    pub(super) fn save(&self, file: &Path) -> Result<(), String> {
        let new = file.with_extension("new");
        let text = serde_json::to_string_pretty(&self.to_json()).unwrap_or_default() + "\n";
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, file))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))
    }

    /// Clears what these parts skipped before: this run may be on another machine.
    pub(super) fn clear_skipped(&mut self, parts: &[SoakPart]) {
        let is_chosen =
            |name: &str| parts.iter().any(|part| name.split(' ').next() == Some(part.name()));
        self.skipped.retain(|name, _| !is_chosen(name));
        self.parts.retain(|name, end| !(is_chosen(name) && matches!(end, PartOutcome::Skipped(_))));
    }

    pub(super) fn has_failed(&self, part: SoakPart) -> bool {
        self.failures.iter().any(|again| SoakPart::repeated_by(again) == part)
    }

    /// Whether a part has reached its wanted amount, with nothing skipped.
    pub(super) fn is_done(&self, part: SoakPart) -> bool {
        let enough = match part {
            SoakPart::Seeds => {
                self.store.done >= self.goals.store_seeds
                    && self.engine.done >= self.goals.engine_seeds
            }
            SoakPart::Fuzz => fuzz::is_done(&self.fuzz, self.goals.fuzz_seconds),
            SoakPart::Chaos => self.chaos.seconds >= self.goals.chaos_seconds,
            SoakPart::Harm => harm::wanted_rounds(self.goals.harm_rounds)
                .all(|(harm, rounds)| self.harm.get(harm).is_some_and(|done| *done >= rounds)),
            _ => self.parts.get(part.name()) == Some(&PartOutcome::Passed),
        };
        enough && self.skipped_of(part).next().is_none()
    }

    /// The faults that a part skipped, each with the reason.
    pub(super) fn skipped_of(&self, part: SoakPart) -> impl Iterator<Item = (&str, &str)> {
        let skipped = self.skipped.iter();
        let of_part = move |name: &&String| name.split(' ').next() == Some(part.name());
        skipped.filter(move |(name, _)| of_part(name)).map(|(name, why)| (&**name, &**why))
    }

    /// Fails if something has failed or a part is not done.
    pub(super) fn verdict(&self, parts: &[SoakPart]) -> Result<(), String> {
        if !self.failures.is_empty() {
            return Err(format!("violations; repeat with:\n  {}", self.failures.join("\n  ")));
        }
        let open = parts.iter().filter(|part| !self.is_done(**part));
        let open: Vec<String> = open.map(|part| self.line(*part)).collect();
        if open.is_empty() {
            return Ok(());
        }
        Err(format!("not done; run it again to continue:\n  {}", open.join("\n  ")))
    }

    /// The progress of a part, in one line.
    pub(super) fn line(&self, part: SoakPart) -> String {
        let mut line = format!("{:<7} {}", part.name(), self.amount(part));
        for (name, why) in self.skipped_of(part) {
            line += &format!("; {name} skipped: {why}");
        }
        line
    }

    /// The done and the wanted amount of a part.
    pub(super) fn amount(&self, part: SoakPart) -> String {
        let SoakGoals { store_seeds, engine_seeds, fuzz_seconds, chaos_seconds, harm_rounds } =
            self.goals;
        match part {
            SoakPart::Seeds => {
                let (store, engine) = (&self.store, &self.engine);
                let of = |seeds: &SeedProgress, wanted: u64| {
                    let SeedProgress { from, done, cells, possible } = seeds;
                    let reached = cells.len();
                    format!("{done} of {wanted} seeds from {from}, {reached} of {possible} cells")
                };
                format!("store {}; engine {}", of(store, store_seeds), of(engine, engine_seeds))
            }
            SoakPart::Fuzz => fuzz::amount(&self.fuzz, fuzz_seconds),
            SoakPart::Chaos => {
                let ChaosProgress { seconds, rounds, .. } = self.chaos;
                format!("{seconds} of {chaos_seconds} s, {rounds} rounds")
            }
            SoakPart::Harm => {
                let done = |harm: &str| self.harm.get(harm).copied().unwrap_or_default();
                let all = harm::wanted_rounds(harm_rounds);
                let all = all.map(|(harm, rounds)| format!("{harm} {} of {rounds}", done(harm)));
                format!("rounds: {}", all.collect::<Vec<_>>().join(", "))
            }
            _ => self
                .parts
                .get(part.name())
                .map_or_else(|| "not run".to_owned(), PartOutcome::to_string),
        }
    }

    fn to_json(&self) -> Value {
        let seeds = |seeds: &SeedProgress| {
            json!({
                "from": seeds.from, "done": seeds.done,
                "cells_reached": seeds.cells.len(), "cells_possible": seeds.possible,
                "cells": seeds.cells,
            })
        };
        let ChaosProgress { seconds, rounds, faults: harms, seeds: turns } = &self.chaos;
        json!({
            "code": self.code,
            "wanted": {
                "store_seeds": self.goals.store_seeds,
                "engine_seeds": self.goals.engine_seeds,
                "fuzz_seconds": self.goals.fuzz_seconds,
                "chaos_seconds": self.goals.chaos_seconds,
                "harm_rounds": self.goals.harm_rounds,
            },
            "store": seeds(&self.store),
            "engine": seeds(&self.engine),
            "fuzz": self.fuzz.iter().map(|(name, totals)| (name, totals.to_json())).collect::<BTreeMap<_, _>>(),
            "chaos": { "seconds": seconds, "rounds": rounds, "harms": harms, "seeds": turns },
            "harm": self.harm,
            "parts": self.parts.iter().map(|(name, end)| (name, end.to_string())).collect::<BTreeMap<_, _>>(),
            "skipped": self.skipped,
            "failures": self.failures,
        })
    }

    fn of_json(value: &Value) -> Result<Self, String> {
        let number = |value: &Value, key: &str| {
            value[key].as_u64().ok_or_else(|| format!("`{key}` is not a number"))
        };
        let counts = |value: &Value| -> BTreeMap<String, u64> {
            let all = value.as_object().into_iter().flatten();
            all.filter_map(|(name, n)| Some((name.clone(), n.as_u64()?))).collect()
        };
        let seeds = |value: &Value| -> Result<SeedProgress, String> {
            let (from, done) = (number(value, "from")?, number(value, "done")?);
            let possible = number(value, "cells_possible")?;
            Ok(SeedProgress { from, done, cells: counts(&value["cells"]), possible })
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let chaos = &value["chaos"];
        let failures = list(&value["failures"]).into_iter();
        Ok(Self {
            code: value["code"].as_str().ok_or("`code` is not a string")?.to_owned(),
            goals: SoakGoals::default(),
            store: seeds(&value["store"])?,
            engine: seeds(&value["engine"])?,
            fuzz: fuzz::totals_of_json(&value["fuzz"]),
            chaos: ChaosProgress {
                seconds: number(chaos, "seconds")?,
                rounds: number(chaos, "rounds")?,
                faults: counts(&chaos["harms"]),
                seeds: list(&chaos["seeds"]).iter().filter_map(Value::as_u64).collect(),
            },
            harm: counts(&value["harm"]),
            parts: texts(&value["parts"])
                .filter_map(|(name, end)| Some((name, PartOutcome::of_text(&end)?)))
                .collect(),
            skipped: texts(&value["skipped"]).collect(),
            failures: failures.filter_map(|again| again.as_str().map(str::to_owned)).collect(),
        })
    }
}

/// The strings of an object. Files of earlier soaks lack some objects, which then count as empty.
fn texts(value: &Value) -> impl Iterator<Item = (String, String)> {
    let all = value.as_object().into_iter().flatten();
    all.filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
}

impl fmt::Display for SoakProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in SoakPart::ALL {
            writeln!(f, "{}", self.line(part))?;
        }
        write!(f, "{} violations", self.failures.len())
    }
}

/// A fresh seed, small enough for a long range to follow it.
pub(super) fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds its hash maps from the operating system's random source.
    RandomState::new().hash_one("soak") >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_continues_from_its_file_and_only_with_the_same_code() {
        let dir = std::env::temp_dir().join(format!("crore-soak-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let file = dir.join("soak.json");
        let mut progress =
            SoakProgress::load_or_new(&file, "abc", SoakGoals::default()).expect("new");
        progress.store.done = 7;
        progress.store.cells.insert("Push - × Kill".to_owned(), 3);
        let totals = FuzzTotals { seconds: 300, runs: 5, coverage: 7, inputs: 9 };
        progress.fuzz.insert("texts".to_owned(), totals);
        progress.chaos.faults.insert("stop".to_owned(), 12);
        progress.chaos.seeds.push(u64::MAX);
        progress.harm.insert("kill".to_owned(), 500);
        progress.parts.insert("docs".to_owned(), PartOutcome::Passed);
        progress.parts.insert("audit".to_owned(), PartOutcome::Skipped("no database".to_owned()));
        progress.skipped.insert("chaos power".to_owned(), "no loop devices".to_owned());
        progress.failures.push("cargo xtask sim --seed 1".to_owned());
        progress.save(&file).expect("saved");
        let again = SoakProgress::load_or_new(&file, "abc", SoakGoals::default()).expect("loaded");
        assert_eq!(again, progress);
        let other = SoakProgress::load_or_new(&file, "def", SoakGoals::default());
        assert!(other.is_err_and(|why| why.contains("other code")));
        std::fs::remove_dir_all(&dir).expect("removed");
    }

    fn done() -> SoakProgress {
        let mut progress = SoakProgress::new("abc", SoakGoals::default());
        progress.store.done = progress.goals.store_seeds;
        progress.engine.done = progress.goals.engine_seeds;
        progress.chaos.seconds = progress.goals.chaos_seconds;
        for target in fuzz::targets() {
            let seconds = progress.goals.fuzz_seconds;
            progress.fuzz.insert(target, FuzzTotals { seconds, ..FuzzTotals::default() });
        }
        for (harm, rounds) in harm::wanted_rounds(progress.goals.harm_rounds) {
            progress.harm.insert(harm.to_owned(), rounds);
        }
        let once = [
            SoakPart::Audit,
            SoakPart::Deny,
            SoakPart::Docs,
            SoakPart::Damage,
            SoakPart::Looks,
            SoakPart::Drill,
        ];
        for part in once {
            progress.parts.insert(part.name().to_owned(), PartOutcome::Passed);
        }
        progress
    }

    #[test]
    fn a_soak_is_done_when_all_chosen_parts_are_and_nothing_has_failed() {
        let fresh = SoakProgress::new("abc", SoakGoals::default());
        assert!(fresh.verdict(&SoakPart::ALL).is_err_and(|why| why.contains("not done")));
        assert_eq!(done().verdict(&SoakPart::ALL), Ok(()));
        for part in SoakPart::ALL {
            assert!(!fresh.is_done(part) && done().is_done(part), "{part:?}");
        }
        let mut failed = done();
        failed.failures.push("cargo xtask sim --seed 7".to_owned());
        assert!(failed.verdict(&[SoakPart::Docs]).is_err());
        assert!(failed.has_failed(SoakPart::Seeds) && !failed.has_failed(SoakPart::Chaos));
    }

    #[test]
    fn a_part_that_skipped_something_is_not_done_until_it_runs_again() {
        let mut progress = done();
        progress.skipped.insert("chaos power".to_owned(), "no loop devices".to_owned());
        let why = "no database".to_owned();
        progress.parts.insert("audit".to_owned(), PartOutcome::Skipped(why));
        let verdict = progress.verdict(&SoakPart::ALL).expect_err("not done");
        assert!(verdict.contains("chaos power skipped: no loop devices"), "{verdict}");
        assert!(verdict.contains("skipped: no database"), "{verdict}");
        assert_eq!(progress.verdict(&[SoakPart::Seeds, SoakPart::Harm]), Ok(()));
        progress.clear_skipped(&[SoakPart::Chaos, SoakPart::Audit]);
        assert!(progress.is_done(SoakPart::Chaos) && !progress.is_done(SoakPart::Audit));
        assert!(progress.skipped.is_empty());
    }

    /// A file from the time when soaks had two parts.
    #[test]
    fn files_of_earlier_soaks_load() {
        let text = r#"{
            "code": "abc",
            "wanted": { "store_seeds": 10, "engine_seeds": 10, "chaos_seconds": 60 },
            "store": { "from": 7, "done": 5, "cells_reached": 1, "cells_possible": 9, "cells": { "a": 1 } },
            "engine": { "from": 8, "done": 6, "cells_reached": 0, "cells_possible": 9, "cells": {} },
            "chaos": { "seconds": 30, "rounds": 12, "harms": { "kill": 12 }, "seeds": [1] },
            "failures": ["cargo xtask chaos kill --plan-seed 1"]
        }"#;
        let value = serde_json::from_str(text).expect("JSON");
        let progress = SoakProgress::of_json(&value).expect("a soak");
        assert_eq!((progress.store.done, progress.engine.done, progress.chaos.seconds), (5, 6, 30));
        assert!(progress.has_failed(SoakPart::Chaos) && progress.parts.is_empty());
    }
}
