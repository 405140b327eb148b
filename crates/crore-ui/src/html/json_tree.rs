//! JSON as a tree that can be folded.

use std::borrow::Cow;
use std::fmt;

use maud::{Markup, html};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::format::visible;
use crate::text::{Texts, fill};

/// Maximum number of values that are shown.
const MAX_VALUES: usize = 2000;
/// Maximum number of characters of a text that are shown.
const MAX_CHARS: usize = 4000;
/// Objects and arrays below this depth are folded.
const OPEN_DEPTH: usize = 2;
/// Maximum depth; deeper values are shown as text.
const MAX_DEPTH: usize = 64;

/// Shows a JSON text. A text that is not JSON is shown as it is, shortened.
pub(crate) fn tree(text: &Texts, json: &str) -> Markup {
    match serde_json::from_str::<&RawValue>(json) {
        Ok(value) => {
            let mut budget = MAX_VALUES;
            html! { div.tree { (node(text, value, 0, &mut budget)) } }
        }
        Err(_) => html! { pre.tree { (scalar(text, json)) } },
    }
}

fn node(text: &Texts, value: &RawValue, depth: usize, budget: &mut usize) -> Markup {
    *budget = budget.saturating_sub(1);
    if *budget == 0 || depth > MAX_DEPTH {
        return html! { span.more { (text.more_not_shown) } };
    }
    match value.get().as_bytes().first() {
        Some(b'{') => match serde_json::from_str::<Members<'_>>(value.get()) {
            Ok(Members(members)) => branch(text, ("{", "}"), members, (depth, budget)),
            Err(_) => scalar(text, value.get()),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
            Ok(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(n, item)| (Cow::Owned(n.to_string()), item)).collect();
                branch(text, ("[", "]"), items, (depth, budget))
            }
            Err(_) => scalar(text, value.get()),
        },
        _ => scalar(text, value.get()),
    }
}

/// An object or an array with its values.
fn branch(
    text: &Texts,
    (open, close): (&str, &str),
    values: Vec<(Cow<'_, str>, &RawValue)>,
    (depth, budget): (usize, &mut usize),
) -> Markup {
    if values.is_empty() {
        return html! { span.mark { (open) (close) } };
    }
    let (n, is_array) = (values.len(), open == "[");
    let (shown, rest) = (n.min(*budget), n.saturating_sub(*budget));
    html! {
        details open[depth < OPEN_DEPTH] {
            summary { span.mark { (open) } span.mark.closed { span.count { (n) } (close) } }
            ul {
                @for (key, value) in values.into_iter().take(shown) {
                    li {
                        @if is_array { span.index { (key) } } @else { span.key { (visible(&key)) } }
                        ": " (node(text, value, depth + 1, budget))
                    }
                }
                @if rest > 0 { li.more { (text.more_not_shown) } }
            }
            span.mark { (close) }
        }
    }
}

/// A text, a number, `true`, `false` or `null`.
fn scalar(text: &Texts, json: &str) -> Markup {
    let class = match json.as_bytes().first() {
        Some(b'"') => "text",
        Some(b'-' | b'0'..=b'9') => "number",
        _ => "word",
    };
    // A text is shown without the escapes of JSON where it is one.
    let plain = serde_json::from_str::<String>(json).ok();
    let shown = plain.as_deref().unwrap_or(json);
    let cut: String = shown.chars().take(MAX_CHARS).collect();
    let more = shown.len() - cut.len();
    html! {
        span class=(class) {
            @if plain.is_some() { "\"" (visible(&cut)) "\"" } @else { (visible(&cut)) }
        }
        @if more > 0 { span.more { (fill(text.more_bytes, &[&more])) } }
    }
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct MemberVisitor;

        impl<'de> Visitor<'de> for MemberVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Cow<'de, str>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }

        reader.deserialize_map(MemberVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::ENGLISH;

    fn shown(json: &str) -> String {
        tree(&ENGLISH, json).into_string()
    }

    #[test]
    fn values_are_shown_as_written_and_escaped() {
        let html = shown(r#"{"b<":[1e400,"<i>\u202e"],"a":{},"n":null}"#);
        assert!(html.find("b&lt;").unwrap() < html.find(">a<").unwrap(), "in their order");
        assert!(html.contains("1e400") && html.contains("&lt;i&gt;") && html.contains("U+202E"));
        assert!(!html.contains("<i>") && html.contains("{}"));
    }

    #[test]
    fn large_and_deep_values_are_cut() {
        let many = format!("[{}]", vec!["1"; 5000].join(","));
        assert!(shown(&many).contains(ENGLISH.more_not_shown));
        let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
        assert!(shown(&deep).len() < 20_000);
        assert!(shown(&format!("\"{}\"", "x".repeat(1 << 20))).len() < 10_000);
    }
}
