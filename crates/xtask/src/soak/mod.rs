//! `soak`: tests that take too long for each change, in parts. The progress is written after each turn, so that a soak
//! can be interrupted and continued on any machine that has its file and the same code.

mod args;
mod audit;
mod chaos;
mod checks;
mod deny;
mod fuzz;
mod harm;
mod part;
mod progress;
mod seeds;
mod summary;
mod tools;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::{ci, command};
use part::{SoakLane, SoakPart};
use progress::SoakProgress;

/// Starts a soak, or continues one.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let args = args::parse(args).ok_or_else(args::usage)?;
    let code = code()?;
    let file = args.file.unwrap_or_else(|| default_file(&code));
    let mut progress = SoakProgress::load_or_new(&file, &code, args.wanted)?;
    progress.clear_skipped(&args.parts);
    println!("soak of {code}, written to {}", file.display());
    set_up(&args.parts);
    build(&args.parts)?;
    let soak = Soak {
        file,
        parts: args.parts,
        progress: Mutex::new(progress),
        end: Deadline::after(args.time),
    };
    let ran = std::thread::scope(|scope| {
        let processes = scope.spawn(|| soak.run(SoakLane::Processes));
        let checks = soak.run(SoakLane::Checks);
        let processes = processes.join();
        checks.and(processes.unwrap_or_else(|_| Err("a part of the soak panicked".to_owned())))
    });
    soak.update(|_| {})?;
    let progress = soak.progress();
    println!("{progress}");
    ran?;
    progress.verdict(&soak.parts)
}

/// SIGINT, SIGKILL and SIGTERM.
const STOP_SIGNALS: [i32; 3] = [2, 9, 15];

/// A running soak.
struct Soak {
    file: PathBuf,
    parts: Vec<SoakPart>,
    progress: Mutex<SoakProgress>,
    end: Deadline,
}

impl Soak {
    /// Runs the chosen parts of a lane. An error of the tools in one part does not prevent the others from running.
    fn run(&self, lane: SoakLane) -> Result<(), String> {
        let parts = self.parts.iter().filter(|part| part.lane() == lane);
        parts.map(|part| self.run_part(*part)).fold(Ok(()), Result::and)
    }

    fn run_part(&self, part: SoakPart) -> Result<(), String> {
        if self.progress().is_done(part) || !self.may_continue(part) {
            return Ok(());
        }
        println!("soak: {}: {}", part.name(), part.about());
        match part {
            SoakPart::Seeds => seeds::run(self),
            SoakPart::Chaos => chaos::run(self),
            SoakPart::Harm => harm::run(self),
            SoakPart::Audit => audit::run(self),
            SoakPart::Deny => deny::run(self),
            SoakPart::Fuzz => fuzz::run(self),
            SoakPart::Docs => checks::docs(self),
            SoakPart::Damage => checks::damage(self),
            SoakPart::Looks => checks::looks(self),
            SoakPart::Drill => checks::drill(self),
        }
    }

    fn progress(&self) -> MutexGuard<'_, SoakProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a change to the progress, and saves it with its summary.
    fn update(&self, change: impl FnOnce(&mut SoakProgress)) -> Result<(), String> {
        let mut progress = self.progress();
        change(&mut progress);
        progress.save(&self.file)?;
        summary::save(&progress, &self.file)
    }

    /// Whether another turn of a part may start: time is left, and the part has not failed.
    fn may_continue(&self, part: SoakPart) -> bool {
        !self.end.is_over() && !self.progress().has_failed(part)
    }
}

/// The time after which no new turn starts.
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

/// Identifies the tested code: the committed crates and the lock file. Changes of documents do not count.
fn code() -> Result<String, String> {
    let changed = command::git(&["status", "--porcelain", "--", "crates", "Cargo.lock"])?;
    if !changed.is_empty() {
        return Err(format!(
            "uncommitted changes; a soak tests committed code, commit first:\n{changed}"
        ));
    }
    let tree = |path: &str| command::git(&["rev-parse", "--short=12", &format!("HEAD:{path}")]);
    Ok(format!("{}-{}", tree("crates")?, tree("Cargo.lock")?))
}

fn default_file(code: &str) -> PathBuf {
    let short = code.get(..12).unwrap_or(code);
    command::root().join("bench/results").join(format!("soak-{short}.json"))
}

/// Installs the packages that the parts need. If that fails, the parts skip the faults that need them, and the soak
/// stays incomplete.
fn set_up(parts: &[SoakPart]) {
    let mut flags: Vec<&str> = parts.iter().flat_map(|part| part.packages()).copied().collect();
    flags.sort_unstable();
    flags.dedup();
    if flags.is_empty() {
        return;
    }
    if let Err(why) = ci::install(&flags) {
        eprintln!("soak: packages cannot be installed; some rounds will be skipped: {why}");
    }
}

/// Builds everything that the turns run, so that they do not wait for each other's builds.
fn build(parts: &[SoakPart]) -> Result<(), String> {
    if parts.contains(&SoakPart::Seeds) {
        let store = ["build", "--release", "-q", "-p", "crore-conformance", "--example", "sim"];
        command::cargo(&store)?;
        command::cargo(&["test", "--release", "-q", "-p", "crore", "--test", "it", "--no-run"])?;
    }
    if parts.contains(&SoakPart::Chaos) {
        command::cargo(&["build", "-q", "-p", "crore-server", "-p", "crore-chaos"])?;
    }
    Ok(())
}

/// A temporary file for one turn.
fn turn_file(soak: &Path, turn: &str) -> PathBuf {
    let code = soak.file_stem().unwrap_or_default().to_string_lossy();
    std::env::temp_dir().join(format!("{code}-{}-{turn}", std::process::id()))
}

/// Runs a command in the root; returns whether it succeeded, and its output. A command that was stopped by a person, or
/// by the system for want of memory, has found nothing: that is an error, not a failure.
fn output_of(command: &mut Command, log: &Path) -> Result<(bool, String), String> {
    let file = std::fs::File::create(log).map_err(|error| error.to_string())?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let command = command.current_dir(command::root()).stdin(Stdio::null());
    let status = command.stdout(file).stderr(errors).status();
    let status = status.map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let text = std::fs::read(log).unwrap_or_default();
    let _ = std::fs::remove_file(log);
    if let Some(signal) = status.signal().filter(|signal| STOP_SIGNALS.contains(signal)) {
        return Err(format!(
            "{command:?} was stopped by signal {signal}; this turn does not count"
        ));
    }
    Ok((status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// This program, with another command.
fn xtask(args: &[&str]) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(args);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stopped_from_outside_is_no_failure_but_an_abort_is() {
        let log = turn_file(Path::new("signals.json"), "signals.log");
        let run = |signal: &str| {
            output_of(Command::new("sh").args(["-c", &format!("kill -{signal} $$")]), &log)
        };
        for signal in ["INT", "KILL", "TERM"] {
            run(signal).expect_err("an interruption");
        }
        let (is_good, _) = run("ABRT").expect("it ended by itself");
        assert!(!is_good);
    }
}
