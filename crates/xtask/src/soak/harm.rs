//! The part `harm`: faults injected into a store (kills, power cuts, full and failing disks).

use super::part::SoakPart;
use super::progress::fresh_seed;
use super::{Soak, output_of, turn_file, xtask};

/// The faults with a divisor: a fault runs the wanted rounds divided by it, because its rounds take longer.
pub(super) const FAULTS: [(&str, u64); 6] =
    [("kill", 1), ("full-kill", 5), ("power", 10), ("power-ext4", 10), ("full", 50), ("eio", 50)];

/// Rounds of the first fault in one turn (one call of `cargo xtask harm`). For the other faults it is divided by their
/// divisor.
const TURN_ROUNDS: u64 = 500;

/// The wanted rounds of each fault.
pub(super) fn wanted_rounds(rounds: u64) -> impl Iterator<Item = (&'static str, u64)> {
    FAULTS.into_iter().map(move |(fault, divisor)| (fault, rounds.div_ceil(divisor)))
}

/// Runs turns until each fault has its rounds.
pub(super) fn run(soak: &Soak) -> Result<(), String> {
    for (fault, divisor) in FAULTS {
        while let Some(rounds) = next_rounds(soak, fault, divisor) {
            turn(soak, fault, rounds)?;
        }
    }
    Ok(())
}

/// The rounds of the next turn of a fault; `None` if none is left.
fn next_rounds(soak: &Soak, fault: &str, divisor: u64) -> Option<u64> {
    if !soak.may_continue(SoakPart::Harm) {
        return None;
    }
    let progress = soak.progress();
    if progress.skipped.contains_key(&skipped_key(fault)) {
        return None;
    }
    let wanted = progress.goals.harm_rounds.div_ceil(divisor);
    let left = wanted.saturating_sub(progress.harm.get(fault).copied().unwrap_or_default());
    (left > 0).then(|| left.min(TURN_ROUNDS.div_ceil(divisor)))
}

/// The key of a fault among the skipped parts.
fn skipped_key(fault: &str) -> String {
    format!("{} {fault}", SoakPart::Harm.name())
}

fn turn(soak: &Soak, fault: &str, rounds: u64) -> Result<(), String> {
    let (n, seed) = (rounds.to_string(), fresh_seed().to_string());
    let args = ["harm", fault, "--rounds", &n, "--seed", &seed];
    let (is_good, text) = output_of(&mut xtask(&args)?, &turn_file(&soak.file, "harm.log"))?;
    soak.update(|progress| {
        if is_good {
            *progress.harm.entry(fault.to_owned()).or_default() += rounds;
            println!("soak: harm: {}", text.lines().last().unwrap_or_default());
        } else if let Some(why) = unsupported_reason(&text) {
            println!("soak: harm: {fault} SKIPPED: {why}");
            progress.skipped.insert(skipped_key(fault), why.to_owned());
        } else {
            println!("{text}");
            progress.failures.push(format!("cargo xtask {}", args.join(" ")));
        }
    })
}

/// The reason why this machine cannot inject a fault. The texts are those of the testkit's errors.
fn unsupported_reason(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        line.starts_with("this machine cannot do it") || line.contains("is not installed: run")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_machine_is_distinguished_from_a_broken_promise() {
        let missing = "`mkfs.xfs` is not installed: run `apt-get install xfsprogs`, or …";
        assert_eq!(unsupported_reason(missing), Some(missing));
        assert!(unsupported_reason("this machine cannot do it: mounting needs root").is_some());
        assert_eq!(unsupported_reason("round 3, seed 7: a job is lost"), None);
    }

    #[test]
    fn slow_faults_have_fewer_rounds_and_at_least_one() {
        let rounds: Vec<u64> = wanted_rounds(1000).map(|(_, rounds)| rounds).collect();
        assert_eq!(rounds, [1000, 200, 100, 100, 20, 20]);
        assert!(wanted_rounds(1).all(|(_, rounds)| rounds == 1));
    }
}
