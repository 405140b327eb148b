//! Reports about a store, in JSON.

use crore_core::JobId;
use crore_store::embedded::{Damage, RepairReport, RepairStep, VerifyReport};
use crore_wire::api::enums::State;
use serde_json::{Map, Value, json};

use super::word::word_of;

pub(super) fn verified(report: &VerifyReport) -> Value {
    let jobs = report.jobs.iter().map(|(state, n)| (word_of(&State::from(*state)), (*n).into()));
    json!({
        "good": report.is_good(),
        "files": report.files,
        "segments": report.segments,
        "commits": range(report.commits),
        "jobs": jobs.collect::<Map<_, _>>(),
        "live_bytes": report.live,
        "waste_bytes": report.waste,
        "unfinished": report.unfinished,
        "holes": report.holes.iter().map(damage).collect::<Vec<_>>(),
        "damage": report.damage.iter().map(damage).collect::<Vec<_>>(),
    })
}

pub(super) fn repaired(report: &RepairReport) -> Value {
    json!({
        "lossless": !report.has_losses(),
        "steps": report.steps.iter().map(step).collect::<Vec<_>>(),
        "removed": report.removed,
        "removed_ids": ids(&report.removed_ids),
    })
}

fn damage(damage: &Damage) -> Value {
    json!({
        "file": damage.file,
        "offset": damage.offset,
        "bytes": damage.len,
        "what": damage.what,
        "commits": damage.commits.map(range),
    })
}

fn step(step: &RepairStep) -> Value {
    json!({
        "file": step.file,
        "offset": step.offset,
        "bytes": step.len,
        "what": step.what,
        "kept": step.kept,
        "lost": step.lost,
        "jobs": ids(&step.jobs),
        "commits": step.commits.map(range),
        "saved": step.saved,
    })
}

fn range((first, last): (u64, u64)) -> Value {
    json!({ "first": first, "last": last })
}

/// Ids as the API writes them.
fn ids(ids: &[JobId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
