//! From text to limit: fields and clauses. The grammar stands at the top of [`super`].

use super::Limit;
use super::bucket::{Part, Rate};
use super::field::{Field, Path, Step};
use super::lex::{Lexer, Token};
use super::matcher::Matcher;
use super::walk::MAX_LEVELS;
use crate::code::{Code, Invalid};
use crate::time::Span;

/// Reads a whole limit.
pub(super) fn parse(text: &str) -> Result<Limit, Invalid> {
    let mut parser = Parser::new(text)?;
    let matcher =
        if parser.take_word("where")? { Matcher(Some(parser.any()?)) } else { Matcher::default() };
    parser.clauses(matcher)
}

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    /// The token that is looked at, and the byte at which it begins.
    pub(super) token: Token<'a>,
    pub(super) start: usize,
    /// How many levels of the condition are open.
    pub(super) nesting: usize,
}

/// Something that was read, and the byte at which it began.
struct Placed<T> {
    value: T,
    at: usize,
}

/// The clauses that were read so far.
#[derive(Default)]
struct Clauses {
    rate: Option<(Placed<u32>, Placed<Span>)>,
    burst: Option<Placed<u32>>,
    concurrency: Option<u32>,
    per: Option<Field>,
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
        let there = self.token == Token::Word(word);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(super) fn take_symbol(&mut self, symbol: &str) -> Result<bool, Invalid> {
        let there = self.token == Token::Symbol(symbol);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str, expected: &str) -> Result<(), Invalid> {
        if self.take_symbol(symbol)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// The error that something else should stand where the current token is.
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
    pub(super) fn field(&mut self, expected: &str) -> Result<Field, Invalid> {
        let field = match self.token {
            Token::Word("kind") => Field::Kind,
            Token::Word("queue") => Field::Queue,
            Token::Word("payload") => {
                self.advance()?;
                return self.path();
            }
            _ => return Err(self.unexpected(expected)),
        };
        self.advance()?;
        Ok(field)
    }

    fn path(&mut self) -> Result<Field, Invalid> {
        let mut steps = Vec::new();
        loop {
            let at = self.start;
            if self.take_symbol(".")? {
                steps.push(Step::Name(self.name()?));
            } else if self.take_symbol("[")? {
                let index = self.count("an index")?.value;
                self.expect_symbol("]", "`]`")?;
                steps.push(Step::Index(index));
            } else if steps.is_empty() {
                return Err(self.unexpected("`.` and a name, or `[` and an index"));
            } else {
                return Ok(Field::Payload(Path(steps)));
            }
            if steps.len() > MAX_LEVELS {
                let message = format!("a payload field has at most {MAX_LEVELS} steps");
                return Err(self.lexer.fault(Code::LimitTooDeep, at, message));
            }
        }
    }

    fn name(&mut self) -> Result<Box<str>, Invalid> {
        let name = match &mut self.token {
            Token::Word(word) => (*word).into(),
            Token::Text(text) => std::mem::take(text),
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
        while self.token != Token::End {
            self.clause(&mut clauses, &matcher)?;
        }
        if clauses.rate.is_none() && clauses.concurrency.is_none() {
            return Err(self.unexpected("`rate` or `concurrency`"));
        }
        let rate = self.rate(&clauses)?;
        let limit = Limit { matcher, rate, concurrency: clauses.concurrency, per: clauses.per };
        limit.check().map(|()| limit)
    }

    fn clause(&mut self, clauses: &mut Clauses, matcher: &Matcher) -> Result<(), Invalid> {
        let Token::Word(word) = self.token else { return Err(self.no_clause(clauses, matcher)) };
        let twice = match word {
            "rate" => clauses.rate.is_some(),
            "burst" => clauses.burst.is_some(),
            "concurrency" => clauses.concurrency.is_some(),
            "per" => clauses.per.is_some(),
            _ => return Err(self.no_clause(clauses, matcher)),
        };
        if twice {
            let message = format!("expected `{word}` once, found it again");
            return Err(self.lexer.fault(Code::LimitSyntax, self.start, message));
        }
        self.advance()?;
        match word {
            "rate" => clauses.rate = Some(self.pace()?),
            "burst" => clauses.burst = Some(self.count("a whole number")?),
            "concurrency" => clauses.concurrency = Some(self.count("a whole number")?.value),
            _ => clauses.per = Some(self.field("a field (`kind`, `queue` or `payload`)")?),
        }
        Ok(())
    }

    /// The error that no clause begins here; it names what else might have stood here.
    fn no_clause(&self, clauses: &Clauses, matcher: &Matcher) -> Invalid {
        let first = clauses.rate.is_none()
            && clauses.burst.is_none()
            && clauses.concurrency.is_none()
            && clauses.per.is_none();
        let before = match (first, &matcher.0) {
            (true, None) => "`where`, ",
            (true, Some(_)) => "`and`, `or`, ",
            (false, _) => "",
        };
        self.unexpected(&format!("{before}`rate`, `burst`, `concurrency` or `per`"))
    }

    fn pace(&mut self) -> Result<(Placed<u32>, Placed<Span>), Invalid> {
        let count = self.count("a whole number")?;
        self.expect_symbol("/", "`/` and a duration")?;
        Ok((count, self.span()?))
    }

    fn rate(&self, clauses: &Clauses) -> Result<Option<Rate>, Invalid> {
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
                    Part::Count => count.at,
                    Part::Every => every.at,
                    Part::Burst => burst.at,
                };
                Err(self.lexer.fault(Code::LimitRange, at, message))
            }
        }
    }

    fn count(&mut self, expected: &str) -> Result<Placed<u32>, Invalid> {
        let at = self.start;
        let value = match self.token {
            Token::Number(source) if source.bytes().all(|b| b.is_ascii_digit()) => {
                source.parse::<u32>().map_err(|_| {
                    let found = self.lexer.found(self.start);
                    self.out_of_range(format!("{found} is above {}", u32::MAX))
                })?
            }
            _ => return Err(self.unexpected(expected)),
        };
        self.advance()?;
        Ok(Placed { value, at })
    }

    /// A duration: a whole number and a unit, or a unit alone for one of it.
    fn span(&mut self) -> Result<Placed<Span>, Invalid> {
        let at = self.start;
        let expected = "a duration such as `500ms`, `1s`, `1m`, `1h` or `1d`";
        let (digits, unit) = match self.token {
            Token::Word(unit) => ("1", unit),
            Token::Number(source) => {
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
        let value = value.ok_or_else(|| self.out_of_range("this duration is too long"))?;
        self.advance()?;
        Ok(Placed { value: Span::from_millis(value), at })
    }
}

/// The units of durations, the longest first, in milliseconds.
pub(super) const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
