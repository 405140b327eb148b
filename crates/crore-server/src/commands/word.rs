//! Flag values that are enumeration values of the API.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses an enumeration value of the API. The error lists the allowed ones.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let parsed = serde_json::from_value(Value::String(text.to_owned()));
    parsed.map_err(|error| error.to_string().replacen("unknown variant", "unknown value", 1))
}

/// The API's text of an enumeration value, for a query string.
pub(crate) fn word_of(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use crore_wire::api::enums::Missed;

    use super::*;

    #[test]
    fn an_unknown_word_is_answered_with_the_known_ones() {
        assert_eq!(word("once"), Ok(Missed::Once));
        assert_eq!(word_of(&Missed::Once), "once");
        let wrong = word::<Missed>("never").expect_err("unknown");
        assert!(wrong.contains("`never`") && wrong.contains("`skip`"), "{wrong}");
        assert!(!wrong.contains("column"), "{wrong}");
    }
}
