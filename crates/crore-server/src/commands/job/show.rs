//! A job as people read it: texts as text, its history and its notes as lines.

use std::io;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use crate::output::{Column, CommandOutput};

/// Fields of a job that are shown first.
const FIRST_FIELDS: &[&str] =
    &["id", "state", "why", "queue", "kind", "payload", "attempt", "max_attempts"];

const HISTORY: &[Column] = &[
    ("STARTED", "/started_at"),
    ("ENDED", "/ended_at"),
    ("OUTCOME", "/ended"),
    ("WORKER", "/worker"),
    ("ERROR", "/error"),
];

const NOTES: &[Column] = &[("AT", "/at"), ("NOTE", "/text")];

/// Prints a job: its fields, then a line for each ended delivery, newest first, and for each note.
pub(super) fn print(out: &mut CommandOutput, mut job: Value) -> io::Result<()> {
    decode(&mut job, "payload");
    let mut take = |name: &str| job.get_mut(name).map(Value::take).unwrap_or_default();
    let (history, notes) = (take("history"), take("notes"));
    out.object(&job, FIRST_FIELDS)?;
    print_lines(out, "history", HISTORY, history.as_array().map_or(&[], Vec::as_slice))?;
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
    fn text_is_decoded_and_other_bytes_stay() {
        let mut job = json!({ "payload_base64": "aGVsbG8K", "encoding": "text" });
        decode(&mut job, "payload");
        assert_eq!(job, json!({ "payload": "hello", "encoding": "text" }));
        let mut job = json!({ "payload_base64": "/w==" });
        decode(&mut job, "payload");
        assert_eq!(job, json!({ "payload_base64": "/w==" }));
    }
}
