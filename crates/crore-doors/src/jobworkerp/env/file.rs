//! Reader for `.env` files. Not `dotenvy`: it substitutes `$NAME` and processes escapes, which would change values.

use std::collections::BTreeMap;

/// An invalid line of a `.env` file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct EnvFileError {
    /// Line number, from 1.
    pub line: usize,
    /// Reason why the line is invalid.
    pub why: &'static str,
}

/// Reads a `.env` file: `NAME=value` lines, with optional `export`, optional quotes around the value, and comments
/// after `#`. `$NAME` is not substituted. If a name appears twice, the first counts, as in jobworkerp.
pub fn file(text: &str) -> Result<BTreeMap<String, String>, EnvFileError> {
    let mut variables = BTreeMap::new();
    for (n, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let wrong = |why| EnvFileError { line: n + 1, why };
        let line = line.trim();
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("missing `=`"))?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong("invalid name before `=`"));
        }
        let value = unquoted(value.trim()).ok_or_else(|| wrong("unterminated quote"))?;
        variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(variables)
}

/// A value without its quotes, or without a trailing comment; `None`: unterminated quote.
fn unquoted(value: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split_once(quote).map(|(value, _)| value);
        }
    }
    if value.starts_with('#') {
        return Some("");
    }
    Some(value.split_once(" #").map_or(value, |(value, _)| value.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_the_quoting_of_shells() {
        let text = "\u{feff}# a remark\n\nA=1\n export B = \"two words # not a remark\" \nC='$A'\r\nD=x # a remark\nE=\nF=#\nG=a#b\nA=2\n";
        let read = file(text).expect("good");
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            read,
            [
                ("A", "1"),
                ("B", "two words # not a remark"),
                ("C", "$A"),
                ("D", "x"),
                ("E", ""),
                ("F", ""),
                ("G", "a#b"),
            ]
        );
    }

    #[test]
    fn invalid_lines_are_reported() {
        for (text, line, why) in [
            ("A=1\nB", 2, "missing `=`"),
            ("=1", 1, "invalid name before `=`"),
            ("A B=1", 1, "invalid name before `=`"),
            ("\n\nA=\"x", 3, "unterminated quote"),
        ] {
            assert_eq!(file(text), Err(EnvFileError { line, why }), "{text}");
        }
    }
}
