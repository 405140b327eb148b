//! `sim`: the simulator of the store, or of the engine on it, over as many seeds as asked for.

use crate::command;

/// Runs the simulator with these arguments.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["--engine", rest @ ..] => {
            let seeds = seeds(rest).ok_or("usage: sim --engine --seeds N [--from S] | --seed S")?;
            command::cargo_with(&ENGINE, &[("CRORE_SIM_SEEDS", &seeds)])
        }
        _ => command::cargo_here(&cargo_args(args)),
    }
}

/// The engine's simulator is one of its tests, which reads from its environment what it is to do.
const ENGINE: [&str; 12] = [
    "test",
    "--release",
    "-q",
    "-p",
    "crore",
    "--test",
    "it",
    "--",
    "--ignored",
    "--exact",
    "--nocapture",
    "sim::the_seeds_that_were_asked_for",
];

fn seeds(args: &[&str]) -> Option<String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let (from, n) = match args {
        ["--seed", seed] => (number(seed)?, 1),
        ["--seeds", n] => (0, number(n)?),
        ["--seeds", n, "--from", from] => (number(from)?, number(n)?),
        _ => return None,
    };
    Some(format!("{from}..{}", from.checked_add(n)?))
}

/// A release build: seeds are what it is about.
fn cargo_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--release", "-q", "-p", "crore-store", "--features", "conformance"];
    let mut cargo = [&run[..], &["--example", "sim", "--"]].concat();
    cargo.extend_from_slice(args);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_the_engine_are_a_range() {
        assert_eq!(seeds(&["--seed", "608"]).as_deref(), Some("608..609"));
        assert_eq!(seeds(&["--seeds", "10"]).as_deref(), Some("0..10"));
        assert_eq!(seeds(&["--seeds", "10", "--from", "5"]).as_deref(), Some("5..15"));
        assert_eq!(seeds(&["--seeds", "many"]), None);
    }

    #[test]
    fn the_arguments_are_passed_on_to_a_release_build() {
        let args = cargo_args(&["--seeds", "10"]).join(" ");
        assert_eq!(
            args,
            "run --release -q -p crore-store --features conformance --example sim -- --seeds 10"
        );
    }
}
