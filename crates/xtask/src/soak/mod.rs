//! `soak`: tests that take hours. Fresh seeds of the store and of the engine, and chaos, side by side, until
//! enough of each is done. The progress is written down after each turn, so that a soak that was stopped
//! can be continued, on any machine that has its file and the same code.

mod chaos;
mod progress;
mod seeds;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::command;
use progress::{Progress, Wanted};

const USAGE: &str = "\
usage: soak [--file FILE] [--store SEEDS] [--engine SEEDS] [--chaos MINUTES] [--for MINUTES]
  a soak goes on where its file ends; without a file, one is made under bench/results";

/// The command line.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    file: Option<PathBuf>,
    wanted: Wanted,
    /// After this long no new turn begins.
    time: Option<Duration>,
}

/// Runs a soak, or goes on with one.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let asked = asked(args).ok_or(USAGE)?;
    let code = code()?;
    let file = asked.file.unwrap_or_else(|| default_file(&code));
    let progress = Progress::load_or_new(&file, &code, asked.wanted)?;
    println!("soak of {code}, written to {}", file.display());
    build()?;
    let soak = Soak { file, progress: Mutex::new(progress), end: Deadline::after(asked.time) };
    let (seeds, harm) = std::thread::scope(|scope| {
        let harm = scope.spawn(|| chaos::run(&soak));
        let seeds = seeds::run(&soak);
        (seeds, harm.join().unwrap_or_else(|_| Err("the thread of chaos panicked".to_owned())))
    });
    let progress = soak.progress();
    println!("{progress}");
    seeds.and(harm)?;
    progress.verdict()
}

/// A soak that runs.
struct Soak {
    file: PathBuf,
    progress: Mutex<Progress>,
    end: Deadline,
}

impl Soak {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what a turn has done.
    fn note(&self, done: impl FnOnce(&mut Progress)) -> Result<(), String> {
        let mut progress = self.progress();
        done(&mut progress);
        progress.save(&self.file)
    }

    /// Whether another turn may begin: there is time, and nothing has failed.
    fn goes_on(&self) -> bool {
        !self.end.is_over() && self.progress().failures.is_empty()
    }
}

/// When no new turn begins any more.
struct Deadline(Option<std::time::Instant>);

#[expect(clippy::disallowed_methods, reason = "a tool that runs for hours needs real time")]
impl Deadline {
    fn after(time: Option<Duration>) -> Self {
        Self(time.map(|time| std::time::Instant::now() + time))
    }

    fn is_over(&self) -> bool {
        self.0.is_some_and(|end| std::time::Instant::now() >= end)
    }
}

fn asked(args: &[&str]) -> Option<Asked> {
    let mut asked = Asked { file: None, wanted: Wanted::default(), time: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next()?;
        let number = || value.parse::<u64>().ok();
        match *arg {
            "--file" => asked.file = Some(PathBuf::from(value)),
            "--store" => asked.wanted.store_seeds = number()?,
            "--engine" => asked.wanted.engine_seeds = number()?,
            "--chaos" => asked.wanted.chaos_seconds = number()? * 60,
            "--for" => asked.time = Some(Duration::from_secs(number()? * 60)),
            _ => return None,
        }
    }
    Some(asked)
}

/// The code that is soaked: what is committed of the product, its tests and its dependencies. A change of
/// a document is no other code.
fn code() -> Result<String, String> {
    let changed = command::git(&["status", "--porcelain", "--", "crates", "Cargo.lock"])?;
    if !changed.is_empty() {
        return Err(format!("commit first; a soak is of committed code:\n{changed}"));
    }
    let tree = |path: &str| command::git(&["rev-parse", "--short=12", &format!("HEAD:{path}")]);
    Ok(format!("{}-{}", tree("crates")?, tree("Cargo.lock")?))
}

fn default_file(code: &str) -> PathBuf {
    let short = code.get(..12).unwrap_or(code);
    command::root().join("bench/results").join(format!("soak-{short}.json"))
}

/// Builds everything once, so that turns do not wait for each other's builds.
fn build() -> Result<(), String> {
    command::cargo(&["build", "--release", "-q", "-p", "crore-conformance", "--example", "sim"])?;
    command::cargo(&["test", "--release", "-q", "-p", "crore", "--test", "it", "--no-run"])?;
    command::cargo(&["build", "-q", "-p", "crore-server", "-p", "crore-chaos"])
}

/// A file of one turn's own.
fn turn_file(soak: &Path, turn: &str) -> PathBuf {
    let code = soak.file_stem().unwrap_or_default().to_string_lossy();
    std::env::temp_dir().join(format!("{code}-{}-{turn}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_strictly() {
        let asked = asked(&["--store", "10", "--chaos", "2", "--for", "1"]).expect("read");
        assert_eq!((asked.wanted.store_seeds, asked.wanted.chaos_seconds), (10, 120));
        assert_eq!(asked.time, Some(Duration::from_secs(60)));
        for wrong in [&["--store"][..], &["--store", "many"], &["--stor", "1"]] {
            assert_eq!(super::asked(wrong), None, "{wrong:?}");
        }
    }
}
