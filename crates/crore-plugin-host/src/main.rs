//! `crore-plugin-host LIBRARY`: the child process as a separate program, for tests.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(library) = std::env::args_os().nth(1) else {
        eprintln!("usage: crore-plugin-host LIBRARY");
        return ExitCode::from(2);
    };
    crore_plugin_host::main(&PathBuf::from(library))
}
