//! A look into the files of an embedded store.
//!
//! `cargo run -p crore-store --example log -- verify DIR`

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crore_store::SystemClock;
use crore_store::embedded::disk::{Directory, Disk};
use crore_store::embedded::{Embedded, Options, repair, show, verify};

#[path = "../tests/it/embedded/rich.rs"]
mod rich;

const USAGE: &str = "\
Looks into the files of an embedded store. The store must not be open.

    log verify DIR         reads everything and says what is wrong; changes nothing
    log repair DIR         makes a damaged store openable again, and says what is lost
    log show DIR           lists segments and frames
    log backup DIR TO      opens the store and copies it into an empty directory
    log make-fixture DIR   makes a small store with something of everything

Ends with 0 if all is well, 1 if there is or was damage, 2 if it could not be done.";

type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match *words {
        ["verify", dir] => run_verify(dir),
        ["repair", dir] => run_repair(dir),
        ["show", dir] => run_show(dir),
        ["backup", dir, to] => run_backup(dir, to),
        ["make-fixture", dir] => make_fixture(dir),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {}", chain(&*error));
        ExitCode::from(2)
    })
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The directory of a store, which must be there: a look makes none.
fn existing(dir: &str) -> Result<Directory, Box<dyn std::error::Error>> {
    if !Path::new(dir).is_dir() {
        return Err(format!("there is no directory `{dir}`").into());
    }
    Ok(Directory::open(Path::new(dir))?)
}

fn run_verify(dir: &str) -> Outcome {
    let report = verify(&existing(dir)?)?;
    println!("{report}");
    if !report.is_good() {
        println!("`log repair {dir}` makes what is left usable; copy the directory first");
    }
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_repair(dir: &str) -> Outcome {
    let repairs = repair(&existing(dir)?)?;
    println!("{repairs}");
    Ok(if repairs.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_show(dir: &str) -> Outcome {
    let is_good = show(&existing(dir)?, |line| println!("{line}"))?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn run_backup(dir: &str, to: &str) -> Outcome {
    drop(existing(dir)?);
    let clock = Arc::new(SystemClock);
    let store = Embedded::open(Path::new(dir), clock, Options::default())?;
    let backup = store.backup(Path::new(to))?;
    store.close()?;
    println!(
        "backed up  {} segments, {} bytes, up to commit {}",
        backup.segments, backup.bytes, backup.commit
    );
    Ok(ExitCode::SUCCESS)
}

fn make_fixture(dir: &str) -> Outcome {
    let disk: Arc<dyn Disk> = Arc::new(Directory::open(Path::new(dir))?);
    if !disk.list()?.is_empty() {
        return Err(format!("`{dir}` is not empty").into());
    }
    rich::make(Arc::clone(&disk));
    // Opening it writes, so what it holds is read from a copy.
    let copy: Arc<dyn Disk> = Arc::new(crore_store::embedded::disk::InMemory::new());
    for name in disk.list()? {
        let bytes = std::fs::read(Path::new(dir).join(&name))?;
        copy.open(&name, crore_store::embedded::disk::Open::Create)?.write(0, &bytes)?;
    }
    let text = rich::describe(&rich::Hand::open(copy)?);
    std::fs::write(Path::new(dir).join("expected.txt"), text)?;
    Ok(ExitCode::SUCCESS)
}
