//! Scalar values of conditions and payloads, and their comparison.

use std::cmp::Ordering;

/// A scalar value. Literals own their text, values in a payload borrow it.
///
/// The derived order gives the members of an `in` set a canonical order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scalar<T> {
    Null,
    Bool(bool),
    Number(Number),
    Text(T),
}

/// A value that owns its text.
pub(crate) type Literal = Scalar<Box<str>>;

/// A value that borrows its text.
pub(crate) type ScalarRef<'a> = Scalar<&'a str>;

impl Literal {
    pub(crate) fn borrowed(&self) -> ScalarRef<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Bool(flag) => Scalar::Bool(*flag),
            Self::Number(number) => Scalar::Number(*number),
            Self::Text(text) => Scalar::Text(text),
        }
    }
}

/// A number by its mathematical value: `1`, `1.0` and `1e0` are equal, and large integers are compared
/// without rounding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(NumberForm);

/// The canonical form of a number: every integer below 2¹²⁷ is `Whole`, so `Real` is a fraction, a float
/// of at least 2¹²⁷, or an infinity. NaN has none.
#[derive(Debug, Clone, Copy)]
enum NumberForm {
    Whole(i128),
    Real(f64),
}

/// 2¹²⁷, the first float that does not fit into an `i128`.
const WHOLE_END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// Why a text is not the literal of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberFault {
    Syntax,
    TooLarge,
}

impl Number {
    /// Parses a literal: an integer of 64 bits, or a finite double with a point or an exponent.
    pub(crate) fn parse(source: &str) -> Result<Self, NumberFault> {
        let digits = source.strip_prefix('-').unwrap_or(source);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            return source.parse::<i64>().map(Self::from).map_err(|_| NumberFault::TooLarge);
        }
        let digit = |c: char| c.is_ascii_digit();
        let plain = source.chars().all(|c| digit(c) || "+-.eE".contains(c))
            && source
                .split_once('.')
                .is_none_or(|(a, b)| a.ends_with(digit) && b.starts_with(digit));
        let float = source.parse::<f64>().ok().filter(|_| plain).ok_or(NumberFault::Syntax)?;
        Self::from_f64(float).filter(|_| float.is_finite()).ok_or(NumberFault::TooLarge)
    }

    /// The number of a float; `None` for NaN.
    pub(crate) fn from_f64(float: f64) -> Option<Self> {
        if float.is_nan() {
            None
        } else if float.trunc() == float && float.abs() < WHOLE_END {
            Some(Self(NumberForm::Whole(float as i128)))
        } else {
            Some(Self(NumberForm::Real(float)))
        }
    }

    /// The integer, if it is one below 2¹²⁷.
    pub(crate) const fn whole(self) -> Option<i128> {
        match self.0 {
            NumberForm::Whole(whole) => Some(whole),
            NumberForm::Real(_) => None,
        }
    }

    /// The literal, which parses back to the same number.
    pub(crate) fn literal(self) -> String {
        match self.0 {
            NumberForm::Whole(whole) if i64::try_from(whole).is_ok() => whole.to_string(),
            NumberForm::Whole(whole) => format!("{:e}", whole as f64),
            NumberForm::Real(real) => format!("{real:?}"),
        }
    }

    /// Canonical text, equal for equal numbers only. Stored in keys, so it must never change: all digits of
    /// an integer, and the shortest round-trip digits with exponent of a float (`2.5e-1`, `inf`).
    pub(crate) fn canonical(self) -> String {
        match self.0 {
            NumberForm::Whole(whole) => whole.to_string(),
            NumberForm::Real(real) => format!("{real:e}"),
        }
    }
}

impl From<i64> for Number {
    fn from(whole: i64) -> Self {
        Self(NumberForm::Whole(whole.into()))
    }
}

impl From<u64> for Number {
    fn from(whole: u64) -> Self {
        Self(NumberForm::Whole(whole.into()))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (NumberForm::Whole(a), NumberForm::Whole(b)) => a.cmp(&b),
            (NumberForm::Real(a), NumberForm::Real(b)) => a.total_cmp(&b),
            (NumberForm::Whole(a), NumberForm::Real(b)) => whole_to_real(a, b),
            (NumberForm::Real(a), NumberForm::Whole(b)) => whole_to_real(b, a).reverse(),
        }
    }
}

/// Exact comparison: a `Real` is never an integer in the range of `i128`, so the two are never equal, and
/// rounding it down does not change the order.
fn whole_to_real(whole: i128, real: f64) -> Ordering {
    if real >= WHOLE_END {
        Ordering::Less
    } else if real <= -WHOLE_END {
        Ordering::Greater
    } else if whole <= real.floor() as i128 {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn real(float: f64) -> Number {
        Number::from_f64(float).expect("a number")
    }

    #[test]
    fn integers_and_floats_compare_without_rounding() {
        let big = 9_007_199_254_740_993_i64; // 2^53 + 1, which no float can hold
        assert!(Number::from(big) > real(big as f64));
        assert_eq!(Number::from(big - 1), real(big as f64));
        assert!(Number::from(i64::MAX) < real(i64::MAX as f64));
        assert_eq!(Number::from(i64::MIN), real(i64::MIN as f64));
        assert!(Number::from(u64::MAX) < real(u64::MAX as f64));
        assert_eq!(Number::from(0_i64), real(-0.0));
        assert!(Number::from(-1_i64) < real(-0.5) && Number::from(0_i64) > real(-0.5));
        assert!(Number::from(u64::MAX) < real(1e300) && Number::from(i64::MIN) > real(-1e300));
        assert!(real(f64::NEG_INFINITY) < real(-1e300) && real(1e300) < real(f64::INFINITY));
        assert!(real(WHOLE_END) > real(WHOLE_END / 2.0));
        assert_eq!(Number::from_f64(f64::NAN), None);
    }

    proptest! {
        #[test]
        fn floats_keep_their_order(a in any::<f64>(), b in any::<f64>()) {
            if let (Some(x), Some(y)) = (Number::from_f64(a), Number::from_f64(b)) {
                prop_assert_eq!(Some(x.cmp(&y)), a.partial_cmp(&b));
                prop_assert_eq!(x == y, x.canonical() == y.canonical());
            }
        }

        #[test]
        fn integers_and_floats_compare_as_in_wider_arithmetic(a: i64, b in -1e19..1e19) {
            let below = i128::from(a).cmp(&(f64::floor(b) as i128));
            let exact = if below.is_eq() && b.fract() != 0.0 { Ordering::Less } else { below };
            prop_assert_eq!(Number::from(a).cmp(&real(b)), exact);
        }
    }
}
