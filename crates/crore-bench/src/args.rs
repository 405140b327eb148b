//! The command line of a benchmark.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::report::BenchReport;

/// The options of every benchmark.
const USAGE: &str = "[--json FILE] [--only PART] [--dir DIR] [--quick]

  --json FILE   write the figures to FILE, and more figures to a text file next to it
  --only PART   measure only the parts whose name contains PART
  --dir DIR     put files below DIR instead of the build directory
  --quick       smallest setting, to try it out; no figure counts
  --help        print this";

/// A parsed command line.
#[derive(Debug, Default)]
pub struct BenchArgs {
    json: Option<PathBuf>,
    only: Option<String>,
    dir: Option<PathBuf>,
    pub quick: bool,
}

/// An option, and the iterator that its value is taken from.
pub type OptionArgs<'a> = (&'a str, &'a mut dyn Iterator<Item = String>);

impl BenchArgs {
    /// Parses the command line of this process. `more` takes options that only this benchmark has, and returns
    /// whether it knows one.
    ///
    /// # Errors
    ///
    /// The exit code, after the help or a usage error was printed.
    pub fn read(name: &str, more: impl Fn(OptionArgs<'_>) -> bool) -> Result<Self, ExitCode> {
        let mut args = Self::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--json" => args.json = words.next().map(PathBuf::from),
                "--only" => args.only = words.next(),
                "--dir" => args.dir = words.next().map(PathBuf::from),
                "--quick" => args.quick = true,
                "--help" | "-h" => {
                    println!("usage: {name} {USAGE}");
                    return Err(ExitCode::SUCCESS);
                }
                word if more((word, &mut words)) => {}
                word => {
                    eprintln!("unknown option `{word}`\nusage: {name} {USAGE}");
                    return Err(ExitCode::from(2));
                }
            }
        }
        Ok(args)
    }

    /// The directory below which files are put.
    pub fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(build_dir)
    }

    /// Whether `--only` selects a part.
    pub fn selects(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }

    /// Prints the report, and writes it to the file of `--json`.
    pub fn publish(&self, report: &mut BenchReport) {
        if self.quick {
            let quick = "QUICK: less of everything, to try it out; no figure counts";
            report.facts.insert(0, quick.to_owned());
        }
        let text = report.text();
        print!("{text}");
        if let Some(file) = &self.json {
            std::fs::write(file, report.json()).unwrap();
            std::fs::write(file.with_extension("txt"), text).unwrap();
        }
    }
}

/// The directory of this program and of the built server: on a disk, not in memory.
pub fn build_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().unwrap().to_owned()
}
