//! A `.env` file. Not by `dotenvy`: it substitutes `$NAME` and reads escapes, and a value would change.

use std::collections::BTreeMap;

/// A line of a `.env` file that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Wrong {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Reads a `.env` file: `NAME=value` on each line, `export` before it or not, quotes around the value or not, and
/// remarks behind `#`. Nothing is put in for `$NAME`. Of what stands twice, the first counts, as it does there.
pub fn file(text: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let mut variables = BTreeMap::new();
    for (n, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let wrong = |why| Wrong { line: n + 1, why };
        let line = line.trim();
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(wrong("what stands before `=` is no name"));
        }
        let value = unquoted(value.trim()).ok_or_else(|| wrong("a quote has no end"))?;
        variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(variables)
}

/// A value without its quotes, or without the remark behind it; `None`: its quote has no end.
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
    fn a_file_is_read_as_shells_and_their_friends_write_it() {
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
    fn what_is_no_line_is_named() {
        for (text, line, why) in [
            ("A=1\nB", 2, "there is no `=`"),
            ("=1", 1, "what stands before `=` is no name"),
            ("A B=1", 1, "what stands before `=` is no name"),
            ("\n\nA=\"x", 3, "a quote has no end"),
        ] {
            assert_eq!(file(text), Err(Wrong { line, why }), "{text}");
        }
    }
}
