//! Turns of chaos.

use std::process::{Command, Stdio};

use super::progress::fresh_seed;
use super::{Soak, turn_file};
use crate::command;

/// How long one turn takes, in seconds.
const TURN: u64 = 300;

/// Runs chaos by turns until it took long enough.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    loop {
        let left = {
            let progress = soak.progress();
            progress.wanted.chaos_seconds.saturating_sub(progress.chaos.seconds)
        };
        if left == 0 || !soak.goes_on() {
            return Ok(());
        }
        turn(soak, left.min(TURN))?;
    }
}

fn turn(soak: &Soak, seconds: u64) -> Result<(), String> {
    let log = turn_file(&soak.file, "chaos.log");
    let (seed, time) = (fresh_seed(), format!("{seconds}s"));
    let file = std::fs::File::create(&log).map_err(|error| error.to_string())?;
    let errors = file.try_clone().map_err(|error| error.to_string())?;
    let chaos = command::root().join("target/debug/crore-chaos");
    let status = Command::new(chaos)
        .args(["all", "--for", &time, "--seed", &seed.to_string(), "--keep"])
        .current_dir(command::root())
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .map_err(|error| format!("cannot run chaos: {error}"))?;
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    if !status.success() {
        println!("{text}");
    } else {
        let _ = std::fs::remove_file(&log);
    }
    let skipped: Vec<&str> = text.lines().filter(|line| line.contains("SKIPPED")).collect();
    skipped.iter().for_each(|line| println!("chaos: {line}"));
    soak.note(|progress| {
        let before = progress.chaos.rounds;
        for (harm, rounds) in turns(&text) {
            *progress.chaos.harms.entry(harm).or_default() += rounds;
            progress.chaos.rounds += rounds;
        }
        progress.chaos.seeds.push(seed);
        if status.success() && progress.chaos.rounds > before {
            progress.chaos.seconds += seconds;
        } else {
            let again = text.lines().find_map(|line| line.split_once("cargo xtask chaos"));
            let again = again.map(|(_, rest)| format!("cargo xtask chaos{rest}"));
            progress.failures.push(again.unwrap_or_else(|| format!("chaos all --seed {seed}")));
        }
    })
}

/// The harms of a turn's output, each with its rounds. A line has the sum of rounds so far.
fn turns(text: &str) -> Vec<(String, u64)> {
    let mut before = 0;
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (harm, sum) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        (words.next() == Some("rounds")).then_some((harm.to_owned(), sum))
    });
    lines
        .map(|(harm, sum)| (harm, sum.saturating_sub(std::mem::replace(&mut before, sum))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_each_harm_are_read() {
        let text = "seed 7\n\
            kill           12 rounds in    9 s: 300 jobs, 500 deliveries, nothing lost\n\
            stop           24 rounds in   40 s: 310 jobs, 502 deliveries, nothing lost\n\
            24 rounds, 610 jobs\n";
        assert_eq!(turns(text), [("kill".to_owned(), 12), ("stop".to_owned(), 12)]);
    }
}
