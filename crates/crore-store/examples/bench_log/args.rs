//! What the command line asks of a benchmark.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::table::Report;

/// What every benchmark can be asked.
pub(crate) const USAGE: &str = "[--json FILE] [--only PART] [--dir DIR] [--quick]

  --json FILE   writes the figures there, and a text with more beside it
  --only PART   measures only the parts whose name has this word
  --dir DIR     works there instead of in the folder of the build
  --quick       tries it out with less of everything; no figure counts
  --help        says this";

/// What the command line asks for.
#[derive(Debug, Default)]
pub(crate) struct Args {
    json: Option<PathBuf>,
    only: Option<String>,
    dir: Option<PathBuf>,
    pub(crate) quick: bool,
}

/// A word of the command line, and those behind it.
pub(crate) type Words<'a> = (&'a str, &'a mut dyn Iterator<Item = String>);

impl Args {
    /// Reads the command line of a benchmark, and leaves to `more` what others cannot be asked. If there is
    /// nothing to measure, it says why, and gives the code to end with.
    pub(crate) fn read(name: &str, more: impl Fn(Words<'_>) -> bool) -> Result<Self, ExitCode> {
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
                    eprintln!("`{word}` is not known here\nusage: {name} {USAGE}");
                    return Err(ExitCode::from(2));
                }
            }
        }
        Ok(args)
    }

    /// Where files are put.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(build_dir)
    }

    /// Whether a part is to be measured.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| part.contains(only.as_str()))
    }

    /// Says what was found out, and writes it where it was wished for.
    pub(crate) fn tell(&self, report: &mut Report) {
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

/// The folder of this build: on the disk that people work on, not in memory.
pub(crate) fn build_dir() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.parent().and_then(Path::parent).unwrap().to_owned()
}
