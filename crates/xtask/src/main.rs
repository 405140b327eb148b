//! The project's own commands; `cargo xtask` lists them.

mod bench;
mod ci;
mod command;
mod layers;
mod links;
mod sim;
mod sizes;
mod soak;
mod source;
mod words;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                         all checks and tests that a change must pass
  ci --quick                 the same, without tests that need a database server
  layers                     check dependencies between crates, and texts allowed only in some crates
  sizes                      check the lengths of files and functions
  links                      check links and file names in Markdown files, and that docs/README.md leads to every page
  words                      check texts for phrases to avoid, and type names for duplicates
  bench NAME [--json FILE]   run a benchmark; without a name, list them
  harm NAME [--rounds N]     inject faults into a store: kills, power cuts, full and failing disks;
                             without a name, list the faults
  chaos NAME [--for SPAN]    inject faults into the built server under load: kills, stops, drains, power
                             cuts, full disks, clock jumps; without a name, list the faults
  sim --seeds N [--from S]   run the store's simulator on N seeds and report its coverage; --table prints
                             operation × state × fault, --json FILE writes it as JSON
  sim --seed S               run one seed twice and shrink a failure; --generation N for old seeds
  sim --engine …             the same for the engine on the store
  soak [PART …] [--for MINUTES]   run tests that take too long for each change: seeds, chaos, harm, drill, damage,
                             audit, docs, looks; progress is kept in a file under bench/results
  screenshots                write the images of the documentation, docs/images, from a server with sample jobs";

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
        ["ci"] => ci::run(ci::CiScope::Full),
        ["ci", "--quick"] => ci::run(ci::CiScope::Quick),
        ["layers"] => layers::run(),
        ["sizes"] => sizes::run(),
        ["links"] => links::run(),
        ["words"] => words::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["harm", rest @ ..] => harm(rest),
        ["chaos", rest @ ..] => chaos(rest),
        ["sim", rest @ ..] => sim::run(rest),
        ["soak", rest @ ..] => soak::run(rest),
        ["screenshots"] => screenshots(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [] => Err(USAGE.to_owned()),
        unknown => Err(format!("unknown command `{}`\n\n{USAGE}", unknown.join(" "))),
    }
}

/// Not in release mode, so that the store's debug assertions are checked too.
fn harm(args: &[&str]) -> Result<(), String> {
    let run = ["run", "-q", "-p", "crore-store", "--example", "harm", "--"];
    command::cargo_here(&[&run, args].concat())
}

/// Builds the server and the fault injector first; not in release mode, as above.
fn chaos(args: &[&str]) -> Result<(), String> {
    command::cargo_here(&["build", "-q", "-p", "crore-server", "-p", "crore-chaos"])?;
    command::cargo_here(&[&["run", "-q", "-p", "crore-chaos", "--"], args].concat())
}

/// Takes about six minutes: the charts of the images need some minutes of jobs.
fn screenshots() -> Result<(), String> {
    ci::install(&["--npm"])?;
    let test =
        ["test", "-q", "-p", "crore-server", "--test", "it", "ui::images_of_the_documentation"];
    command::cargo_with(&[&test, &["--", "--ignored"][..]].concat(), &[("CI", "true")])
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
