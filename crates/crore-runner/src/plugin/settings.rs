//! Settings of the plugin runner.

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};
use crore_wire::units::{Period, Size};
use serde::Deserialize;
use serde_json::Value;

/// Maximum values of settings.
const MAX_OUTPUT: u64 = 1 << 30;
const MAX_NAME_BYTES: usize = 255;

/// The settings of a handler with the plugin runner.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PluginSettings {
    /// The stem of its file name, or the name that the library reports.
    pub(super) plugin: String,
    /// Maximum output of a run in bytes.
    #[serde(default = "one_mebibyte")]
    pub(super) max_output: Size,
    /// Grace period after a stop request.
    #[serde(default)]
    pub(super) grace: Option<Period>,
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

impl PluginSettings {
    pub(super) fn read(settings: &Value) -> Result<Self, Invalid> {
        let read: Self = crate::read(settings)?;
        let name = &read.plugin;
        let is_name = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(['/', '\0']);
        if !is_name {
            let message = format!("`{}` is not the name of a plugin or its file", excerpt(name));
            return Err(Invalid::new(Code::Malformed, "settings.plugin", message));
        }
        if read.max_output.0 > MAX_OUTPUT {
            let message = format!("{} is more than {}", read.max_output, Size(MAX_OUTPUT));
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
    fn errors_name_the_field() {
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
            let invalid =
                PluginSettings::read(&settings).map(|read| read.plugin).expect_err("wrong");
            assert_eq!(invalid.field, field, "{settings} {invalid}");
        }
        let read =
            PluginSettings::read(&json!({ "plugin": "a", "grace": "1s", "max_output": "8B" }));
        assert_eq!(read.expect("valid").max_output, Size(8));
    }
}
