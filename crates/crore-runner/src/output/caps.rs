//! What an operator caps of what handlers say: how much may come out, and how long a grace is.

use std::fmt::Display;

use crore_core::{Code, Invalid, Span};
use crore_wire::words::{Period, Size};
use serde_json::Value;

/// How much may come out, in bytes.
pub(crate) fn max_output(settings: &Value, value: Size, most: Size) -> Result<Size, Invalid> {
    capped(settings, ("max_output", "runners.max-output"), value, most)
}

/// How long what is asked to stop may go on.
pub(crate) fn grace(settings: &Value, value: Period, most: Span) -> Result<Period, Invalid> {
    capped(settings, ("grace", "runners.max-grace"), value, Period(most))
}

/// What a handler says must not be more than the cap; what is usual is as much as that allows.
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
