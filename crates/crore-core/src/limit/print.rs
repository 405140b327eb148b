//! Prints limits. The output parses to the same limit and has no redundant parentheses, so it never nests
//! deeper than the text it was parsed from.

use std::fmt::{self, Display, Formatter, Write};

use super::Limit;
use super::bucket::Rate;
use super::field::{JobField, PathStep, is_bare};
use super::matcher::{Comparison, Condition, Matcher, Test};
use super::parse::UNITS;
use super::scalar::Literal;
use crate::time::Span;

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if self.matcher != Matcher::default() {
            write!(f, "where {}", self.matcher)?;
            gap = " ";
        }
        if let Some(rate) = &self.rate {
            write!(f, "{gap}{rate}")?;
            gap = " ";
        }
        if let Some(cost) = &self.cost {
            write!(f, "{gap}cost {cost}")?;
            gap = " ";
        }
        if let Some(concurrency) = self.concurrency {
            write!(f, "{gap}concurrency {concurrency}")?;
            gap = " ";
        }
        match &self.per {
            Some(field) => write!(f, "{gap}per {field}"),
            None => Ok(()),
        }
    }
}

impl Display for Matcher {
    /// The condition; empty if every job matches.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |condition| write!(f, "{condition}"))
    }
}

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "rate {}/{}", self.count, RatePeriodText(self.every))?;
        if self.burst != self.count {
            write!(f, " burst {}", self.burst)?;
        }
        Ok(())
    }
}

/// Writes a span in the longest unit that divides it.
struct RatePeriodText(Span);

impl Display for RatePeriodText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let (unit, length) = UNITS
            .into_iter()
            .find(|(_, length)| millis >= *length && millis.is_multiple_of(*length))
            .unwrap_or(("ms", 1));
        write!(f, "{}{unit}", millis / length)
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test(field, test) => write!(f, "{field} {test}"),
            Self::Any(parts) => join(f, parts, " or ", |part| matches!(part, Self::Any(_))),
            Self::All(parts) => {
                join(f, parts, " and ", |part| matches!(part, Self::Any(_) | Self::All(_)))
            }
            Self::Not(inner) if matches!(**inner, Self::Any(_) | Self::All(_)) => {
                write!(f, "not ({inner})")
            }
            Self::Not(inner) => write!(f, "not {inner}"),
        }
    }
}

/// Prints `parts` separated by `word`, with parentheses around the parts that bind loosely.
fn join(
    f: &mut Formatter<'_>,
    parts: &[Condition],
    word: &str,
    loose: fn(&Condition) -> bool,
) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(word)?;
        }
        if loose(part) {
            write!(f, "({part})")?;
        } else {
            write!(f, "{part}")?;
        }
    }
    Ok(())
}

impl Display for Test {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(literal) => write!(f, "= {literal}"),
            Self::Unequal(literal) => write!(f, "!= {literal}"),
            Self::Compare(comparison, number) => write!(f, "{comparison} {}", number.literal()),
            Self::Prefix(prefix) => write!(f, "prefix {}", Quoted(prefix)),
            Self::In(set) => {
                f.write_str("in (")?;
                for (at, literal) in set.iter().enumerate() {
                    write!(f, "{}{literal}", if at > 0 { ", " } else { "" })?;
                }
                f.write_char(')')
            }
        }
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
        })
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Number(number) => f.write_str(&number.literal()),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
        }
    }
}

impl Display for JobField {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let path = match self {
            Self::Kind => return f.write_str("kind"),
            Self::Queue => return f.write_str("queue"),
            Self::Payload(path) => path,
        };
        f.write_str("payload")?;
        path.0.iter().try_for_each(|step| match step {
            PathStep::Name(name) if is_bare(name) => write!(f, ".{name}"),
            PathStep::Name(name) => write!(f, ".{}", Quoted(name)),
            PathStep::Index(index) => write!(f, "[{index}]"),
        })
    }
}

/// A text in quotes, with control characters escaped.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            '\n' => f.write_str("\\n"),
            '\r' => f.write_str("\\r"),
            '\t' => f.write_str("\\t"),
            c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c)),
            c => f.write_char(c),
        })?;
        f.write_char('"')
    }
}
