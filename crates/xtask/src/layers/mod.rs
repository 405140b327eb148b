//! `layers`: checks that the crates follow the plan. Dependencies come from `cargo metadata`; forbidden texts are
//! searched in the sources.

mod dependencies;
mod plan;
mod text_rules;

use crate::{command, source};

/// Fails with every dependency and text that the plan does not allow.
pub(crate) fn run() -> Result<(), String> {
    let json = command::cargo_output(&["metadata", "--format-version", "1", "--no-deps"])?;
    let packages = dependencies::read(&json)?;
    let sources = source::all(&command::root())?;
    let mut faults = dependencies::check(&packages, plan::CRATES);
    faults.extend(text_rules::check(&sources, plan::TEXT_RULES));
    if faults.is_empty() {
        println!("layers: {} crates and {} files follow the plan", packages.len(), sources.len());
        return Ok(());
    }
    Err(format!("{}\nthe plan is `crates/xtask/src/layers/plan.rs`", faults.join("\n")))
}
