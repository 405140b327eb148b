//! What a handler says about a plugin.

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use crore_wire::words::{Period, Size};
use serde::Deserialize;
use serde_json::Value;

/// The most that a handler may ask for.
const MOST_OUTPUT: u64 = 1 << 30;
const MOST_NAME: usize = 255;

/// What a handler says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// The stem of its file, or the name that it tells.
    pub(super) plugin: String,
    /// How many bytes may come out of a run.
    #[serde(default = "one_mebibyte")]
    pub(super) max_output: Size,
    /// How long a run that was asked to stop may go on.
    #[serde(default)]
    pub(super) grace: Option<Period>,
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

impl Settings {
    pub(super) fn read(settings: &Value) -> Result<Self, Invalid> {
        let read: Self = crate::read(settings)?;
        let name = &read.plugin;
        let is_name = (1..=MOST_NAME).contains(&name.len()) && !name.contains(['/', '\0']);
        if !is_name {
            let message = format!("`{}` is no name of a plugin or its file", excerpt(name));
            return Err(Invalid::new(Code::Malformed, "settings.plugin", message));
        }
        if read.max_output.0 > MOST_OUTPUT {
            let message = format!("{} is more than {}", read.max_output, Size(MOST_OUTPUT));
            return Err(Invalid::new(Code::Malformed, "settings.max_output", message));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let cases = [
            (json!({}), "settings"),
            (json!({ "plugin": "" }), "settings.plugin"),
            (json!({ "plugin": "../evil" }), "settings.plugin"),
            (json!({ "plugin": "/tmp/evil.so" }), "settings.plugin"),
            (json!({ "plugin": "x".repeat(256) }), "settings.plugin"),
            (json!({ "plugin": "a", "max_output": "2GiB" }), "settings.max_output"),
            (json!({ "plugin": "a", "grace": 5 }), "settings.grace"),
            (json!({ "plugin": "a", "path": "/" }), "settings.path"),
        ];
        for (settings, field) in cases {
            let invalid = Settings::read(&settings).map(|read| read.plugin).expect_err("wrong");
            assert_eq!(invalid.field, field, "{settings} {invalid}");
        }
        let read = Settings::read(&json!({ "plugin": "a", "grace": "1s", "max_output": "8B" }));
        assert_eq!(read.expect("right").max_output, Size(8));
    }
}
