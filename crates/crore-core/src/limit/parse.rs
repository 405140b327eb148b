//! Parser of limits: fields and clauses. The grammar is in the documentation of [`super`].

use super::Limit;
use super::bucket::{Rate, RatePart};
use super::field::{JobField, Path, PathStep};
use super::lex::{Lexer, LimitToken};
use super::matcher::Matcher;
use super::walk::MAX_LEVELS;
use crate::code::{Code, Invalid};
use crate::time::Span;

/// Parses a whole limit.
pub(super) fn parse(text: &str) -> Result<Limit, Invalid> {
    let mut parser = Parser::new(text)?;
    let matcher =
        if parser.take_word("where")? { Matcher(Some(parser.any()?)) } else { Matcher::default() };
    parser.clauses(matcher)
}

/// Parses a single field.
pub(super) fn parse_field(text: &str) -> Result<JobField, Invalid> {
    let mut parser = Parser::new(text)?;
    let field = parser.field("`kind` or `payload`")?;
    if parser.token == LimitToken::End { Ok(field) } else { Err(parser.unexpected("the end")) }
}

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    /// The current token, and its byte offset.
    pub(super) token: LimitToken<'a>,
    pub(super) start: usize,
    /// Current nesting depth of the condition.
    pub(super) nesting: usize,
}

/// A parsed value and its byte offset.
struct Positioned<T> {
    value: T,
    at: usize,
}

/// The clauses parsed so far.
#[derive(Default)]
struct Clauses {
    rate: Option<(Positioned<u32>, Positioned<Span>)>,
    burst: Option<Positioned<u32>>,
    cost: Option<Positioned<JobField>>,
    concurrency: Option<u32>,
    per: Option<JobField>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, Invalid> {
        let mut lexer = Lexer::new(text)?;
        let (start, token) = lexer.token()?;
        Ok(Self { lexer, token, start, nesting: 0 })
    }

    pub(super) fn advance(&mut self) -> Result<(), Invalid> {
        (self.start, self.token) = self.lexer.token()?;
        Ok(())
    }

    pub(super) fn take_word(&mut self, word: &str) -> Result<bool, Invalid> {
        let matches = self.token == LimitToken::Word(word);
        if matches {
            self.advance()?;
        }
        Ok(matches)
    }

    pub(super) fn take_symbol(&mut self, symbol: &str) -> Result<bool, Invalid> {
        let matches = self.token == LimitToken::Symbol(symbol);
        if matches {
            self.advance()?;
        }
        Ok(matches)
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str, expected: &str) -> Result<(), Invalid> {
        if self.take_symbol(symbol)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// A syntax error at the current token.
    pub(super) fn unexpected(&self, expected: &str) -> Invalid {
        let message = format!("expected {expected}, found {}", self.lexer.found(self.start));
        self.lexer.fault(Code::LimitSyntax, self.start, message)
    }

    pub(super) fn out_of_range(&self, message: impl Into<String>) -> Invalid {
        self.lexer.fault(Code::LimitRange, self.start, message)
    }
}

/// Fields.
impl Parser<'_> {
    pub(super) fn field(&mut self, expected: &str) -> Result<JobField, Invalid> {
        let field = match self.token {
            LimitToken::Word("kind") => JobField::Kind,
            LimitToken::Word("queue") => JobField::Queue,
            LimitToken::Word("payload") => {
                self.advance()?;
                return self.path();
            }
            _ => return Err(self.unexpected(expected)),
        };
        self.advance()?;
        Ok(field)
    }

    fn path(&mut self) -> Result<JobField, Invalid> {
        let mut steps = Vec::new();
        loop {
            let at = self.start;
            if self.take_symbol(".")? {
                steps.push(PathStep::Name(self.name()?));
            } else if self.take_symbol("[")? {
                let index = self.count("an index")?.value;
                self.expect_symbol("]", "`]`")?;
                steps.push(PathStep::Index(index));
            } else if steps.is_empty() {
                return Err(self.unexpected("`.` and a name, or `[` and an index"));
            } else {
                return Ok(JobField::Payload(Path(steps)));
            }
            if steps.len() > MAX_LEVELS {
                let message = format!("a payload field has at most {MAX_LEVELS} steps");
                return Err(self.lexer.fault(Code::LimitTooDeep, at, message));
            }
        }
    }

    fn name(&mut self) -> Result<Box<str>, Invalid> {
        let name = match &mut self.token {
            LimitToken::Word(word) => (*word).into(),
            LimitToken::Text(text) => std::mem::take(text),
            _ => return Err(self.unexpected("a name, in quotes unless it is a plain word")),
        };
        self.advance()?;
        Ok(name)
    }
}

