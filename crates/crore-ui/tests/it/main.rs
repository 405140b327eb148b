//! The pages, called as a browser does, on an engine in memory.
#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod actions;
mod audit;
mod browser;
mod definitions;
mod hostile;
mod insight;
mod lists;
mod security;
mod sessions;
mod unavailable;
