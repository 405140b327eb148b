//! Versions: a worker says which version of a kind it runs, and a job may require some of them.
//!
//! A [`Version`] is one to three numbers: `2`, `2.3`, `2.3.1`; missing numbers are 0. A [`VersionRequirement`] is a
//! range of versions, written as comparisons that must all hold: `>=2.3 <3`. A comparison applies to the numbers that
//! it names, so `=2.3` includes 2.3.7, and `>2.3` does not. Two requirements are equal if the same versions satisfy
//! them. Pre-releases (`2.3.0-rc1`) and build metadata are refused: they have no place in this order that everybody
//! would expect.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid, excerpt};
use crate::name::Name;

/// Maximum value of a number in a version.
pub const MAX_PART: u32 = 999_999_999;
/// Maximum length of the text of a version or requirement, in bytes.
pub const MAX_VERSION_TEXT: usize = 128;

/// A version of the code that runs a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    parts: [u32; 3],
}

impl Version {
    /// The smallest version.
    pub const ZERO: Self = Self { parts: [0; 3] };

    /// A version of three numbers; `None`: a number is too large.
    pub fn new(parts: [u32; 3]) -> Option<Self> {
        parts.iter().all(|part| *part <= MAX_PART).then_some(Self { parts })
    }

    /// Parses a version; an error names `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let invalid = |message| Invalid::new(Code::VersionInvalid, field, message);
        check_length(text).map_err(invalid)?;
        let (named, rest) = NamedVersion::take(text).map_err(|(at, why)| {
            let text = excerpt(text);
            invalid(format!("`{text}` is not a version such as `2.3.1`: {why}")).at(at)
        })?;
        if rest.is_empty() {
            return Ok(named.version);
        }
        let why = "use one to three numbers with dots between them, without a pre-release";
        let at = text.chars().count() - rest.chars().count();
        Err(invalid(format!("`{}` is not a version such as `2.3.1`: {why}", excerpt(text))).at(at))
    }

    /// The numbers.
    pub const fn parts(self) -> [u32; 3] {
        self.parts
    }

    /// The smallest version above all that have the same first `n` numbers; `None`: there is none.
    fn after(self, n: usize) -> Option<Self> {
        let mut parts = self.parts;
        parts.iter_mut().skip(n).for_each(|part| *part = 0);
        for part in parts.iter_mut().take(n).rev() {
            if *part < MAX_PART {
                *part += 1;
                return Some(Self { parts });
            }
            *part = 0;
        }
        None
    }

    /// How many numbers a text needs if missing ones are 0.
    fn shortest(self) -> usize {
        let [_, minor, patch] = self.parts;
        match (minor, patch) {
            (0, 0) => 1,
            (_, 0) => 2,
            _ => 3,
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>, n: usize) -> fmt::Result {
        for (nth, part) in self.parts.iter().take(n).enumerate() {
            let dot = if nth == 0 { "" } else { "." };
            write!(f, "{dot}{part}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 3)
    }
}

impl TryFrom<String> for Version {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse("version", &text)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

fn check_length(text: &str) -> Result<(), String> {
    match text.len() {
        n if n > MAX_VERSION_TEXT => {
            Err(format!("the text has {n} bytes, at most {MAX_VERSION_TEXT} are allowed"))
        }
        _ => Ok(()),
    }
}

/// A version, and how many of its numbers the text names.
struct NamedVersion {
    version: Version,
    named: usize,
}

impl NamedVersion {
    /// Takes a version from the beginning of a text. An error has its offset.
    fn take(text: &str) -> Result<(Self, &str), (usize, &'static str)> {
        let (mut parts, mut named, mut rest) = ([0; 3], 0, text);
        for part in &mut parts {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, behind) = rest.split_at(digits);
            let at = text.len() - rest.len();
            if number.is_empty() {
                return Err((at, "a number is missing"));
            }
            if digits > 1 && number.starts_with('0') {
                return Err((at, "a number has no leading zeros"));
            }
            let value = number.parse().ok().filter(|value| *value <= MAX_PART);
            *part = value.ok_or((at, "a number is at most 999999999"))?;
            (named, rest) = (named + 1, behind);
            match rest.strip_prefix('.') {
                Some(behind) if named < 3 => rest = behind,
                _ => break,
            }
        }
        Ok((Self { version: Version { parts }, named }, rest))
    }
}

/// The versions that may run a job: all from one on, below another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VersionRequirement {
    from: Version,
    below: Option<Version>,
}

/// Operators; a longer one comes before its prefix.
const OPERATORS: [&str; 5] = [">=", "<=", ">", "<", "="];

impl VersionRequirement {
    /// The versions from `from` on that are below `below`; `None`: there is none.
    pub fn between(from: Version, below: Option<Version>) -> Option<Self> {
        below.is_none_or(|below| from < below).then_some(Self { from, below })
    }

    /// Parses comparisons that must all hold, such as `>=2.3 <3`; an error names `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let invalid = |message| Invalid::new(Code::VersionRequirement, field, message);
        check_length(text).map_err(invalid)?;
        let refused = |at: usize, why: &str| {
            let text = excerpt(text);
            invalid(format!("`{text}` is not a requirement such as `>=2.3`: {why}")).at(at)
        };
        let (mut from, mut below) = (Some(Version::ZERO), None);
        let mut rest = text.trim_start_matches(' ');
        loop {
            // Everything before `rest` is ASCII, so this is an offset in characters.
            let at = |rest: &str| text.len() - rest.len();
            let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            let Some(operator) = operator else {
                return Err(refused(at(rest), "expected `>=`, `>`, `<=`, `<` or `=`"));
            };
            let number = rest.get(operator.len()..).unwrap_or_default().trim_start_matches(' ');
            let (named, behind) =
                NamedVersion::take(number).map_err(|(n, why)| refused(at(number) + n, why))?;
            let (least, most) = named.range(operator);
            // A comparison with no version above leaves none.
            from = from.zip(least).map(|(from, least)| from.max(least));
            below = [below, most].into_iter().flatten().min();
            rest = behind.trim_start_matches(' ');
            if rest.is_empty() {
                break;
            }
            if rest.len() == behind.len() {
                return Err(refused(at(rest), "expected a space or the end of the text"));
            }
        }
        let requirement = from.and_then(|from| Self::between(from, below));
        requirement.ok_or_else(|| refused(0, "no version can satisfy it"))
    }

    /// Whether a worker with this version may run the job.
    pub fn is_satisfied_by(&self, version: Version) -> bool {
        self.from <= version && self.below.is_none_or(|below| version < below)
    }

    /// The smallest version that satisfies it.
    pub const fn least(&self) -> Version {
        self.from
    }

    /// The smallest version above all that satisfy it.
    pub const fn below(&self) -> Option<Version> {
        self.below
    }
}

