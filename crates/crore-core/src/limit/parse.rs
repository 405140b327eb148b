//! From text to limit. The grammar stands at the top of [`super`].

use super::bucket::{Part, Rate};
use super::field::{Field, Path, Step};
use super::lex::{Lexer, Token};
use super::matcher::{Comparison, Condition, Matcher, Test};
use super::scalar::{Literal, Number, Scalar};
use super::walk::MAX_LEVELS;
use super::{Limit, MAX_NESTING};
use crate::code::{Code, Invalid};
use crate::time::Span;

/// Reads a whole limit.
pub(super) fn parse(text: &str) -> Result<Limit, Invalid> {
    let mut parser = Parser::new(text)?;
    let matcher =
        if parser.take_word("where")? { Matcher(Some(parser.any()?)) } else { Matcher::default() };
    parser.clauses(matcher)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that is looked at, and the byte at which it begins.
    token: Token<'a>,
    start: usize,
    /// How many levels of the condition are open.
    nesting: usize,
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

    fn advance(&mut self) -> Result<(), Invalid> {
        (self.start, self.token) = self.lexer.token()?;
        Ok(())
    }

    fn take_word(&mut self, word: &str) -> Result<bool, Invalid> {
        let there = self.token == Token::Word(word);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn take_symbol(&mut self, symbol: &str) -> Result<bool, Invalid> {
        let there = self.token == Token::Symbol(symbol);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn expect_symbol(&mut self, symbol: &str, expected: &str) -> Result<(), Invalid> {
        if self.take_symbol(symbol)? { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// The error that something else should stand where the current token is.
    fn unexpected(&self, expected: &str) -> Invalid {
        let message = format!("expected {expected}, found {}", self.lexer.found(self.start));
        self.lexer.fault(Code::LimitSyntax, self.start, message)
    }

    fn out_of_range(&self, message: impl Into<String>) -> Invalid {
        self.lexer.fault(Code::LimitRange, self.start, message)
    }
}

/// Conditions.
impl Parser<'_> {
    fn any(&mut self) -> Result<Condition, Invalid> {
        let mut parts = vec![self.all()?];
        while self.take_word("or")? {
            parts.push(self.all()?);
        }
        Ok(joined(parts, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, Invalid> {
        let mut parts = vec![self.one()?];
        while self.take_word("and")? {
            parts.push(self.one()?);
        }
        Ok(joined(parts, Condition::All))
    }

    fn one(&mut self) -> Result<Condition, Invalid> {
        let opens = matches!(self.token, Token::Word("not") | Token::Symbol("("));
        if !opens {
            return self.test();
        }
        if self.nesting == MAX_NESTING {
            let message = format!("nested deeper than {MAX_NESTING} levels");
            return Err(self.lexer.fault(Code::LimitTooDeep, self.start, message));
        }
        self.nesting += 1;
        let condition = if self.take_word("not")? {
            Condition::Not(Box::new(self.one()?))
        } else {
            self.advance()?;
            let inner = self.any()?;
            self.expect_symbol(")", "`and`, `or` or `)`")?;
            inner
        };
        self.nesting -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Condition, Invalid> {
        let field = self.field("a field (`kind`, `queue` or `payload`), `not` or `(`")?;
        let test = match self.token {
            Token::Symbol("=") => Test::Equal(self.operand(&field)?),
            Token::Symbol("!=") => Test::Unequal(self.operand(&field)?),
            Token::Word("in") => Test::In(self.set(&field)?),
            Token::Word("prefix") => Test::Prefix(self.prefix()?),
            Token::Symbol(symbol) => {
                let how = comparison(symbol).ok_or_else(|| self.unexpected(OPERATOR))?;
                self.compare(&field, how)?
            }
            _ => return Err(self.unexpected(OPERATOR)),
        };
        Ok(Condition::Test(field, test))
    }

    fn operand(&mut self, field: &Field) -> Result<Literal, Invalid> {
        self.advance()?;
        self.literal(field)
    }

    fn compare(&mut self, field: &Field, how: Comparison) -> Result<Test, Invalid> {
        if !matches!(field, Field::Payload(_)) {
            return Err(self.unexpected("`=`, `!=`, `in` or `prefix`, since this field is text"));
        }
        self.advance()?;
        match self.token {
            Token::Number(source) => {
                let number = self.number(source)?;
                self.advance()?;
                Ok(Test::Compare(how, number))
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn prefix(&mut self) -> Result<Box<str>, Invalid> {
        self.advance()?;
        self.text()
    }

    fn set(&mut self, field: &Field) -> Result<Vec<Literal>, Invalid> {
        self.advance()?;
        self.expect_symbol("(", "`(`")?;
        let mut set = vec![self.literal(field)?];
        while self.take_symbol(",")? {
            set.push(self.literal(field)?);
        }
        self.expect_symbol(")", "`,` or `)`")?;
        set.sort_unstable();
        set.dedup();
        Ok(set)
    }

    /// A literal that `field` can equal: kinds and queues are always text.
    fn literal(&mut self, field: &Field) -> Result<Literal, Invalid> {
        if !matches!(field, Field::Payload(_)) || matches!(self.token, Token::Text(_)) {
            return self.text().map(Scalar::Text);
        }
        let literal = match self.token {
            Token::Number(source) => Scalar::Number(self.number(source)?),
            Token::Word("true") => Scalar::Bool(true),
            Token::Word("false") => Scalar::Bool(false),
            Token::Word("null") => Scalar::Null,
            _ => {
                let expected = "a text in quotes, a number, `true`, `false` or `null`";
                return Err(self.unexpected(expected));
            }
        };
        self.advance()?;
        Ok(literal)
    }

    fn text(&mut self) -> Result<Box<str>, Invalid> {
        let Token::Text(text) = &mut self.token else {
            return Err(self.unexpected("a text in quotes"));
        };
        let text = std::mem::take(text);
        self.advance()?;
        Ok(text)
    }

    fn number(&self, source: &str) -> Result<Number, Invalid> {
        let outside =
            || self.out_of_range(format!("{} is too large", self.lexer.found(self.start)));
        let digits = source.strip_prefix('-').unwrap_or(source);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return source.parse::<i64>().map(Number::from).map_err(|_| outside());
        }
        let plain = source.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let float = source.parse::<f64>().ok().filter(|_| plain);
        let float = float.ok_or_else(|| self.unexpected("a number"))?;
        Number::from_f64(float).filter(|_| float.is_finite()).ok_or_else(outside)
    }
}

const OPERATOR: &str = "`=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `prefix`";

fn comparison(symbol: &str) -> Option<Comparison> {
    match symbol {
        "<" => Some(Comparison::Less),
        "<=" => Some(Comparison::AtMost),
        ">" => Some(Comparison::More),
        ">=" => Some(Comparison::AtLeast),
        _ => None,
    }
}

fn joined(mut parts: Vec<Condition>, join: fn(Vec<Condition>) -> Condition) -> Condition {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            join(parts)
        }
    }
}

/// Fields.
impl Parser<'_> {
    fn field(&mut self, expected: &str) -> Result<Field, Invalid> {
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
            Token::Number(source) if source.bytes().all(|b| b.is_ascii_digit()) => source
                .parse::<u32>()
                .map_err(|_| self.out_of_range(format!("`{source}` is above {}", u32::MAX)))?,
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
