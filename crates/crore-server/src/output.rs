//! Output of commands: tables for people, JSON for programs.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde_json::Value;

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    // No doc comments: they would lengthen the help of every command.
    #[default]
    Table,
    Json,
    // One JSON object per line.
    Jsonl,
}

/// Column of a table: its header, and the JSON pointer of its value in a row.
pub(crate) type Column = (&'static str, &'static str);

/// Standard output. Writing to a closed pipe returns an error instead of panicking.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    format: OutputFormat,
    stdout: Stdout,
}

/// Maximum width of a table cell, in characters.
const MAX_CELL_CHARS: usize = 60;

impl CommandOutput {
    pub(crate) fn new(format: OutputFormat) -> Self {
        Self { format, stdout: io::stdout() }
    }

    pub(crate) const fn format(&self) -> OutputFormat {
        self.format
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdout, "{line}")
    }

    /// Prints raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)?;
        self.stdout.flush()
    }

    /// Prints what the command did; in JSON formats, as the field `did`.
    pub(crate) fn confirm(&mut self, what: &str) -> io::Result<()> {
        match self.format {
            OutputFormat::Table => self.line(what),
            OutputFormat::Json | OutputFormat::Jsonl => {
                writeln!(self.stdout, "{}", serde_json::json!({ "did": what }))
            }
        }
    }

    /// Prints a list: a table, a JSON array, or one JSON object per line.
    pub(crate) fn rows(&mut self, columns: &[Column], rows: &[Value]) -> io::Result<()> {
        match self.format {
            OutputFormat::Table => {
                let table = table(columns, rows);
                self.lines(&table)
            }
            OutputFormat::Json => self.document(&Value::Array(rows.to_vec())),
            OutputFormat::Jsonl => rows.iter().try_for_each(|row| writeln!(self.stdout, "{row}")),
        }
    }

    /// Prints one object: its fields as rows, the `first` ones on top, or a JSON document.
    pub(crate) fn object(&mut self, value: &Value, first: &[&str]) -> io::Result<()> {
        match (self.format, value) {
            (OutputFormat::Table, Value::Object(fields)) => {
                let rank = |name: &str| first.iter().position(|one| *one == name);
                let mut fields: Vec<_> =
                    fields.iter().filter(|(_, value)| !is_empty(value)).collect();
                fields.sort_by_key(|(name, _)| rank(name).unwrap_or(first.len()));
                let mut table = plain_table();
                for (name, value) in fields {
                    table.add_row([name.clone(), cell(value, usize::MAX)]);
                }
                self.lines(&set_padding(table))
            }
            (OutputFormat::Table | OutputFormat::Json, value) => self.document(value),
            (OutputFormat::Jsonl, value) => writeln!(self.stdout, "{value}"),
        }
    }

    fn document(&mut self, value: &Value) -> io::Result<()> {
        writeln!(self.stdout, "{value:#}")
    }

    fn lines(&mut self, table: &Table) -> io::Result<()> {
        let text = table.to_string();
        text.lines().try_for_each(|line| writeln!(self.stdout, "{}", line.trim_end()))
    }
}

/// Shows a spinner with a message; on terminals only.
pub(crate) fn spinner(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn table(columns: &[Column], rows: &[Value]) -> Table {
    let mut table = plain_table();
    table.set_header(columns.iter().map(|(head, _)| *head));
    for row in rows {
        let cells = columns.iter().map(|(_, pointer)| match row.pointer(pointer) {
            Some(value) if !is_empty(value) => cell(&joined(value), MAX_CELL_CHARS),
            _ => "-".to_owned(),
        });
        table.add_row(cells);
    }
    set_padding(table)
}

/// Aligns columns left, two spaces apart.
fn set_padding(mut table: Table) -> Table {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Joins a list of strings with commas.
fn joined(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ").into()
        }
        value => value.clone(),
    }
}

/// Formats a value for a cell. Payloads and worker messages are untrusted, so control characters are escaped.
fn cell(value: &Value, widest: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let harmless = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    let mut short: String = text.chars().take(widest).map(harmless).collect();
    if text.chars().nth(widest).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_values_are_shown_as_dashes() {
        let rows = [json!({ "id": "1", "at": { "queue": "mail" } }), json!({ "id": "20" })];
        let text = table(&[("ID", "/id"), ("QUEUE", "/at/queue")], &rows).to_string();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines, ["ID  QUEUE", "1   mail", "20  -"]);
    }

    #[test]
    fn lists_of_names_are_joined_with_commas() {
        assert_eq!(cell(&joined(&json!(["mail", "sms"])), 60), "mail, sms");
        assert_eq!(cell(&json!(["mail", "sms"]), 60), "[\"mail\",\"sms\"]");
        assert_eq!(cell(&json!([1, "a"]), 60), "[1,\"a\"]");
    }

    #[test]
    fn control_characters_are_escaped() {
        let value = json!("\u{1b}[31mred\r\n");
        assert_eq!(cell(&value, 60), "\\u{1b}[31mred\\r\\n");
        assert_eq!(cell(&json!("x".repeat(61)), 60), format!("{}…", "x".repeat(60)));
    }
}
