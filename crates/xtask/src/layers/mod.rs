//! `layers`: the house is built as its plan says. Arrows between crates and their heavy
//! dependencies come from `cargo metadata`; words that a crate may not use are looked for in its
//! sources.

mod arrows;
mod plan;
mod words;

use crate::{command, source};

/// Fails with every arrow and word that the plan does not allow.
pub(crate) fn run() -> Result<(), String> {
    let json = command::cargo_output(&["metadata", "--format-version", "1", "--no-deps"])?;
    let packages = arrows::read(&json)?;
    let sources = source::all(&command::root())?;
    let mut faults = arrows::check(&packages, plan::ROOMS);
    faults.extend(words::check(&sources, plan::WORDS));
    if faults.is_empty() {
        println!("layers: {} crates and {} files follow the plan", packages.len(), sources.len());
        return Ok(());
    }
    Err(format!("{}\nThe plan is `crates/xtask/src/layers/plan.rs`.", faults.join("\n")))
}
