//! `cargo xtask harm NAME [--rounds N] [--seed N]`: runs rounds in which a store's process is
//! killed, its power cut, or its disk full or failing. The tests run a few of the same rounds.

#[path = "../tests/it/process/mod.rs"]
mod process;

use std::process::ExitCode;

use process::{Harm, harm, run_child};

const USAGE: &str = "usage: harm kill|power|power-ext4|full|full-kill|eio [--rounds N] [--seed N]";

const HARMS: [(&str, Harm); 6] = [
    ("kill", Harm::Kill),
    ("power", Harm::Power),
    ("power-ext4", Harm::PowerExt4),
    ("full", Harm::Full),
    ("full-kill", Harm::FullKill),
    ("eio", Harm::Eio),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args == ["child"] {
        run_child();
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<String, String> {
    let (mut rounds, mut seed) = (1000, 1);
    let [name, options @ ..] = args else { return Err(USAGE.to_owned()) };
    let known = HARMS.iter().find(|(known, _)| known == name);
    let Some((_, kind)) = known else { return Err(USAGE.to_owned()) };
    for option in options.chunks(2) {
        match option {
            ["--rounds", n] => rounds = n.parse().map_err(|_| USAGE.to_owned())?,
            ["--seed", n] => seed = n.parse().map_err(|_| USAGE.to_owned())?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let tally = harm(*kind, rounds, seed).map_err(|failed| failed.to_string())?;
    Ok(format!("{name}: {rounds} rounds, nothing lost; {tally:?}"))
}
