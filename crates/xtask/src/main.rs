//! The project's own commands. `cargo xtask` without a word lists them.

mod bench;
mod ci;
mod command;
mod layers;
mod links;
mod sim;
mod sizes;
mod soak;
mod source;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                         everything that must hold before a change is merged
  ci --quick                 the same without the tests that need a database server
  layers                     which crate uses which, and which words stand in which crate
  sizes                      lengths of files and functions
  links                      links of Markdown files
  bench NAME [--json FILE]   a benchmark; without a name, the list of them
  harm NAME [--rounds N]     a store is killed, cut off from power, filled or broken, for as long as
                             one likes; without a name, the list of harms
  chaos NAME [--for SPAN]    the real server is killed, stopped, drained, cut off from power, filled, shown
                             wrong clocks, while many use it; without a name, the list of harms
  sim --seeds N [--from S]   the simulator of the store over N seeds, with what they reached; --table prints
                             operation × state × fault, --json FILE writes it for programs
  sim --seed S               one seed, twice; a failure is shrunk; --generation 1 for seeds that were kept so
  sim --engine …             the same of the engine on the store
  soak [PART …] [--for MINUTES]   what takes too long for each change: seeds, chaos, harm, drills, damage,
                             audit, docs; it continues where its file under bench/results ends";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[&str]) -> Result<(), String> {
    match args {
        ["ci"] => ci::run(ci::Extent::Full),
        ["ci", "--quick"] => ci::run(ci::Extent::Quick),
        ["layers"] => layers::run(),
        ["sizes"] => sizes::run(),
        ["links"] => links::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["harm", rest @ ..] => harm(rest),
        ["chaos", rest @ ..] => chaos(rest),
        ["sim", rest @ ..] => sim::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(USAGE.to_owned()),
        unknown => Err(format!("no such command: `{}`\n\n{USAGE}", unknown.join(" "))),
    }
}

/// Not in release mode: what the store asserts about itself is to hold too.
fn harm(args: &[&str]) -> Result<(), String> {
    let run = ["run", "-q", "-p", "crore-store", "--example", "harm", "--"];
    command::cargo_here(&[&run, args].concat())
}

/// The server that is harmed is built first, beside the program that harms it; not in release mode, as above.
fn chaos(args: &[&str]) -> Result<(), String> {
    command::cargo_here(&["build", "-q", "-p", "crore-server", "-p", "crore-chaos"])?;
    command::cargo_here(&[&["run", "-q", "-p", "crore-chaos", "--"], args].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_refused_with_the_usage() {
        for args in [&["cj"][..], &["ci", "--slow"], &["layers", "all"], &[]] {
            let message = dispatch(args).expect_err("refused");
            assert!(message.contains("usage: cargo xtask"), "{message}");
        }
    }
}