/// Clauses.
impl Parser<'_> {
    fn clauses(mut self, matcher: Matcher) -> Result<Limit, Invalid> {
        let mut clauses = Clauses::default();
        while self.token != LimitToken::End {
            self.clause(&mut clauses, &matcher)?;
        }
        if clauses.rate.is_none() && clauses.concurrency.is_none() {
            return Err(self.unexpected("`rate` or `concurrency`"));
        }
        let rate = self.rate(&clauses)?;
        let Clauses { cost, concurrency, per, .. } = clauses;
        let cost = cost.map(|cost| cost.value);
        let limit = Limit { matcher, rate, cost, concurrency, per };
        limit.check().map(|()| limit)
    }

    fn clause(&mut self, clauses: &mut Clauses, matcher: &Matcher) -> Result<(), Invalid> {
        let LimitToken::Word(word) = self.token else {
            return Err(self.no_clause(clauses, matcher));
        };
        let is_repeated = match word {
            "rate" => clauses.rate.is_some(),
            "burst" => clauses.burst.is_some(),
            "cost" => clauses.cost.is_some(),
            "concurrency" => clauses.concurrency.is_some(),
            "per" => clauses.per.is_some(),
            _ => return Err(self.no_clause(clauses, matcher)),
        };
        if is_repeated {
            let message = format!("expected `{word}` once, found it again");
            return Err(self.lexer.fault(Code::LimitSyntax, self.start, message));
        }
        self.advance()?;
        match word {
            "rate" => clauses.rate = Some(self.rate_clause()?),
            "burst" => clauses.burst = Some(self.count("a whole number")?),
            "cost" => clauses.cost = Some(self.cost_clause()?),
            "concurrency" => clauses.concurrency = Some(self.count("a whole number")?.value),
            _ => clauses.per = Some(self.field("a field (`kind`, `queue` or `payload`)")?),
        }
        Ok(())
    }

    /// A syntax error where a clause was expected; the message lists what is allowed here.
    fn no_clause(&self, clauses: &Clauses, matcher: &Matcher) -> Invalid {
        let first = clauses.rate.is_none()
            && clauses.burst.is_none()
            && clauses.cost.is_none()
            && clauses.concurrency.is_none()
            && clauses.per.is_none();
        let before = match (first, &matcher.0) {
            (true, None) => "`where`, ",
            (true, Some(_)) => "`and`, `or`, ",
            (false, _) => "",
        };
        self.unexpected(&format!("{before}`rate`, `burst`, `cost`, `concurrency` or `per`"))
    }

    fn rate_clause(&mut self) -> Result<(Positioned<u32>, Positioned<Span>), Invalid> {
        let count = self.count("a whole number")?;
        self.expect_symbol("/", "`/` and a duration")?;
        Ok((count, self.span()?))
    }

    fn cost_clause(&mut self) -> Result<Positioned<JobField>, Invalid> {
        let at = self.start;
        if self.token != LimitToken::Word("payload") {
            return Err(self.unexpected("a field of the payload, such as `payload.tokens`"));
        }
        Ok(Positioned { value: self.field("`payload`")?, at })
    }

    fn rate(&self, clauses: &Clauses) -> Result<Option<Rate>, Invalid> {
        if let (None, Some(cost)) = (&clauses.rate, &clauses.cost) {
            let message = "expected a `rate` for this cost, found none";
            return Err(self.lexer.fault(Code::LimitSyntax, cost.at, message));
        }
        let (count, every) = match (&clauses.rate, &clauses.burst) {
            (Some((count, every)), _) => (count, every),
            (None, None) => return Ok(None),
            (None, Some(burst)) => {
                let message = "expected a `rate` for this burst, found none";
                return Err(self.lexer.fault(Code::LimitSyntax, burst.at, message));
            }
        };
        let burst = clauses.burst.as_ref().unwrap_or(count);
        let rate = Rate { count: count.value, every: every.value, burst: burst.value };
        match rate.fault() {
            None => Ok(Some(rate)),
            Some((part, message)) => {
                let at = match part {
                    RatePart::Count => count.at,
                    RatePart::Every => every.at,
                    RatePart::Burst => burst.at,
                };
                Err(self.lexer.fault(Code::LimitRange, at, message))
            }
        }
    }

    fn count(&mut self, expected: &str) -> Result<Positioned<u32>, Invalid> {
        let at = self.start;
        let value = match self.token {
            LimitToken::Number(source) if source.bytes().all(|b| b.is_ascii_digit()) => {
                source.parse::<u32>().map_err(|_| {
                    let found = self.lexer.found(self.start);
                    self.out_of_range(format!("{found} is above {}", u32::MAX))
                })?
            }
            _ => return Err(self.unexpected(expected)),
        };
        self.advance()?;
        Ok(Positioned { value, at })
    }

    /// A duration: a whole number and a unit; a unit alone counts as one.
    fn span(&mut self) -> Result<Positioned<Span>, Invalid> {
        let at = self.start;
        let expected = "a duration such as `500ms`, `1s`, `1m`, `1h` or `1d`";
        let (digits, unit) = match self.token {
            LimitToken::Word(unit) => ("1", unit),
            LimitToken::Number(source) => {
                source.split_at(source.bytes().take_while(u8::is_ascii_digit).count())
            }
            _ => return Err(self.unexpected(expected)),
        };
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let millis = match unit {
            Some((_, millis)) if !digits.is_empty() => *millis,
            _ => return Err(self.unexpected(expected)),
        };
        let value = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(millis));
        let value = value.ok_or_else(|| self.out_of_range("the duration is too long"))?;
        self.advance()?;
        Ok(Positioned { value: Span::from_millis(value), at })
    }
}

/// Units of durations, longest first, in milliseconds.
pub(super) const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
