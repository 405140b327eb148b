//! The part `chaos`: faults injected into the built server.

use std::collections::BTreeMap;
use std::process::Command;

use super::part::SoakPart;
use super::progress::fresh_seed;
use super::{Soak, output_of, turn_file};
use crate::command;

/// Duration of a turn, in seconds.
const TURN_SECONDS: u64 = 300;

/// Runs turns until the wanted time is reached.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    loop {
        let left = {
            let progress = soak.progress();
            progress.goals.chaos_seconds.saturating_sub(progress.chaos.seconds)
        };
        if left == 0 || !soak.may_continue(SoakPart::Chaos) {
            return Ok(());
        }
        turn(soak, left.min(TURN_SECONDS))?;
    }
}

fn turn(soak: &Soak, seconds: u64) -> Result<(), String> {
    let (seed, time) = (fresh_seed(), format!("{seconds}s"));
    let mut chaos = Command::new(command::root().join("target/debug/crore-chaos"));
    chaos.args(["all", "--for", &time, "--seed", &seed.to_string(), "--keep"]);
    let (is_good, text) = output_of(&mut chaos, &turn_file(&soak.file, "chaos.log"))?;
    if !is_good {
        println!("{text}");
    }
    soak.update(|progress| {
        let before = progress.chaos.rounds;
        for (fault, rounds) in rounds_by_fault(&text) {
            *progress.chaos.faults.entry(fault).or_default() += rounds;
            progress.chaos.rounds += rounds;
        }
        progress.chaos.seeds.push(seed);
        for (fault, why) in skipped_faults(&text) {
            println!("soak: chaos: {fault} SKIPPED: {why}");
            progress.skipped.insert(format!("{} {fault}", SoakPart::Chaos.name()), why);
        }
        if is_good && progress.chaos.rounds > before {
            progress.chaos.seconds += seconds;
        } else {
            let again = text.lines().find_map(|line| line.split_once("cargo xtask chaos"));
            let again = again.map(|(_, rest)| format!("cargo xtask chaos{rest}"));
            progress.failures.push(again.unwrap_or_else(|| format!("chaos all --seed {seed}")));
        }
    })
}

/// The faults in a turn's output, each with its rounds. A line has the sum of rounds so far.
fn rounds_by_fault(text: &str) -> Vec<(String, u64)> {
    let mut before = 0;
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (fault, sum) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        (words.next() == Some("rounds")).then_some((fault.to_owned(), sum))
    });
    lines
        .map(|(fault, sum)| (fault, sum.saturating_sub(std::mem::replace(&mut before, sum))))
        .collect()
}

/// The faults that a turn skipped, each with the reason.
fn skipped_faults(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| {
        let (fault, rest) = line.split_once(" SKIPPED, ")?;
        let (_, why) = rest.split_once(": ")?;
        Some((fault.trim_end().to_owned(), why.to_owned()))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_faults_are_read_with_their_reasons() {
        let text = "kill           12 rounds in    9 s: nothing lost\n\
            power      SKIPPED, 12 rounds: this machine cannot do it: there are no loop devices\n";
        let why = "this machine cannot do it: there are no loop devices".to_owned();
        assert_eq!(skipped_faults(text), BTreeMap::from([("power".to_owned(), why)]));
    }

    #[test]
    fn the_rounds_of_each_fault_are_read() {
        let text = "seed 7\n\
            kill           12 rounds in    9 s: 300 jobs, 500 deliveries, nothing lost\n\
            stop           24 rounds in   40 s: 310 jobs, 502 deliveries, nothing lost\n\
            24 rounds, 610 jobs\n";
        assert_eq!(rounds_by_fault(text), [("kill".to_owned(), 12), ("stop".to_owned(), 12)]);
    }
}
