//! Statistics: conversion from and to messages.

use crore_core::{Invalid, Time};
use crore_wire::api::stats::{JobStatistics, Quantiles, StatsQuery, StatsRow};
use crore_wire::grpc::{enum_text, parse_enum_text, v1};
use crore_wire::units::Moment;
use serde::de::DeserializeOwned;

pub(super) fn query(request: v1::StatsRequest) -> Result<StatsQuery, Invalid> {
    let moment = |at: i64| Moment(Time::from_millis(at));
    let named = |name: String| Some(name).filter(|name| !name.is_empty());
    Ok(StatsQuery {
        series: None,
        step: choice("step", &request.step)?,
        queue: named(request.queue),
        kind: named(request.kind),
        from: request.from_ms.map(moment),
        to: request.to_ms.map(moment),
        by: choice("by", &request.by)?,
    })
}

fn choice<T: DeserializeOwned>(field: &str, text: &str) -> Result<Option<T>, Invalid> {
    if text.is_empty() { Ok(None) } else { parse_enum_text(field, text).map(Some) }
}

pub(super) fn response(statistics: JobStatistics) -> v1::StatsResponse {
    v1::StatsResponse {
        step: enum_text(&statistics.step),
        rows: statistics.rows.into_iter().map(row).collect(),
        total: Some(row(statistics.total)),
    }
}

fn row(row: StatsRow) -> v1::StatsRow {
    v1::StatsRow {
        at_ms: row.at.map(|at| at.0.as_millis()),
        queue: row.queue.unwrap_or_default(),
        kind: row.kind.unwrap_or_default(),
        pushed: row.pushed,
        started: row.started,
        done: row.done,
        failed: row.failed,
        retried: row.retried,
        dead: row.dead,
        cancelled: row.cancelled,
        lapsed: row.lapsed,
        expired: row.expired,
        wait: row.wait.map(quantiles),
        run: row.run.map(quantiles),
    }
}

const fn quantiles(of: Quantiles) -> v1::Quantiles {
    v1::Quantiles {
        p50_ms: of.p50.0.as_millis(),
        p95_ms: of.p95.0.as_millis(),
        p99_ms: of.p99.0.as_millis(),
    }
}
