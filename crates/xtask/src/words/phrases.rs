//! Phrases that make a reader stop, and that no text may contain.

/// One phrase per line. `^` at the start: only at the beginning of a comment.
const LIST: &str = include_str!("phrases.txt");

pub(super) struct Phrases {
    /// In lower case.
    anywhere: Vec<String>,
    /// As written: a comment begins with a capital letter.
    at_start: Vec<String>,
}

impl Phrases {
    /// The project's list.
    pub(super) fn project() -> Self {
        Self::parse(LIST)
    }

    fn parse(list: &str) -> Self {
        let mut phrases = Self { anywhere: Vec::new(), at_start: Vec::new() };
        for line in
            list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            match line.strip_prefix('^') {
                Some(phrase) => phrases.at_start.push(phrase.to_owned()),
                None => phrases.anywhere.push(line.to_lowercase()),
            }
        }
        phrases
    }

    /// The faults of one file, as `FILE:LINE: …`.
    pub(super) fn find(&self, file: &str, text: &str) -> Vec<String> {
        let lines = text.lines().enumerate();
        let faults = lines.filter_map(|(index, line)| {
            let phrase = self.phrase_in(line)?;
            Some(format!("{file}:{}: avoid `{phrase}`; use the plain technical term", index + 1))
        });
        faults.collect()
    }

    fn phrase_in(&self, line: &str) -> Option<&str> {
        let lower = line.to_lowercase();
        let anywhere = self.anywhere.iter().find(|phrase| has_words(&lower, phrase));
        let start = comment(line);
        let at_start = || {
            self.at_start
                .iter()
                .find(|phrase| start.is_some_and(|start| begins_with(start, phrase)))
        };
        anywhere.or_else(at_start).map(String::as_str)
    }
}

/// The text of a comment line.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim_start())
}

fn begins_with(text: &str, phrase: &str) -> bool {
    text.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(is_word))
}

/// Whether `text` has the phrase, not as a part of other words.
fn has_words(text: &str, phrase: &str) -> bool {
    text.match_indices(phrase).any(|(at, _)| {
        !text[..at].ends_with(is_word) && !text[at + phrase.len()..].starts_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        Phrases::parse("# a comment\nto no avail\n^Alas").find("a.rs", text)
    }

    #[test]
    fn a_phrase_is_found_with_its_line() {
        let faults = found("fn a() {}\n// asked To no Avail.\n");
        assert_eq!(faults, ["a.rs:2: avoid `to no avail`; use the plain technical term"]);
    }

    #[test]
    fn a_phrase_inside_other_words_is_not_found() {
        assert_eq!(found("// to no available worker"), [""; 0]);
        assert_eq!(found("// onto no avail"), [""; 0]);
    }

    #[test]
    fn a_phrase_for_the_start_of_a_comment_is_found_only_there() {
        assert_eq!(found("    /// Alas, it waits").len(), 1);
        assert_eq!(found("/// and Alas").len() + found("let x = \"Alas\";").len(), 0);
    }

    #[test]
    fn the_project_has_phrases_of_both_sorts() {
        let phrases = Phrases::project();
        assert!(!phrases.anywhere.is_empty() && !phrases.at_start.is_empty());
    }
}
