//! Turns of harm to a store: kills, power cuts, full and broken disks.

use super::part::Part;
use super::progress::fresh_seed;
use super::{Soak, output_of, turn_file, xtask};

/// The harms; of each, the wanted rounds divided by this number are run, because a round takes that much longer.
pub(super) const HARMS: [(&str, u64); 6] =
    [("kill", 1), ("full-kill", 5), ("power", 10), ("power-ext4", 10), ("full", 50), ("eio", 50)];

/// Rounds of the first harm in one turn; of the others in proportion.
const TURN: u64 = 500;

/// The rounds that are wanted of each harm.
pub(super) fn wanted(rounds: u64) -> impl Iterator<Item = (&'static str, u64)> {
    HARMS.into_iter().map(move |(harm, divisor)| (harm, rounds.div_ceil(divisor)))
}

/// Runs the harms by turns until each has its rounds.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    for (harm, divisor) in HARMS {
        while let Some(rounds) = next(soak, harm, divisor) {
            turn(soak, harm, rounds)?;
        }
    }
    Ok(())
}

/// The rounds of the next turn of a harm; `None` if there is none.
fn next(soak: &Soak, harm: &str, divisor: u64) -> Option<u64> {
    if !soak.goes_on(Part::Harm) {
        return None;
    }
    let progress = soak.progress();
    if progress.skipped.contains_key(&key(harm)) {
        return None;
    }
    let wanted = progress.wanted.harm_rounds.div_ceil(divisor);
    let left = wanted.saturating_sub(progress.harm.get(harm).copied().unwrap_or_default());
    (left > 0).then(|| left.min(TURN.div_ceil(divisor)))
}

/// The name of a harm among the skipped ones.
fn key(harm: &str) -> String {
    format!("{} {harm}", Part::Harm.name())
}

fn turn(soak: &Soak, harm: &str, rounds: u64) -> Result<(), String> {
    let (n, seed) = (rounds.to_string(), fresh_seed().to_string());
    let args = ["harm", harm, "--rounds", &n, "--seed", &seed];
    let (is_good, text) = output_of(&mut xtask(&args)?, &turn_file(&soak.file, "harm.log"))?;
    soak.note(|progress| {
        if is_good {
            *progress.harm.entry(harm.to_owned()).or_default() += rounds;
            println!("soak: harm: {}", text.lines().last().unwrap_or_default());
        } else if let Some(why) = unable(&text) {
            println!("soak: harm: {harm} SKIPPED: {why}");
            progress.skipped.insert(key(harm), why.to_owned());
        } else {
            println!("{text}");
            progress.failures.push(format!("cargo xtask {}", args.join(" ")));
        }
    })
}

/// The reason why a harm cannot be tried on this machine, in the words of the testkit's errors.
fn unable(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        line.starts_with("this machine cannot do it") || line.contains("is not installed: run")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_cannot_do_it_is_told_from_a_broken_promise() {
        let missing = "`mkfs.xfs` is not installed: run `apt-get install xfsprogs`, or …";
        assert_eq!(unable(missing), Some(missing));
        assert!(unable("this machine cannot do it: mounting needs root").is_some());
        assert_eq!(unable("round 3, seed 7: a job is lost"), None);
    }

    #[test]
    fn rounds_of_slow_harms_are_fewer_and_never_none() {
        let rounds: Vec<u64> = wanted(1000).map(|(_, rounds)| rounds).collect();
        assert_eq!(rounds, [1000, 200, 100, 100, 20, 20]);
        assert!(wanted(1).all(|(_, rounds)| rounds == 1));
    }
}
