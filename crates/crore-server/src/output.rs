//! Output of commands: tables for people, JSON for programs.

use std::io::{self, IsTerminal, Stdout, Write};
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
    is_terminal: bool,
}

/// Maximum width of a table cell, in characters.
const MAX_CELL_CHARS: usize = 60;

impl CommandOutput {
    pub(crate) fn new(format: OutputFormat) -> Self {
        let stdout = io::stdout();
        Self { format, is_terminal: stdout.is_terminal(), stdout }
    }

    pub(crate) const fn format(&self) -> OutputFormat {
        self.format
    }

    /// Prints a line.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdout, "{}", escaped_lines(line))
    }

    /// Prints JSON as it is written, but escaped on a terminal.
    pub(crate) fn json_line(&mut self, json: &str) -> io::Result<()> {
        match self.is_terminal {
            true => writeln!(self.stdout, "{}", escaped_json(json)),
            false => writeln!(self.stdout, "{json}"),
        }
    }

    /// Prints bytes unmodified; on a terminal escaped, and with a line break at the end.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.is_terminal {
            true => {
                let text = String::from_utf8_lossy(bytes);
                writeln!(self.stdout, "{}", escaped_lines(text.trim_end_matches('\n')))?;
            }
            false => self.stdout.write_all(bytes)?,
        }
        self.stdout.flush()
    }

    /// Prints what the command did; in JSON formats, as the field `did`.
    pub(crate) fn confirm(&mut self, what: &str) -> io::Result<()> {
        match self.format {
            OutputFormat::Table => self.line(what),
            OutputFormat::Json | OutputFormat::Jsonl => {
                self.json_line(&serde_json::json!({ "did": what }).to_string())
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
            OutputFormat::Jsonl => rows.iter().try_for_each(|row| self.json_line(&row.to_string())),
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
            (OutputFormat::Jsonl, value) => self.json_line(&value.to_string()),
        }
    }

    fn document(&mut self, value: &Value) -> io::Result<()> {
        self.json_line(&format!("{value:#}"))
    }

    fn lines(&mut self, table: &Table) -> io::Result<()> {
        let text = table.to_string();
        text.lines().try_for_each(|line| writeln!(self.stdout, "{}", line.trim_end()))
    }
}

/// Whether a character could change how a terminal shows the text around it: control characters (C0, DEL and C1), and
/// marks that reorder text.
fn is_harmful(c: char) -> bool {
    let is_bidi_mark = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_bidi_mark
}

/// A text on one line, in which harmful characters are escaped. Everything stored is untrusted.
pub(crate) fn escaped(text: &str) -> String {
    let one = |c: char| if is_harmful(c) { c.escape_default().to_string() } else { c.into() };
    text.chars().map(one).collect()
}

/// The same for a text of several lines: line breaks and tabs stay.
pub(crate) fn escaped_lines(text: &str) -> String {
    let lines = text.split('\n').map(|line| line.split('\t').map(escaped).collect::<Vec<_>>());
    lines.map(|parts| parts.join("\t")).collect::<Vec<_>>().join("\n")
}

/// The same for JSON, which stays the same value: such characters occur only in its strings.
fn escaped_json(json: &str) -> String {
    let one = |c: char| match is_harmful(c) && !c.is_ascii_whitespace() {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.into(),
    };
    json.chars().map(one).collect()
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

/// Formats a value for a cell.
fn cell(value: &Value, widest: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let mut short = escaped(&text.chars().take(widest).collect::<String>());
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
    fn control_characters_and_marks_that_reorder_text_are_escaped() {
        let value = json!("\u{1b}[31mred\r\n");
        assert_eq!(cell(&value, 60), "\\u{1b}[31mred\\r\\n");
        for harmful in ['\0', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{200f}'] {
            let text = format!("a{harmful}b\tc\n");
            let shown = escaped_lines(&text);
            assert_eq!(shown, format!("a{}b\tc\n", harmful.escape_default()));
            let json = json!({ "a": text }).to_string();
            let shown = escaped_json(&json);
            assert!(!shown.contains(harmful), "{shown:?}");
            assert_eq!(serde_json::from_str::<Value>(&shown).ok(), Some(json!({ "a": text })));
        }
        assert_eq!(escaped_lines("naïve 日本語 שלום"), "naïve 日本語 שלום");
        assert_eq!(cell(&json!("x".repeat(61)), 60), format!("{}…", "x".repeat(60)));
    }
}
