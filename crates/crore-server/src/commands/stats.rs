//! `crore stats`: counts of pushed and ended jobs over time.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::CommandContext;
use super::client::{list_field, with_query};
use crate::output::Column;

const SERIES: [&str; 5] = ["pushed", "done", "failed", "dead", "cancelled"];

const COLUMNS: &[Column] = &[
    ("FROM", "/at"),
    ("PUSHED", "/pushed"),
    ("DONE", "/done"),
    ("FAILED", "/failed"),
    ("DEAD", "/dead"),
    ("CANCELLED", "/cancelled"),
];

pub(crate) fn run(mut call: CommandContext, by_minute: bool) -> anyhow::Result<ExitCode> {
    let (step, newest) = if by_minute { ("minute", 60) } else { ("hour", 24) };
    let mut rows: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for series in SERIES {
        let query = [("series", Some(series.to_owned())), ("step", Some(step.to_owned()))];
        for point in list_field(call.client.get(&with_query("/v1/stats", &query))?, "points") {
            let at = point.pointer("/at").and_then(Value::as_str).unwrap_or_default().to_owned();
            let row = rows.entry(at).or_default();
            row.insert(series.to_owned(), point.pointer("/n").cloned().unwrap_or_default());
        }
    }
    let skipped = rows.len().saturating_sub(newest);
    let rows: Vec<Value> =
        rows.into_iter().skip(skipped).map(|(at, row)| row_of(&at, row)).collect();
    call.out.rows(COLUMNS, &rows)?;
    Ok(ExitCode::SUCCESS)
}

/// A row with a number in every column; zero where the server reports none.
fn row_of(at: &str, mut row: Map<String, Value>) -> Value {
    for series in SERIES {
        row.entry(series).or_insert_with(|| 0.into());
    }
    row.insert("at".to_owned(), json!(at));
    Value::Object(row)
}
