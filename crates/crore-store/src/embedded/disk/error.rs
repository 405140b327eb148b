//! I/O errors with the operation and the file.

use std::io;

/// The message names the operation and the file; the system's error is the source.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{file}`")]
struct IoFailure {
    doing: String,
    file: String,
    source: io::Error,
}

/// Adds the operation and the file to an error. The kind stays, and the error itself is the source.
pub fn failed(doing: impl Into<String>, file: &str, source: io::Error) -> io::Error {
    let kind = source.kind();
    io::Error::new(kind, IoFailure { doing: doing.into(), file: file.to_owned(), source })
}

/// The error of a failed read of `n` bytes at `at`.
pub fn read(at: u64, n: usize, file: &str, source: io::Error) -> io::Error {
    failed(format!("read {n} bytes at {at} of"), file, source)
}

/// The error of a failed write of `n` bytes at `at`.
pub fn write(at: u64, n: usize, file: &str, source: io::Error) -> io::Error {
    failed(format!("write {n} bytes at {at} of"), file, source)
}
