//! Strict reading of a handler's settings.

use crore_core::Invalid;
use crore_core::code::excerpt;
use crore_wire::encoding;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads settings into a structure that refuses unknown fields. An error names its field, as in
/// `settings.env.PATH`.
pub fn read<T: DeserializeOwned>(settings: &Value) -> Result<T, Invalid> {
    // Tracking the path is slow, so it is done only after an error.
    if let Ok(read) = T::deserialize(settings) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(settings).map_err(|error| {
        let path = excerpt(&error.path().to_string());
        let field = if path == "." { "settings".to_owned() } else { format!("settings.{path}") };
        // The message may quote the settings.
        let Invalid { code, message, .. } = encoding::invalid(&path, &error.inner().to_string());
        Invalid::new(code, field, message)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crore_core::Code;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SampleSettings {
        env: BTreeMap<String, String>,
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            (json!({ "env": { "A": 1 } }), "settings.env.A", Code::Malformed),
            (json!({ "env": {}, "evn": 1 }), "settings.evn", Code::FieldUnknown),
            (json!(3), "settings", Code::Malformed),
        ];
        for (settings, field, code) in cases {
            let invalid =
                read::<SampleSettings>(&settings).map(|read| read.env).expect_err("it is invalid");
            assert_eq!((&*invalid.field, invalid.code), (field, code), "{invalid}");
        }
    }

    #[test]
    fn errors_are_short_and_on_one_line() {
        let long = "x\r\n".repeat(10_000);
        for settings in [json!({ "env": {}, &long: 1 }), json!({ "env": { long: 1 } })] {
            let invalid = read::<SampleSettings>(&settings).expect_err("it is invalid");
            let text = invalid.to_string();
            assert!(text.len() < 2000 && !text.contains(char::is_control), "{text}");
        }
    }
}