impl NamedVersion {
    /// The smallest version that satisfies the comparison (`None`: no version does), and the smallest above all that do.
    fn range(&self, operator: &str) -> (Option<Version>, Option<Version>) {
        let Self { version, named } = *self;
        match operator {
            ">=" => (Some(version), None),
            ">" => (version.after(named), None),
            "<" => (Some(Version::ZERO), Some(version)),
            "<=" => (Some(Version::ZERO), version.after(named)),
            _ => (Some(version), version.after(named)),
        }
    }
}

impl fmt::Display for VersionRequirement {
    /// The shortest text: `=2.3`, `<3`, `>=2.3 <3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.from;
        let is_exact = |n: &usize| self.below.is_some() && from.after(*n) == self.below;
        if let Some(n) = (from.shortest()..=3).find(is_exact) {
            f.write_str("=")?;
            return from.write(f, n);
        }
        if from != Version::ZERO || self.below.is_none() {
            f.write_str(">=")?;
            from.write(f, from.shortest())?;
        }
        if let Some(below) = self.below {
            f.write_str(if from == Version::ZERO { "<" } else { " <" })?;
            below.write(f, below.shortest())?;
        }
        Ok(())
    }
}

impl TryFrom<String> for VersionRequirement {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse("worker_version", &text)
    }
}

impl From<VersionRequirement> for String {
    fn from(requirement: VersionRequirement) -> Self {
        requirement.to_string()
    }
}

/// The version of each kind that a worker runs, as far as it names them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KindVersions(BTreeMap<Name, Version>);

impl KindVersions {
    /// Parses pairs of a kind and a version; an error names the kind, as in `versions.mail`.
    pub fn parse<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Invalid> {
        let pair = |(kind, version): (&str, &str)| {
            let name = Name::new("versions", kind)?;
            Ok((name, Version::parse(&format!("versions.{}", excerpt(kind)), version)?))
        };
        Ok(Self(pairs.into_iter().map(pair).collect::<Result<_, Invalid>>()?))
    }

