//! `sim`: the simulator of the store, or of the engine on it.

use crate::command;

const USAGE: &str = "\
usage: sim [--engine] --seeds N [--from S] | --seed S, with --generation N, --table, --json FILE";

/// Runs the simulator with these arguments.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["--engine", rest @ ..] => {
            let environment = environment(rest).ok_or(USAGE)?;
            let environment = environment.iter().map(|(key, value)| (*key, value.as_str()));
            command::cargo_with(&ENGINE_TEST, &environment.collect::<Vec<_>>())
        }
        _ => command::cargo_here(&cargo_args(args)),
    }
}

/// The engine's simulator is one of its tests, which reads its parameters from the environment.
pub(crate) const ENGINE_TEST: [&str; 12] = [
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
    "sim::the_requested_seeds_keep_every_promise",
];

/// The environment variables for the engine's test.
fn environment(args: &[&str]) -> Option<Vec<(&'static str, String)>> {
    let (mut from, mut seeds, mut found) = (0, None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || args.next()?.parse::<u64>().ok();
        match *arg {
            "--seed" => (from, seeds) = (number()?, Some(1)),
            "--seeds" => seeds = Some(number()?),
            "--from" => from = number()?,
            "--generation" => found.push(("CRORE_SIM_GENERATION", number()?.to_string())),
            "--table" => found.push(("CRORE_SIM_TABLE", "1".to_owned())),
            "--json" => found.push(("CRORE_SIM_JSON", absolute(args.next()?)?)),
            _ => return None,
        }
    }
    let end = from.checked_add(seeds?)?;
    found.push(("CRORE_SIM_SEEDS", format!("{from}..{end}")));
    Some(found)
}

/// The absolute path of a file: the test runs in another directory.
fn absolute(file: &str) -> Option<String> {
    std::path::absolute(file).ok()?.to_str().map(str::to_owned)
}

/// A release build, to run more seeds.
pub(crate) fn cargo_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--release", "-q", "-p", "crore-conformance", "--example", "sim", "--"];
    [&run, args].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(args: &[&str]) -> Option<String> {
        Some(environment(args)?.pop()?.1)
    }

    #[test]
    fn the_seeds_of_the_engine_are_a_range() {
        assert_eq!(seeds(&["--seed", "608"]).as_deref(), Some("608..609"));
        assert_eq!(seeds(&["--seeds", "10"]).as_deref(), Some("0..10"));
        assert_eq!(seeds(&["--seeds", "10", "--from", "5"]).as_deref(), Some("5..15"));
        assert_eq!(seeds(&["--seeds", "many"]), None);
        assert_eq!(seeds(&["--from", "5"]), None);
    }

    #[test]
    fn other_arguments_are_passed_on_to_the_engine() {
        let found = environment(&["--seed", "7", "--generation", "1", "--table"]).expect("read");
        let generation = ("CRORE_SIM_GENERATION", "1".to_owned());
        assert!(found.contains(&generation) && found.len() == 3, "{found:?}");
        assert_eq!(environment(&["--seed", "7", "--tabel"]), None);
    }

    #[test]
    fn the_arguments_are_passed_on_to_a_release_build() {
        let args = cargo_args(&["--seeds", "10"]).join(" ");
        assert_eq!(args, "run --release -q -p crore-conformance --example sim -- --seeds 10");
    }
}
