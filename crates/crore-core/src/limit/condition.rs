//! Parser of conditions.

use super::MAX_NESTING;
use super::field::JobField;
use super::lex::LimitToken;
use super::matcher::{Comparison, Condition, Test};
use super::parse::Parser;
use super::scalar::{Literal, Number, NumberFault, Scalar};
use crate::code::{Code, Invalid};

impl Parser<'_> {
    pub(super) fn any(&mut self) -> Result<Condition, Invalid> {
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
        let opens = matches!(self.token, LimitToken::Word("not") | LimitToken::Symbol("("));
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
            LimitToken::Symbol("=") => Test::Equal(self.operand(&field)?),
            LimitToken::Symbol("!=") => Test::Unequal(self.operand(&field)?),
            LimitToken::Word("in") => Test::In(self.set(&field)?),
            LimitToken::Word("prefix") => Test::Prefix(self.prefix()?),
            LimitToken::Symbol(symbol) => {
                let comparison = comparison(symbol).ok_or_else(|| self.unexpected(OPERATOR))?;
                self.compare(&field, comparison)?
            }
            _ => return Err(self.unexpected(OPERATOR)),
        };
        Ok(Condition::Test(field, test))
    }

    fn operand(&mut self, field: &JobField) -> Result<Literal, Invalid> {
        self.advance()?;
        self.literal(field)
    }

    fn compare(&mut self, field: &JobField, comparison: Comparison) -> Result<Test, Invalid> {
        if !matches!(field, JobField::Payload(_)) {
            return Err(self.unexpected("`=`, `!=`, `in` or `prefix`, since this field is text"));
        }
        self.advance()?;
        match self.token {
            LimitToken::Number(source) => {
                let number = self.number(source)?;
                self.advance()?;
                Ok(Test::Compare(comparison, number))
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn prefix(&mut self) -> Result<Box<str>, Invalid> {
        self.advance()?;
        self.text()
    }

    fn set(&mut self, field: &JobField) -> Result<Vec<Literal>, Invalid> {
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

    /// A literal that can equal `field`: kinds and queues are always text.
    fn literal(&mut self, field: &JobField) -> Result<Literal, Invalid> {
        if !matches!(field, JobField::Payload(_)) || matches!(self.token, LimitToken::Text(_)) {
            return self.text().map(Scalar::Text);
        }
        let literal = match self.token {
            LimitToken::Number(source) => Scalar::Number(self.number(source)?),
            LimitToken::Word("true") => Scalar::Bool(true),
            LimitToken::Word("false") => Scalar::Bool(false),
            LimitToken::Word("null") => Scalar::Null,
            _ => {
                let expected = "a text in quotes, a number, `true`, `false` or `null`";
                return Err(self.unexpected(expected));
            }
        };
        self.advance()?;
        Ok(literal)
    }

    fn text(&mut self) -> Result<Box<str>, Invalid> {
        let LimitToken::Text(text) = &mut self.token else {
            return Err(self.unexpected("a text in quotes"));
        };
        let text = std::mem::take(text);
        self.advance()?;
        Ok(text)
    }

    fn number(&self, source: &str) -> Result<Number, Invalid> {
        Number::parse(source).map_err(|fault| match fault {
            NumberFault::Syntax => self.unexpected("a number"),
            NumberFault::TooLarge => {
                self.out_of_range(format!("{} is too large", self.lexer.found(self.start)))
            }
        })
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
