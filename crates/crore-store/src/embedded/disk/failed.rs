//! What was being done to which file when the machine said no.

use std::io;

/// The message says what and where; the machine's own words are the source, so that neither is said
/// twice.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{file}`")]
struct Failed {
    doing: String,
    file: String,
    source: io::Error,
}

/// Adds what was being done to which file; the kind stays, and the error itself is the source.
pub(super) fn failed(doing: impl Into<String>, file: &str, source: io::Error) -> io::Error {
    let kind = source.kind();
    io::Error::new(kind, Failed { doing: doing.into(), file: file.to_owned(), source })
}

/// A read that failed.
pub(super) fn read(at: u64, n: usize, file: &str, source: io::Error) -> io::Error {
    failed(format!("read {n} bytes at {at} of"), file, source)
}

/// A write that failed.
pub(super) fn write(at: u64, n: usize, file: &str, source: io::Error) -> io::Error {
    failed(format!("write {n} bytes at {at} of"), file, source)
}
