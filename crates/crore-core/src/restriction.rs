//! Restriction of an access token to queues and kinds.

use std::fmt;

use crate::code::{Code, Invalid};
use crate::name::Name;

/// Maximum number of patterns for queues, and for kinds.
pub const MAX_PATTERNS: usize = 32;

/// A pattern for names: `*` matches any characters, including none. Every other character matches itself, and the
/// whole name must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern(Name);

impl NamePattern {
    /// Validates `text`: it must have the form of a name. Errors name `field`.
    pub fn new(field: &str, text: &str) -> Result<Self, Invalid> {
        Name::new(field, text).map(Self)
    }

    /// The pattern as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it matches all of `name`.
    pub fn matches(&self, name: &Name) -> bool {
        matches_stars(self.as_str(), name.as_str())
    }

    fn matches_all(&self) -> bool {
        self.as_str().bytes().all(|byte| byte == b'*')
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Whether `pattern`, in which `*` stands for any bytes, matches all of `value`. Takes at most the product of both
/// lengths in steps.
pub fn matches_stars(pattern: &str, value: &str) -> bool {
    let (pattern, value) = (pattern.as_bytes(), value.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // Position of the last star, and how much of the value it has consumed. On a mismatch the star consumes one byte
    // more.
    let mut star = None;
    while let Some(byte) = value.get(seen) {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, seen));
            at += 1;
        } else if pattern.get(at) == Some(byte) {
            at += 1;
            seen += 1;
        } else if let Some((stands, taken)) = star {
            star = Some((stands, taken + 1));
            at = stands + 1;
            seen = taken + 1;
        } else {
            return false;
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

/// The queues and kinds that a caller is restricted to: a job is covered if its queue and its kind both are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restriction {
    /// Patterns for queues. Empty: any queue.
    queues: Vec<NamePattern>,
    /// Patterns for kinds. Empty: any kind.
    kinds: Vec<NamePattern>,
}

impl Restriction {
    /// Validates patterns from a caller, in the fields `queues` and `kinds`. A pattern that matches every name lifts
    /// the restriction of its list.
    pub fn new(queues: &[String], kinds: &[String]) -> Result<Self, Invalid> {
        Ok(Self { queues: patterns("queues", queues)?, kinds: patterns("kinds", kinds)? })
    }

    /// Whether any job is covered.
    pub const fn is_none(&self) -> bool {
        self.queues.is_empty() && self.kinds.is_empty()
    }

    /// Patterns for queues. Empty: any queue.
    pub fn queues(&self) -> &[NamePattern] {
        &self.queues
    }

    /// Patterns for kinds. Empty: any kind.
    pub fn kinds(&self) -> &[NamePattern] {
        &self.kinds
    }

    /// Whether jobs of this queue and kind are covered.
    pub fn covers(&self, queue: &Name, kind: &Name) -> bool {
        self.covers_queue(queue) && self.covers_kind(kind)
    }

    /// Whether the queue is covered.
    pub fn covers_queue(&self, queue: &Name) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| pattern.matches(queue))
    }

    /// Whether the kind is covered.
    pub fn covers_kind(&self, kind: &Name) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|pattern| pattern.matches(kind))
    }
}

fn patterns(field: &str, texts: &[String]) -> Result<Vec<NamePattern>, Invalid> {
    if texts.len() > MAX_PATTERNS {
        let message = format!("{} patterns, at most {MAX_PATTERNS} are allowed", texts.len());
        return Err(Invalid::new(Code::CountRange, field, message));
    }
    let pattern =
        |(n, text): (usize, &String)| NamePattern::new(&format!("{field}[{n}]"), text.as_str());
    let patterns = texts.iter().enumerate().map(pattern).collect::<Result<Vec<_>, _>>()?;
    let is_unlimited = patterns.iter().any(NamePattern::matches_all);
    Ok(if is_unlimited { Vec::new() } else { patterns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a good name")
    }

    fn restriction(queues: &[&str], kinds: &[&str]) -> Restriction {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        Restriction::new(&owned(queues), &owned(kinds)).expect("good patterns")
    }

    #[test]
    fn a_star_matches_any_characters_and_nothing_else_is_special() {
        for (pattern, matched, others) in [
            ("mail*", &["mail", "mail-eu", "mailé"][..], &["mai", "email", ""][..]),
            ("*.eu", &["a.eu", ".eu"], &["a.eux", "aeu"]),
            ("a*b*c", &["abc", "axxbyyc", "abbc"], &["ab", "acb", "abcx"]),
            ("m?il", &["m?il"], &["mail"]),
            ("mail", &["mail"], &["Mail", "mail "]),
        ] {
            assert!(matched.iter().all(|text| matches_stars(pattern, text)), "{pattern}");
            assert!(others.iter().all(|text| !matches_stars(pattern, text)), "{pattern}");
        }
    }

    #[test]
    fn a_job_is_covered_if_its_queue_and_its_kind_both_are() {
        let both = restriction(&["mail*", "news"], &["send*"]);
        let covered = |queue: &str, kind: &str| both.covers(&name(queue), &name(kind));
        assert!(covered("mail-eu", "send") && covered("news", "send.html"));
        assert!(!covered("sms", "send") && !covered("mail", "resize") && !covered("sms", "resize"));
        let queues = restriction(&["mail*"], &[]);
        assert!(queues.covers(&name("mail"), &name("anything")));
        assert!(!queues.covers(&name("sms"), &name("anything")));
    }

    #[test]
    fn a_pattern_that_matches_everything_lifts_the_restriction_of_its_list() {
        assert!(restriction(&["mail", "**"], &["*"]).is_none());
        assert!(!restriction(&["*"], &["send"]).is_none());
    }

    #[test]
    fn malformed_patterns_are_refused_by_their_place() {
        let refused = |queues: Vec<String>| {
            let invalid = Restriction::new(&queues, &[]).expect_err("refused");
            (invalid.code, invalid.field)
        };
        let good = "mail".to_owned();
        assert_eq!(
            refused(vec![good.clone(), String::new()]),
            (Code::NameEmpty, "queues[1]".to_owned())
        );
        assert_eq!(refused(vec!["x".repeat(256)]), (Code::NameTooLong, "queues[0]".to_owned()));
        assert_eq!(refused(vec![good; MAX_PATTERNS + 1]), (Code::CountRange, "queues".to_owned()));
    }
}