    /// Whether no version is named.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many kinds have a version.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The kinds with their versions, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, Version)> {
        self.0.iter().map(|(kind, version)| (kind, *version))
    }

    /// The version of a kind.
    pub fn of(&self, kind: &Name) -> Option<Version> {
        self.0.get(kind).copied()
    }

    /// The versions of these kinds; `None`: of all kinds.
    pub fn among<'a>(&'a self, kinds: Option<&'a [Name]>) -> Vec<(&'a Name, Version)> {
        match kinds {
            _ if self.is_empty() => Vec::new(),
            None => self.iter().collect(),
            Some(kinds) => kinds.iter().filter_map(|kind| Some((kind, self.of(kind)?))).collect(),
        }
    }

    /// Whether these versions may run a job of this kind.
    pub fn satisfy(&self, kind: &Name, requirement: Option<&VersionRequirement>) -> bool {
        requirement.is_none_or(|requirement| {
            self.of(kind).is_some_and(|version| requirement.is_satisfied_by(version))
        })
    }
}

impl FromIterator<(Name, Version)> for KindVersions {
    fn from_iter<I: IntoIterator<Item = (Name, Version)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(text: &str) -> Version {
        Version::parse("version", text).expect("a version")
    }

    fn requirement(text: &str) -> VersionRequirement {
        VersionRequirement::parse("worker_version", text).expect("a requirement")
    }

    #[test]
    fn missing_numbers_of_a_version_are_zero() {
        for (text, full) in [("2", "2.0.0"), ("2.3", "2.3.0"), ("0", "0.0.0"), ("2.3.1", "2.3.1")] {
            assert_eq!(version(text).to_string(), full);
        }
        assert!(version("2.10") > version("2.9.99") && version("10") > version("9"));
        assert_eq!(version("999999999.999999999.999999999").parts(), [MAX_PART; 3]);
    }

    #[test]
    fn texts_that_are_no_versions_are_refused_by_field_and_offset() {
        let long = "1".repeat(129);
        let refused = [
            ("", Some(0)),
            ("v2", Some(0)),
            ("2.", Some(2)),
            (".2", Some(0)),
            ("2..3", Some(2)),
            ("2.03", Some(2)),
            ("2.3.1.4", Some(5)),
            ("2.3-rc1", Some(3)),
            ("2.3+build", Some(3)),
            ("2 ", Some(1)),
            (" 2", Some(0)),
            ("-2", Some(0)),
            ("2.é", Some(2)),
            ("2.1000000000", Some(2)),
            ("99999999999999999999", Some(0)),
            (&long, None),
        ];
        for (text, at) in refused {
            let fault = Version::parse("versions.mail", text).expect_err(text);
            assert_eq!((fault.code, fault.at), (Code::VersionInvalid, at), "{text}");
            assert_eq!(fault.field, "versions.mail");
        }
    }

    #[test]
    fn a_comparison_applies_to_the_numbers_that_it_names() {
        let satisfied = |text: &str, by: &str| requirement(text).is_satisfied_by(version(by));
        for (text, yes, no) in [
            (">=2.3", ["2.3", "2.3.1", "3"], ["2.2.9", "2", "0"]),
            (">2.3", ["2.4", "3", "2.4.1"], ["2.3", "2.3.9", "1"]),
            ("<3", ["2.9.9", "0", "2"], ["3", "3.0.1", "4"]),
            ("<=2.3", ["2.3.9", "2.3", "1"], ["2.4", "3", "2.4.1"]),
            ("=2.3", ["2.3", "2.3.9", "2.3.1"], ["2.4", "2.2.9", "3"]),
            (">=2.3 <3", ["2.3", "2.9", "2.99.99"], ["3", "2.2", "3.1"]),
        ] {
            assert!(yes.iter().all(|by| satisfied(text, by)), "{text}");
            assert!(!no.iter().any(|by| satisfied(text, by)), "{text}");
        }
    }

