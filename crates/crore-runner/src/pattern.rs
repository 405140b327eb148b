//! Patterns for programs, images and addresses that an operator allows, with `*` for any
//! characters. Neither `globset` nor `wildmatch` fits: `?`, `[` and `{` must match literally.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use crore_core::restriction::matches_stars;
use crore_core::settings::{Setting, SettingValue, Shape};

/// A text in which `*` matches any characters, including none and `/`. Nothing else is special, and
/// the whole value must match: `/usr/bin/*` does not allow `/opt/usr/bin/x`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

/// A pattern without characters, which would match nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pattern must not be empty; `*` matches everything")]
pub struct EmptyPattern;

impl FromStr for Pattern {
    type Err = EmptyPattern;

    fn from_str(text: &str) -> Result<Self, EmptyPattern> {
        if text.is_empty() { Err(EmptyPattern) } else { Ok(Self(text.to_owned())) }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// The pattern with symbolic links resolved in its path, up to the directory of its first `*`;
    /// none if it does not begin with a directory. A directory that does not exist stays as it is.
    fn resolved(&self, scheme: &str) -> Option<Self> {
        let path = self.0.strip_prefix(scheme).filter(|path| path.starts_with('/'))?;
        let end = match path.split_once('*') {
            None => path.len(),
            Some((before, _)) => before.rfind('/').unwrap_or(0),
        };
        let (fixed, rest) = path.split_at(end);
        let Ok(resolved) = fs::canonicalize(fixed) else { return Some(self.clone()) };
        let resolved = resolved.to_str()?.trim_end_matches('/');
        Some(Self(format!("{scheme}{resolved}{rest}")))
    }

    /// Whether it matches all of `value`. Takes at most the product of both lengths in steps.
    pub fn matches(&self, value: &str) -> bool {
        matches_stars(&self.0, value)
    }
}

/// A list of patterns. It allows a value that one of them matches; an empty list allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patterns(Vec<Pattern>);

impl Patterns {
    /// Whether `value` is allowed.
    pub fn allows(&self, value: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| pattern.matches(value))
    }

    /// Whether a file is allowed, by its path without symbolic links. Links in the directories of a
    /// pattern are resolved as well, so that `/bin/*` allows `/usr/bin/ls` where `/bin` is a link.
    /// A pattern without a first directory, such as `*/ls`, is matched with the path as written.
    /// `scheme` precedes the paths in the patterns. It may read directories.
    pub(crate) fn allows_file(&self, scheme: &str, written: &Path, resolved: &Path) -> bool {
        let matches = |pattern: &Pattern, path: &Path| {
            path.to_str().is_some_and(|path| pattern.matches(&format!("{scheme}{path}")))
        };
        self.0.is_empty()
            || self.0.iter().any(|pattern| match pattern.resolved(scheme) {
                Some(pattern) => matches(&pattern, resolved),
                None => matches(pattern, written),
            })
    }

    /// Whether the list is empty, and so allows everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Patterns {
    /// Adds patterns.
    #[must_use]
    pub fn and(mut self, more: impl IntoIterator<Item = Pattern>) -> Self {
        self.0.extend(more);
        self
    }
}

impl Setting for Patterns {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        parse_list::<Pattern, _>(given)
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// Parses each text of a list; an error names the text.
pub(crate) fn parse_list<T, All>(given: &SettingValue) -> Result<All, String>
where
    T: FromStr<Err: fmt::Display>,
    All: FromIterator<T>,
{
    let parse = |text: &str| text.parse().map_err(|error| format!("`{text}`: {error}"));
    given.words()?.into_iter().map(parse).collect()
}

impl FromIterator<Pattern> for Patterns {
    fn from_iter<I: IntoIterator<Item = Pattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().expect("a pattern")
    }

    #[test]
    fn a_star_matches_any_characters_and_the_rest_literally() {
        let cases = [
            ("*", "", true),
            ("*", "/usr/bin/ls", true),
            ("/usr/bin/*", "/usr/bin/ls", true),
            ("/usr/bin/*", "/opt/usr/bin/ls", false),
            ("/usr/bin/ls", "/usr/bin/lsof", false),
            ("*/ls", "/usr/bin/ls", true),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "abcb", false),
            ("a**c", "ac", true),
            ("a.c", "abc", false),
            ("a?c", "abc", false),
            ("[ab]", "a", false),
            ("LS", "ls", false),
            ("*é", "café", true),
            ("a*", "", false),
        ];
        for (text, value, expected) in cases {
            assert_eq!(pattern(text).matches(value), expected, "`{text}` and `{value}`");
        }
    }

    #[test]
    fn matching_many_stars_is_not_exponential() {
        let text = "a*".repeat(200) + "b";
        assert!(!pattern(&text).matches(&"a".repeat(20_000)));
    }

    #[test]
    fn an_empty_list_of_patterns_allows_everything() {
        assert!(Patterns::default().allows("anything"));
        let some: Patterns = ["/bin/*", "/usr/bin/env"].map(pattern).into_iter().collect();
        assert!(some.allows("/bin/ls") && some.allows("/usr/bin/env"));
        assert!(!some.allows("/usr/bin/ls") && !some.allows(""));
    }

    #[test]
    fn links_are_resolved_in_paths_and_patterns() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("it is there");
        for name in ["real", "other"] {
            fs::create_dir(root.join(name)).expect("made");
            fs::write(root.join(name).join("file"), "").expect("written");
        }
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).expect("linked");
        let allows = |text: &str, file: &str| {
            let patterns: Patterns =
                [pattern(&text.replace("ROOT", &root.display().to_string()))].into_iter().collect();
            let path = root.join(file);
            patterns.allows_file("file:", &path, &path)
        };
        for text in [
            "file:ROOT/real/*",
            "file:ROOT/link/*",
            "file:ROOT/link/f*e",
            "file:ROOT/link/file",
            "file:ROOT/re*",
            "file:*",
            "*",
        ] {
            assert!(allows(text, "real/file"), "{text}");
        }
        for text in ["ROOT/real/*", "file:ROOT/other/*", "file:ROOT/link", "file:/no/such/*"] {
            assert!(!allows(text, "real/file"), "{text}");
        }
        assert!(!allows("file:ROOT/link/*", "other/file"));
        assert!(Patterns::default().allows_file("", &root, &root));
    }

    #[test]
    fn an_empty_pattern_is_refused() {
        assert_eq!("".parse::<Pattern>(), Err(EmptyPattern));
    }
}
