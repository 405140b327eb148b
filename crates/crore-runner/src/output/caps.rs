//! Limits of the operator on the settings `max_output` and `grace`.

use std::fmt::Display;

use crore_core::{Code, Invalid, Span};
use crore_wire::units::{Period, Size};
use serde_json::Value;

/// Maximum output in bytes.
pub(crate) fn max_output(settings: &Value, value: Size, most: Size) -> Result<Size, Invalid> {
    capped(settings, ("max_output", "runners.max-output"), value, most)
}

/// Grace period after a stop request.
pub(crate) fn grace(settings: &Value, value: Period, most: Span) -> Result<Period, Invalid> {
    capped(settings, ("grace", "runners.max-grace"), value, Period(most))
}

/// A value from the handler must not exceed the cap. A default is lowered to it.
fn capped<T: Ord + Display>(
    settings: &Value,
    (field, key): (&str, &str),
    value: T,
    most: T,
) -> Result<T, Invalid> {
    if settings.get(field).is_none() {
        return Ok(value.min(most));
    }
    if value > most {
        let message =
            format!("`{value}` is more than `{key}` in the configuration, which is `{most}`");
        return Err(Invalid::new(Code::RunnerForbidden, format!("settings.{field}"), message));
    }
    Ok(value)
}