    #[test]
    fn equal_requirements_have_one_text() {
        for (text, canonical) in [
            (" >= 2.3  < 3.0 ", ">=2.3 <3"),
            (">=2 <3", "=2"),
            (">2.2", ">=2.3"),
            ("<=2.3", "<2.4"),
            ("=2.3.1", "=2.3.1"),
            ("=2.0", "=2.0"),
            ("=2.0.0", "=2.0.0"),
            (">=0", ">=0"),
            (">=1 >=2 <9 <8", ">=2 <8"),
            ("=0", "=0"),
            ("<1", "=0"),
            ("=999999999", ">=999999999"),
            (">2.3.999999999", ">=2.4"),
            ("<=999999999.999999999", ">=0"),
        ] {
            assert_eq!(requirement(text).to_string(), canonical, "{text}");
            assert_eq!(requirement(canonical), requirement(text), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_requirements_are_refused_by_field_and_offset() {
        let long = ">=1 ".repeat(33);
        let refused = [
            ("", Some(0)),
            ("  ", Some(2)),
            ("2.3", Some(0)),
            ("^2", Some(0)),
            ("==2", Some(1)),
            (">=", Some(2)),
            (">=2.x", Some(4)),
            (">=2<3", Some(3)),
            (">=2,<3", Some(3)),
            (">=2 3", Some(4)),
            (">=2.3-rc1", Some(5)),
            (">=2 é", Some(4)),
            (">=3 <3", Some(0)),
            (">999999999", Some(0)),
            ("<0", Some(0)),
            (&long, None),
        ];
        for (text, at) in refused {
            let fault = VersionRequirement::parse("worker_version", text).expect_err(text);
            assert_eq!((fault.code, fault.at), (Code::VersionRequirement, at), "{text}");
            assert_eq!(fault.field, "worker_version");
        }
    }

    #[test]
    fn a_kind_without_a_version_satisfies_no_requirement() {
        let versions = KindVersions::parse([("mail", "2.3")]).expect("versions");
        let name = |text| Name::new("kind", text).expect("a name");
        let least = requirement(">=2.3");
        assert!(versions.satisfy(&name("mail"), Some(&least)));
        assert!(!versions.satisfy(&name("mail"), Some(&requirement(">2.3"))));
        assert!(!versions.satisfy(&name("other"), Some(&least)));
        assert!(versions.satisfy(&name("other"), None));
        let fault = KindVersions::parse([("mail", "new")]).expect_err("no version");
        assert_eq!((fault.code, fault.field.as_str()), (Code::VersionInvalid, "versions.mail"));
    }

    fn part() -> impl Strategy<Value = u32> {
        prop_oneof![4 => 0u32..4, 1 => MAX_PART - 2..=MAX_PART]
    }

    fn any_version() -> impl Strategy<Value = Version> {
        proptest::array::uniform3(part()).prop_map(|parts| Version { parts })
    }

    /// Whether a comparison holds, by the numbers that it names.
    fn holds(operator: &str, version: Version, named: &[u32]) -> bool {
        let own = &version.parts()[..named.len()];
        match operator {
            ">=" => own >= named,
            ">" => own > named,
            "<" => own < named,
            "<=" => own <= named,
            _ => own == named,
        }
    }

    proptest! {
        #[test]
        fn a_requirement_is_the_conjunction_of_its_comparisons(
            comparisons in proptest::collection::vec(
                (0..OPERATORS.len(), proptest::collection::vec(part(), 1..=3)), 1..4),
            versions in proptest::collection::vec(any_version(), 20),
        ) {
            let texts: Vec<String> = comparisons.iter().map(|(operator, parts)| {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                format!("{}{}", OPERATORS[*operator], parts.join("."))
            }).collect();
            let parsed = VersionRequirement::parse("worker_version", &texts.join(" "));
            for version in versions {
                let all = comparisons.iter().all(|(operator, parts)| holds(OPERATORS[*operator], version, parts));
                let is_satisfied = parsed.as_ref().is_ok_and(|parsed| parsed.is_satisfied_by(version));
                prop_assert_eq!(is_satisfied, all, "{} {:?}", version, texts);
            }
            if let Ok(parsed) = parsed {
                prop_assert_eq!(requirement(&parsed.to_string()), parsed);
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[><=0-9. éx-]{0,20}") {
            if let Ok(parsed) = Version::parse("version", &text) {
                prop_assert_eq!(version(&parsed.to_string()), parsed);
            }
            if let Ok(parsed) = VersionRequirement::parse("version", &text) {
                prop_assert_eq!(requirement(&parsed.to_string()), parsed);
            }
        }
    }
}
