//! Masked members of JSON texts: where they are, and texts with other values in their places.
//!
//! A text is scanned, not parsed into values, so that everything else stays as it was written: numbers of any size, order
//! of members, white space.

use std::ops::Range;

/// One step from the root of a text to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MemberStep {
    Name(String),
    Index(usize),
}

/// The value of a masked member.
#[derive(Debug)]
pub(super) struct MaskedMember {
    path: Vec<MemberStep>,
    /// The place of the value in the text.
    range: Range<usize>,
}

/// The masked members of a valid JSON text, in order. Members inside a masked value are part of it.
pub(super) fn masked_members(text: &str, is_masked: impl Fn(&str) -> bool) -> Vec<MaskedMember> {
    let (mut members, mut path) = (Vec::new(), Vec::new());
    let (mut at, mut is_name) = (0, false);
    while let Some(byte) = text.as_bytes().get(at) {
        at += 1;
        match byte {
            b'{' => {
                path.push(MemberStep::Name(String::new()));
                is_name = true;
            }
            b'[' => path.push(MemberStep::Index(0)),
            b'}' | b']' => {
                path.pop();
                is_name = false;
            }
            b',' => match path.last_mut() {
                Some(MemberStep::Index(n)) => *n += 1,
                _ => is_name = true,
            },
            b'"' => {
                let end = text_end(text, at);
                if std::mem::take(&mut is_name) {
                    let name =
                        text.get(at - 1..end).and_then(|name| serde_json::from_str(name).ok());
                    let name: String = name.unwrap_or_default();
                    let is_hidden = is_masked(&name);
                    if let Some(step) = path.last_mut() {
                        *step = MemberStep::Name(name);
                    }
                    if is_hidden {
                        let range = value_after(text, end);
                        at = range.end;
                        members.push(MaskedMember { path: path.clone(), range });
                        continue;
                    }
                }
                at = end;
            }
            _ => {}
        }
    }
    members
}

/// The text with a value in the place of each member; members without a value stay.
pub(super) fn with_values<'a>(
    text: &str,
    members: &[MaskedMember],
    value: impl Fn(&MaskedMember) -> Option<&'a str>,
) -> String {
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for member in members {
        let Some(value) = value(member) else { continue };
        out.push_str(text.get(copied..member.range.start).unwrap_or_default());
        out.push_str(value);
        copied = member.range.end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

impl MaskedMember {
    /// The value, in the text that the member was found in.
    pub(super) fn value<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.range.clone()).unwrap_or_default()
    }

    /// The member with the same path.
    pub(super) fn twin<'m>(&self, members: &'m [Self]) -> Option<&'m Self> {
        members.iter().find(|other| other.path == self.path)
    }
}

/// The end of a JSON text in quotes whose first character is at `at`.
fn text_end(text: &str, mut at: usize) -> usize {
    while let Some(byte) = text.as_bytes().get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

/// The value after the name of a member.
fn value_after(text: &str, name_end: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let skipped = bytes.iter().skip(name_end);
    let blank = skipped.take_while(|byte| byte.is_ascii_whitespace() || **byte == b':').count();
    let start = name_end + blank;
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = text_end(text, at + 1) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' | b']' => return start..at,
            byte if depth == 0 && (*byte == b',' || byte.is_ascii_whitespace()) => {
                return start..at;
            }
            _ => {}
        }
        at += 1;
    }
    start..bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let members = masked_members(text, |name| name == "card" || name == "pin");
        with_values(text, &members, |_| Some("\"***\""))
    }

    #[test]
    fn masked_members_are_found_at_any_depth_and_the_rest_stays() {
        for (text, expected) in [
            (r#"{"card":"4111"}"#, r#"{"card":"***"}"#),
            (r#"{ "card" : 4111 , "n": 1e400 }"#, r#"{ "card" : "***" , "n": 1e400 }"#),
            (r#"{"a":[{"pin":[1,{"pin":2}]},{"b":1}]}"#, r#"{"a":[{"pin":"***"},{"b":1}]}"#),
            (r#"{"card":{"no":"}\"{"},"pin":null}"#, r#"{"card":"***","pin":"***"}"#),
            (r#"{"c\u0061rd":true}"#, r#"{"c\u0061rd":"***"}"#),
            (r#"{"card":1,"card":2}"#, r#"{"card":"***","card":"***"}"#),
            (r#"["card",{"x":"card"},"pin"]"#, r#"["card",{"x":"card"},"pin"]"#),
            (r#"{"x":"\"card\":1","\\":{"card":-1}}"#, r#"{"x":"\"card\":1","\\":{"card":"***"}}"#),
            ("\"card\"", "\"card\""),
            ("[]", "[]"),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn any_text_is_scanned_without_panic() {
        for text in ["{", "{\"card\"", "{\"card\":", "}", "]]", "{\"card\":\"\\", "", "{\"card\":é"]
        {
            masked(text);
        }
    }

    #[test]
    fn members_are_equal_by_their_paths() {
        let of = |text: &str| masked_members(text, |name| name == "pin");
        let (a, b) = (r#"[{"pin":1},{"pin":2}]"#, r#"[{"x":0},{"y":0,"pin":3}]"#);
        let (in_a, in_b) = (of(a), of(b));
        let twin = in_b.first().and_then(|member| member.twin(&in_a));
        assert_eq!(twin.map(|twin| twin.value(a)), Some("2"));
    }
}
