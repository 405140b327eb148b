//! Parser of filters: fields and operators. The grammar is in the documentation of [`super`].

use super::term::{FilterTerm, FilterTest, NumberField, TimeField};
use super::{MAX_FILTER, MAX_TERMS, SearchFilter};
use crate::code::{Code, Invalid, excerpt};
use crate::limit::{Comparison, JobField, read_quoted};

/// The names of fields, in messages.
const FIELDS: &str = "`state`, `queue`, `kind`, `worker`, `label`, `id`, `parent`, `replays`, `group`, `why`, `error`, \
                      `payload.…`, `age`, `pushed`, `due`, `started`, `ended`, `attempt`, `crashes` or `priority`";

/// Parses a whole filter.
pub(super) fn parse(field: &str, text: &str) -> Result<SearchFilter, Invalid> {
    let mut reader = FilterReader { field, text, at: 0, values: 0 };
    if text.len() > MAX_FILTER {
        let message = format!("{} bytes, at most {MAX_FILTER} are allowed", text.len());
        let end = text.floor_char_boundary(MAX_FILTER);
        return Err(reader.fault(Code::FilterTooLong, end, message));
    }
    let mut terms = Vec::new();
    loop {
        reader.skip_spaces();
        if reader.rest().is_empty() {
            break;
        }
        if terms.len() == MAX_TERMS {
            let message = format!("more than {MAX_TERMS} terms");
            return Err(reader.fault(Code::FilterTooLong, reader.at, message));
        }
        terms.push(reader.term()?);
    }
    let filter = SearchFilter { terms };
    match filter.to_string().len() {
        0..=MAX_FILTER => Ok(filter),
        n => {
            let message =
                format!("printed, the filter has {n} bytes, at most {MAX_FILTER} are allowed");
            Err(reader.fault(Code::FilterTooLong, text.len(), message))
        }
    }
}

/// Reads the text from left to right.
pub(super) struct FilterReader<'a> {
    pub(super) field: &'a str,
    pub(super) text: &'a str,
    /// Byte offset of what is read next.
    pub(super) at: usize,
    /// Number of values so far.
    pub(super) values: usize,
}

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterOperator {
    Equal,
    Unequal,
    Contains,
    Order(Comparison),
}

const OPERATORS: [(&str, FilterOperator); 8] = [
    ("!=", FilterOperator::Unequal),
    ("<=", FilterOperator::Order(Comparison::AtMost)),
    (">=", FilterOperator::Order(Comparison::AtLeast)),
    (":", FilterOperator::Equal),
    ("=", FilterOperator::Equal),
    ("~", FilterOperator::Contains),
    ("<", FilterOperator::Order(Comparison::Less)),
    (">", FilterOperator::Order(Comparison::More)),
];

impl<'a> FilterReader<'a> {
    /// An error at byte offset `at`, converted to characters.
    pub(super) fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Invalid {
        Invalid::new(code, self.field, message).at(self.text[..at].chars().count())
    }

