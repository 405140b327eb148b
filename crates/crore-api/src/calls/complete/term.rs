//! The term of a filter at the cursor.

/// The term at the cursor, up to the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TermAtCursor {
    /// The field, or the part of it that is typed.
    pub(super) field: String,
    /// The value up to the cursor, if the operator is typed.
    pub(super) value: Option<String>,
    /// The range that a suggestion replaces, in characters: the field, or the value.
    pub(super) from: usize,
    pub(super) to: usize,
}

impl TermAtCursor {
    /// The term at a position in characters; without one, at the end.
    pub(super) fn of(text: &str, at: Option<usize>) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let at = at.unwrap_or(chars.len()).min(chars.len());
        let (mut start, mut operator, mut value) = (0, None, 0);
        let (mut is_quoted, mut is_escaped) = (false, false);
        for (n, c) in chars.iter().copied().enumerate().take(at) {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' if is_quoted => is_escaped = true,
                '"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                c if c.is_whitespace() => (start, operator) = (n + 1, None),
                ':' | '=' | '~' | '<' | '>' | '!' if operator.is_none() => {
                    (operator, value) = (Some(n), n + 1);
                }
                // The second character of an operator.
                '=' if value == n => value = n + 1,
                ',' if operator.is_some() => value = n + 1,
                _ => {}
            }
        }
        let text_of = |from: usize, to: usize| chars.iter().skip(from).take(to - from).collect();
        let negation = usize::from(chars.get(start) == Some(&'-') && start < at);
        let rest = chars.iter().skip(at);
        let ends = |c: &&char| !c.is_whitespace() && !matches!(c, ',' | '"');
        let to = at + rest.take_while(ends).count();
        match operator {
            Some(operator) => Self {
                field: text_of(start + negation, operator),
                value: Some(text_of(value, at)),
                from: value,
                to,
            },
            None => {
                let from = start + negation;
                Self { field: text_of(from, at), value: None, from, to }
            }
        }
    }
}

/// A name as a value of a filter: in quotes if it needs them.
pub(super) fn quoted(name: &str) -> String {
    let is_special = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '(' | ')' | '*' | '\\');
    match name.contains(is_special) {
        true => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(text: &str, at: Option<usize>) -> (String, Option<String>, usize, usize) {
        let TermAtCursor { field, value, from, to } = TermAtCursor::of(text, at);
        (field, value, from, to)
    }

    #[test]
    fn the_term_at_the_cursor_is_found() {
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(term("", None), (String::new(), None, 0, 0));
        assert_eq!(term("sta", None), ("sta".to_owned(), None, 0, 3));
        assert_eq!(term("state:de", None), ("state".to_owned(), text("de"), 6, 8));
        assert_eq!(term("-state:dead,ca", None), ("state".to_owned(), text("ca"), 12, 14));
        assert_eq!(term("kind:a que", None), ("que".to_owned(), None, 7, 10));
        assert_eq!(term("age>=1", None), ("age".to_owned(), text("1"), 5, 6));
        assert_eq!(term("queue!=m", None), ("queue".to_owned(), text("m"), 7, 8));
        assert_eq!(
            term("error~\"a b\" payload.to=a", None),
            ("payload.to".to_owned(), text("a"), 23, 24)
        );
        assert_eq!(term("queue:\"a b", None), ("queue".to_owned(), text("\"a b"), 6, 10));
        // In the middle: the rest of the word is replaced.
        assert_eq!(term("queue:mail kind:x", Some(8)), ("queue".to_owned(), text("ma"), 6, 10));
        assert_eq!(term("é:ü", Some(99)), ("é".to_owned(), text("ü"), 2, 3));
    }

    #[test]
    fn a_name_that_would_not_parse_is_quoted() {
        assert_eq!(quoted("mail"), "mail");
        for name in ["a b", "a,b", "a\"b", "a*", "(a)", "a\\b"] {
            let filter = crore_core::SearchFilter::parse("q", &format!("queue:{}", quoted(name)));
            let queues = filter.expect("a filter").queues().expect("names");
            assert_eq!(queues.first().map(crore_core::Name::as_str), Some(name));
        }
    }
}
