//! Offline tools for the files of an embedded store.
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
Offline tools for the files of an embedded store. The store must not be open.

    log verify DIR         read everything and report damage; change nothing
    log repair DIR         make a damaged store openable again, and report what is lost
    log show DIR           list segments and frames
    log backup DIR TO      open the store and copy it into an empty directory
    log make-fixture DIR   create a small store with every kind of record

Exit codes: 0 no damage, 1 there is or was damage, 2 error.";

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

/// Formats an error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Opens the directory of a store, which must exist.
fn existing(dir: &str) -> Result<Directory, Box<dyn std::error::Error>> {
    if !Path::new(dir).is_dir() {
        return Err(format!("directory `{dir}` does not exist").into());
    }
    Ok(Directory::open(Path::new(dir))?)
}

fn run_verify(dir: &str) -> Outcome {
    let report = verify(&existing(dir)?)?;
    println!("{report}");
    if !report.is_good() {
        println!("`log repair {dir}` repairs the store; copy the directory first");
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
    // Opening the store writes to it, so its content is read from a copy.
    let copy: Arc<dyn Disk> = Arc::new(crore_store::embedded::disk::MemoryDisk::new());
    for name in disk.list()? {
        let bytes = std::fs::read(Path::new(dir).join(&name))?;
        copy.open(&name, crore_store::embedded::disk::OpenMode::Create)?.write(0, &bytes)?;
    }
    let text = rich::describe(&rich::SteppedStore::open(copy)?);
    std::fs::write(Path::new(dir).join("expected.txt"), text)?;
    Ok(ExitCode::SUCCESS)
}
