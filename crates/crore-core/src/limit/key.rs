//! Limit keys: the bucket of a limit that a job counts against.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::scalar::{Scalar, ScalarRef};
use crate::name::Name;

/// Maximum length of a key's value, in bytes.
pub const MAX_VALUE: usize = 256;

/// The name of a limit and, if the limit has a `per`, the job's value of that field.
///
/// Keys are stored, so the text form of a value never changes:
///
/// | the field holds | value |
/// |---|---|
/// | a string | the string |
/// | a string that begins with `#` | `#` and the string, so `##…` |
/// | a number | `#` and its digits: `#1` for `1`, `1.0` and `1e0`; `#2.5e-1` |
/// | true, false | `#true`, `#false` |
/// | a string whose value exceeds 256 bytes, or with control characters | `#h`, 32 hex digits, `:`, its beginning |
/// | nothing, null, an object, an array, NaN | none |
///
/// Only plain strings begin without `#`, and the character after the `#` distinguishes the others, so the
/// string `1` and the number 1 have different values. The hex digits are the 128-bit FNV-1a hash of the
/// whole string. The hash need not be cryptographic: a caller that controls the payload can select any
/// bucket anyway.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LimitKey {
    /// The limit's name.
    pub limit: Name,
    /// The value of the limit's `per` field.
    pub value: Option<Arc<str>>,
}

/// The key value for the value of a field.
pub(crate) fn value_text(scalar: ScalarRef<'_>) -> Option<Arc<str>> {
    match scalar {
        Scalar::Null => None,
        Scalar::Bool(flag) => Some(format!("#{flag}").into()),
        Scalar::Number(number) => Some(format!("#{}", number.canonical()).into()),
        Scalar::Text(text) => Some(text_value(text)),
    }
}

/// The key value for a string.
pub(crate) fn text_value(text: &str) -> Arc<str> {
    let marked = text.starts_with('#');
    if text.len() + usize::from(marked) > MAX_VALUE || text.chars().any(char::is_control) {
        hashed(text).into()
    } else if marked {
        format!("#{text}").into()
    } else {
        text.into()
    }
}

fn hashed(text: &str) -> String {
    let mut value = format!("#h{:032x}:", fnv1a(text.as_bytes()));
    for c in text.chars().filter(|c| !c.is_control()) {
        if value.len() + c.len_utf8() > MAX_VALUE {
            break;
        }
        value.push(c);
    }
    value
}

/// FNV-1a with 128 bits.
fn fnv1a(bytes: &[u8]) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(START, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::super::scalar::Number;
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> String {
        value_text(Scalar::Text(text)).expect("a value").to_string()
    }

    fn number(float: f64) -> String {
        let number = Number::from_f64(float).expect("a number");
        value_text(Scalar::Number(number)).expect("a value").to_string()
    }

    #[test]
    fn stored_values_never_change() {
        assert_eq!(text("acme"), "acme");
        assert_eq!(text(""), "");
        assert_eq!(text("#1"), "##1");
        assert_eq!(text("a\0"), "#h0880954519ab1be95aa0733055b70e0c:a");
        assert_eq!(number(1.0), "#1");
        assert_eq!(number(-0.25), "#-2.5e-1");
        assert_eq!(number(1e300), "#1e300");
        assert_eq!(number(1e20), "#100000000000000000000");
        assert_eq!(number(f64::NEG_INFINITY), "#-inf");
        assert_eq!(value_text(Scalar::Bool(true)).as_deref(), Some("#true"));
        assert_eq!(value_text(Scalar::Null), None);
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn long_values_are_truncated_and_stay_distinct() {
        let fits = "é".repeat(128);
        assert_eq!(text(&fits), fits);
        let long = [fits.clone() + "a", fits.clone() + "b", "#".to_owned() + &fits[2..] + "x"];
        for one in &long {
            assert!(text(one).starts_with("#h") && text(one).len() <= MAX_VALUE, "{one}");
        }
        assert_ne!(text(&long[0]), text(&long[1]));
        assert_ne!(text(&long[0]), text(&text(&long[0])));
    }

    proptest! {
        #[test]
        fn different_texts_and_numbers_have_different_values(
            a in "[#h01:\u{0}true.e-]{0,6}", b in "[#h01:\u{0}true.e-]{0,6}", n: f64,
        ) {
            prop_assert_eq!(a == b, text(&a) == text(&b));
            prop_assert!(n.is_nan() || number(n) != text(&a));
            prop_assert!(n.is_nan() || number(n) != text(&number(n)));
            prop_assert!(!text(&a).contains('\0'));
        }
    }
}
