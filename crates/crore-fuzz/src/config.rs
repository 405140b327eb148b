//! The configuration: a TOML file and environment variables; and the variables of jobworkerp.
//!
//! ```text
//! input = [ "dotenv" line feed ] text [ line feed "===" line feed variables ]
//! ```
//!
//! A variable is a line `NAME=value`.

use std::collections::BTreeMap;

use crore_doors::jobworkerp::env;
use crore_server::fuzzing::read_config;

use crate::memory::MemoryBound;

/// The base covers the keys and their descriptions; an error repeats the value and the name of the file.
const MEMORY: MemoryBound = MemoryBound { base: 4 << 20, per_byte: 1024 };

/// Maximum length of all errors, for each byte of the input.
const ERROR_PER_BYTE: usize = 400;

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    MEMORY.check(text.len(), || match text.strip_prefix("dotenv\n") {
        Some(text) => dotenv(text),
        None => config(text),
    });
}

/// A printed configuration must parse to the same values, and the length of errors must be bounded.
fn config(text: &str) {
    let (file, variables) = text.split_once("\n===\n").unwrap_or((text, ""));
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    match read_config(file, variables) {
        None => {}
        Some(Err(errors)) => {
            let sources = ["crore.toml:", "CRORE_", "default: "];
            assert!(sources.iter().any(|source| errors.contains(source)), "{errors}");
            assert!(errors.len() <= 4000 + ERROR_PER_BYTE * text.len(), "{} bytes", errors.len());
        }
        Some(Ok(config)) => {
            let again = read_config(&config.shown, std::iter::empty()).expect("no secret file");
            let again = again.expect("a shown configuration can be read");
            assert!(again == config, "{} is read differently", config.shown);
        }
    }
}

fn dotenv(text: &str) {
    match env::file(text) {
        Ok(variables) => {
            let printed: Vec<_> =
                variables.iter().filter_map(|(name, value)| printed(name, value)).collect();
            if printed.len() == variables.len() {
                assert_eq!(env::file(&printed.join("\n")).as_ref(), Ok(&variables));
            }
            translate(&variables);
        }
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count()),
    }
}

/// A line of a `.env` file; `None` if the value contains both kinds of quotes.
fn printed(name: &str, value: &str) -> Option<String> {
    let quote = ['"', '\''].into_iter().find(|quote| !value.contains(*quote))?;
    Some(format!("{name}={quote}{value}{quote}"))
}

fn translate(variables: &BTreeMap<String, String>) {
    for variable in env::read(variables) {
        assert!(!variable.line.is_empty());
    }
}