    /// A syntax error at byte offset `at`; the message ends with what is there.
    pub(super) fn expected(&self, at: usize, expected: &str) -> Invalid {
        let found = self.text[at..].split(char::is_whitespace).next().unwrap_or_default();
        let found = match (found, self.text[at..].is_empty()) {
            (_, true) => "the end".to_owned(),
            ("", false) => "a space".to_owned(),
            (found, false) => format!("`{}`", excerpt(found)),
        };
        let message = format!("expected {expected}, found {found}");
        self.fault(Code::FilterSyntax, at, message)
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    pub(super) fn take(&mut self, symbol: &str) -> bool {
        let is_next = self.rest().starts_with(symbol);
        if is_next {
            self.at += symbol.len();
        }
        is_next
    }

    fn term(&mut self) -> Result<FilterTerm, Invalid> {
        let negated = self.take("-");
        let start = self.at;
        let letters = |rest: &str| rest.bytes().take_while(u8::is_ascii_lowercase).count();
        self.at += letters(self.rest());
        let word = &self.text[start..self.at];
        let (test, negates) = match word {
            "payload" => self.payload(start)?,
            "error" => self.error()?,
            "age" => {
                let comparison = self.order(word)?;
                (FilterTest::Age(comparison, self.span()?), false)
            }
            _ => match (time_field(word), number_field(word)) {
                (Some(time), _) => {
                    let comparison = self.order(word)?;
                    (FilterTest::Time(time, comparison, self.instant()?), false)
                }
                (_, Some(number)) => self.number_term(word, number)?,
                _ => self.list(word, start)?,
            },
        };
        match self.rest().chars().next() {
            Some(c) if !c.is_whitespace() => Err(self.expected(self.at, "a space")),
            _ => Ok(FilterTerm { negated: negated != negates, test }),
        }
    }

    /// A field that is compared with a list of words, names or ids.
    fn list(&mut self, word: &str, start: usize) -> Result<(FilterTest, bool), Invalid> {
        if !LISTS.contains(&word) {
            return Err(self.expected(start, &format!("a field ({FIELDS})")));
        }
        let negates = self.equality(word)?;
        let test = match word {
            "state" => FilterTest::State(self.list_of(Self::state)?),
            "queue" => FilterTest::Queue(self.list_of(Self::name)?),
            "kind" => FilterTest::Kind(self.list_of(Self::name)?),
            "worker" => FilterTest::Worker(self.list_of(Self::name)?),
            "label" => FilterTest::Label(self.list_of(Self::label)?),
            "id" => FilterTest::Id(self.list_of(Self::job_id)?),
            "parent" => FilterTest::Parent(self.list_of(Self::job_id)?),
            "replays" => FilterTest::Replays(self.list_of(Self::job_id)?),
            "group" => FilterTest::Group(self.list_of(Self::group_id)?),
            _ => FilterTest::Why(self.list_of(Self::reason)?),
        };
        Ok((test, negates))
    }

    fn error(&mut self) -> Result<(FilterTest, bool), Invalid> {
        match self.operator()? {
            (_, FilterOperator::Contains) => {
                Ok((FilterTest::ErrorText(self.list_of(Self::text)?), false))
            }
            (_, operator @ (FilterOperator::Equal | FilterOperator::Unequal)) => {
                let fingerprints = self.list_of(Self::fingerprint)?;
                Ok((FilterTest::Error(fingerprints), operator == FilterOperator::Unequal))
            }
            (at, FilterOperator::Order(_)) => {
                Err(self.expected(at, "`~` and a text, or `=` and a fingerprint"))
            }
        }
    }

    fn payload(&mut self, start: usize) -> Result<(FilterTest, bool), Invalid> {
        let field = self.path(start)?;
        Ok(match self.operator()? {
            (_, FilterOperator::Contains) => {
                (FilterTest::PayloadText(field, self.list_of(Self::text)?), false)
            }
            (_, FilterOperator::Order(comparison)) => {
                (FilterTest::PayloadOrder(field, comparison, self.number()?), false)
            }
            (_, operator) => {
                let values = self.list_of(Self::payload_value)?;
                (FilterTest::Payload(field, values), operator == FilterOperator::Unequal)
            }
        })
    }

    /// The path of a payload, which ends before the operator, and is parsed as in a limit.
    fn path(&mut self, start: usize) -> Result<JobField, Invalid> {
        while let Some(c) = self.rest().chars().next() {
            if c == '"' {
                let quoted = read_quoted(self.text, self.at);
                let (_, end) =
                    quoted.map_err(|(at, why)| self.fault(Code::FilterSyntax, at, why))?;
                self.at = end;
            } else if c.is_whitespace() || ":=!~<>,()".contains(c) {
                break;
            } else {
                self.at += c.len_utf8();
            }
        }
        JobField::parse(&self.text[start..self.at]).map_err(|mut invalid| {
            let before = self.text[..start].chars().count();
            invalid.at = Some(before + invalid.at.unwrap_or_default());
            invalid.field = self.field.to_owned();
            invalid.code = match invalid.code {
                Code::LimitTooDeep => Code::FilterTooLong,
                Code::LimitRange => Code::FilterRange,
                _ => Code::FilterSyntax,
            };
            invalid
        })
    }

    fn number_term(
        &mut self,
        word: &str,
        field: NumberField,
    ) -> Result<(FilterTest, bool), Invalid> {
        match self.operator()? {
            (_, FilterOperator::Order(comparison)) => {
                Ok((FilterTest::NumberOrder(field, comparison, self.whole()?), false))
            }
            (at, FilterOperator::Contains) => {
                Err(self.expected(at, &format!("`=`, `<`, `<=`, `>` or `>=` after `{word}`")))
            }
            (_, operator) => {
                let numbers = self.list_of(Self::whole)?;
                Ok((FilterTest::Number(field, numbers), operator == FilterOperator::Unequal))
            }
        }
    }

    /// The operator, and its byte offset.
    fn operator(&mut self) -> Result<(usize, FilterOperator), Invalid> {
        let at = self.at;
        let found = OPERATORS.iter().find(|(symbol, _)| self.take(symbol));
        let (_, operator) = found.ok_or_else(|| {
            self.expected(at, "an operator (`:`, `=`, `!=`, `~`, `<`, `<=`, `>` or `>=`)")
        })?;
        Ok((at, *operator))
    }

    /// An operator that tests for equality. Returns whether it negates the test.
    fn equality(&mut self, word: &str) -> Result<bool, Invalid> {
        match self.operator()? {
            (_, FilterOperator::Equal) => Ok(false),
            (_, FilterOperator::Unequal) => Ok(true),
            (at, _) => Err(self.expected(at, &format!("`:` after `{word}`"))),
        }
    }

    fn order(&mut self, word: &str) -> Result<Comparison, Invalid> {
        match self.operator()? {
            (_, FilterOperator::Order(comparison)) => Ok(comparison),
            (at, _) => Err(self.expected(at, &format!("`<`, `<=`, `>` or `>=` after `{word}`"))),
        }
    }
}

const LISTS: [&str; 10] =
    ["state", "queue", "kind", "worker", "label", "id", "parent", "replays", "group", "why"];

fn time_field(word: &str) -> Option<TimeField> {
    match word {
        "pushed" | "created" => Some(TimeField::Pushed),
        "due" => Some(TimeField::Due),
        "started" => Some(TimeField::Started),
        "ended" => Some(TimeField::Ended),
        _ => None,
    }
}

fn number_field(word: &str) -> Option<NumberField> {
    match word {
        "attempt" => Some(NumberField::Attempt),
        "crashes" => Some(NumberField::Crashes),
        "priority" => Some(NumberField::Priority),
        _ => None,
    }
}
