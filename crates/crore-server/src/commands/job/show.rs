//! A job as people read it: texts as text, its history and its notes as lines.

use std::io;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::output::{Column, CommandOutput};

/// Fields of a job that are shown first.
const FIRST_FIELDS: &[&str] =
    &["id", "state", "why", "queue", "kind", "payload", "attempt", "max_attempts"];

const HISTORY: &[Column] = &[
    ("AT", "/at"),
    ("EVENT", "/event"),
    ("DURATION", "/duration"),
    ("BY", "/by"),
    ("DETAIL", "/detail"),
];

const NOTES: &[Column] = &[("AT", "/at"), ("NOTE", "/text")];

/// Prints a job: its fields, then a line for each ended delivery and each action by hand, oldest first, and for each
/// note.
pub(super) fn print(out: &mut CommandOutput, mut job: Value) -> io::Result<()> {
    decode(&mut job, "payload");
    let mut take = |name: &str| job.get_mut(name).map(Value::take).unwrap_or_default();
    let (history, actions, notes) = (take("history"), take("actions"), take("notes"));
    out.object(&job, FIRST_FIELDS)?;
    print_lines(out, "history", HISTORY, &history_rows(&history, &actions))?;
    print_lines(out, "notes", NOTES, &note_rows(&notes))
}

fn print_lines(
    out: &mut CommandOutput,
    title: &str,
    columns: &[Column],
    rows: &[Value],
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    out.line(&format!("\n{title}"))?;
    out.rows(columns, rows)
}

/// Ended deliveries and actions by hand, in the order of their times. The time of a delivery is its end.
fn history_rows(history: &Value, actions: &Value) -> Vec<Value> {
    let field = |one: &Value, name: &str| one.get(name).cloned().unwrap_or_default();
    let delivery = |one: &Value| {
        json!({
            "at": field(one, "ended_at"), "event": field(one, "ended"), "duration": field(one, "duration"),
            "by": field(one, "worker"), "detail": field(one, "error"),
        })
    };
    let action = |one: &Value| {
        json!({
            "at": field(one, "at"), "event": field(one, "action"), "by": field(one, "by"),
            "detail": field(one, "detail"),
        })
    };
    let deliveries = history.as_array().into_iter().flatten().rev().map(delivery);
    let actions = actions.as_array().into_iter().flatten().rev().map(action);
    let mut rows: Vec<Value> = deliveries.chain(actions).collect();
    // Times of the server sort as texts. The sort is stable: of two events of one time, a delivery comes first.
    rows.sort_by_key(|row| row["at"].as_str().unwrap_or_default().to_owned());
    rows
}

/// The log lines, and the progress as the last one.
fn note_rows(notes: &Value) -> Vec<Value> {
    let mut rows = notes["lines"].as_array().cloned().unwrap_or_default();
    if let Some(progress) = notes["progress"].as_object() {
        let part = |name: &str| progress.get(name).cloned().unwrap_or_default();
        let text = part("text");
        let text = format!("{} % {}", part("percent"), text.as_str().unwrap_or_default());
        rows.push(json!({ "at": part("at"), "text": text.trim_end() }));
    }
    rows
}

/// Replaces Base64 by the text that it encodes, if it is UTF-8.
pub(super) fn decode(answer: &mut Value, field: &str) {
    let encoded = format!("{field}_base64");
    let text = decoded(answer, field).and_then(|bytes| String::from_utf8(bytes).ok());
    if let (Some(text), Value::Object(fields)) = (text, answer) {
        fields.retain(|name, _| *name != encoded);
        fields.insert(field.to_owned(), text.trim_end().into());
    }
}

/// The bytes of a field that is in Base64.
pub(super) fn decoded(answer: &Value, field: &str) -> Option<Vec<u8>> {
    let text = answer.get(format!("{field}_base64"))?.as_str()?;
    BASE64_STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_and_actions_are_in_the_order_of_their_times() {
        let at = |second: u32| format!("2026-11-18T00:00:0{second}.000Z");
        let end = |second| json!({ "ended_at": at(second), "ended": "failed", "worker": "w" });
        let action = |second| json!({ "at": at(second), "action": "retry", "by": "ada" });
        let rows = history_rows(&json!([end(5), end(1)]), &json!([action(5), action(3)]));
        let shown: Vec<_> =
            rows.iter().map(|row| (&row["at"], &row["event"], &row["by"])).collect();
        let times = [1, 3, 5, 5].map(|second| json!(at(second)));
        let events = ["failed", "retry", "failed", "retry"].map(|event| json!(event));
        let by = ["w", "ada", "w", "ada"].map(|by| json!(by));
        let expected: Vec<_> =
            times.iter().zip(&events).zip(&by).map(|((a, b), c)| (a, b, c)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn text_is_decoded_and_other_bytes_stay() {
        let mut job = json!({ "payload_base64": "aGVsbG8K", "encoding": "text" });
        decode(&mut job, "payload");
        assert_eq!(job, json!({ "payload": "hello", "encoding": "text" }));
        let mut job = json!({ "payload_base64": "/w==" });
        decode(&mut job, "payload");
        assert_eq!(job, json!({ "payload_base64": "/w==" }));
    }
}
