//! What commands print: tables for people, JSON for programs.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use comfy_table::{Table, presets};
use indicatif::ProgressBar;
use serde_json::Value;

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    // Not in documentation comments, which would stretch the help of every command.
    // Columns, for people.
    #[default]
    Table,
    // One JSON document.
    Json,
    // One JSON object a line.
    Jsonl,
}

/// A column of a table: its head, and where its value lies in a row, as a JSON pointer.
pub(crate) type Column = (&'static str, &'static str);

/// The standard output. Writing gives an error when nobody reads any more, and does not panic.
#[derive(Debug)]
pub(crate) struct Out {
    format: Format,
    stdout: Stdout,
}

/// The widest cell of a table, in characters.
const WIDEST: usize = 60;

impl Out {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, stdout: io::stdout() }
    }

    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// A line for people.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdout, "{line}")
    }

    /// Bytes, as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)?;
        self.stdout.flush()
    }

    /// What was done, in words; programs see it as a field.
    pub(crate) fn did(&mut self, what: &str) -> io::Result<()> {
        match self.format {
            Format::Table => self.line(what),
            Format::Json | Format::Jsonl => {
                writeln!(self.stdout, "{}", serde_json::json!({ "did": what }))
            }
        }
    }

    /// Many things: a table, a list, or a line each.
    pub(crate) fn rows(&mut self, columns: &[Column], rows: &[Value]) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let table = table(columns, rows);
                self.lines(&table)
            }
            Format::Json => self.document(&Value::Array(rows.to_vec())),
            Format::Jsonl => rows.iter().try_for_each(|row| writeln!(self.stdout, "{row}")),
        }
    }

    /// One thing: its fields below each other, these first, or a document.
    pub(crate) fn one(&mut self, value: &Value, first: &[&str]) -> io::Result<()> {
        match (self.format, value) {
            (Format::Table, Value::Object(fields)) => {
                let place = |name: &str| first.iter().position(|one| *one == name);
                let mut fields: Vec<_> =
                    fields.iter().filter(|(_, value)| !is_empty(value)).collect();
                fields.sort_by_key(|(name, _)| place(name).unwrap_or(first.len()));
                let mut table = plain_table();
                for (name, value) in fields {
                    table.add_row([name.clone(), cell(value, usize::MAX)]);
                }
                self.lines(&pad(table))
            }
            (Format::Table | Format::Json, value) => self.document(value),
            (Format::Jsonl, value) => writeln!(self.stdout, "{value}"),
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

/// Something that moves while something else takes its time. It is shown on terminals alone.
pub(crate) fn busy(what: &'static str) -> ProgressBar {
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
            Some(value) if !is_empty(value) => cell(&listed(value), WIDEST),
            _ => "-".to_owned(),
        });
        table.add_row(cells);
    }
    pad(table)
}

/// Columns that begin at the left edge and stand apart.
fn pad(mut table: Table) -> Table {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// Names in a column are read without their brackets.
fn listed(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ").into()
        }
        value => value.clone(),
    }
}

/// A value in a cell. What workers and pushers wrote may hold anything: nothing of it may steer the
/// terminal.
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
    fn a_table_has_a_column_for_each_head_and_says_what_is_missing() {
        let rows = [json!({ "id": "1", "at": { "queue": "mail" } }), json!({ "id": "20" })];
        let text = table(&[("ID", "/id"), ("QUEUE", "/at/queue")], &rows).to_string();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines, ["ID  QUEUE", "1   mail", "20  -"]);
    }

    #[test]
    fn names_in_a_cell_are_told_as_people_do() {
        assert_eq!(cell(&listed(&json!(["mail", "sms"])), 60), "mail, sms");
        assert_eq!(cell(&json!(["mail", "sms"]), 60), "[\"mail\",\"sms\"]");
        assert_eq!(cell(&json!([1, "a"]), 60), "[1,\"a\"]");
    }

    #[test]
    fn nothing_that_was_pushed_steers_the_terminal() {
        let value = json!("\u{1b}[31mred\r\n");
        assert_eq!(cell(&value, 60), "\\u{1b}[31mred\\r\\n");
        assert_eq!(cell(&json!("x".repeat(61)), 60), format!("{}…", "x".repeat(60)));
    }
}
