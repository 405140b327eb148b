//! The embedded durable store: a log of its own on a directory of files.

pub mod disk;
