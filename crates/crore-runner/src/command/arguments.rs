//! Program arguments from the handler's settings and the job's payload.

use std::borrow::Cow;

use crore_core::Encoding;

use super::settings::{CommandInput, CommandSettings};
use crate::runner::{EncodedBytes, RunFailure};

/// Maximum number of arguments; the system limits their total size as well.
const MAX_ARGS: usize = 100_000;

/// The arguments of the handler, then those of the job.
pub(super) fn arguments(
    settings: &CommandSettings,
    payload: &EncodedBytes,
) -> Result<Vec<String>, RunFailure> {
    let mut all = settings.args.clone();
    match settings.payload {
        CommandInput::Lines => all.extend(lines(payload)),
        CommandInput::Args => all.extend(array(&payload.bytes)?),
        CommandInput::Stdin | CommandInput::None => {}
    }
    if let Some(n) = all.iter().position(|arg| arg.contains('\0')) {
        let n = n - settings.args.len() + 1;
        return Err(bad(format!("payload: argument {n} contains a zero byte")));
    }
    if all.len() > MAX_ARGS {
        return Err(bad(format!(
            "payload: {} arguments, at most {MAX_ARGS} are allowed",
            all.len()
        )));
    }
    Ok(all)
}

/// The lines of a text. A JSON string is decoded first.
fn lines(payload: &EncodedBytes) -> Vec<String> {
    let decoded = match payload.encoding {
        Encoding::Json => serde_json::from_slice::<String>(&payload.bytes).ok(),
        _ => None,
    };
    let text = decoded.map_or_else(|| String::from_utf8_lossy(&payload.bytes), Cow::Owned);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn array(bytes: &[u8]) -> Result<Vec<String>, RunFailure> {
    serde_json::from_slice(bytes)
        .map_err(|error| bad(format!("payload: not a JSON array of strings: {error}")))
}

fn bad(error: String) -> RunFailure {
    RunFailure::fatal(error).with("reason", "payload")
}

#[cfg(test)]
mod tests {
    use crore_core::Payload;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn given(way: &str, payload: &[u8]) -> Result<Vec<String>, RunFailure> {
        let settings = json!({ "program": "echo", "args": ["-n"], "payload": way });
        let settings = CommandSettings::read(&settings, &Options::default()).expect("settings");
        arguments(&settings, &Payload::new(Encoding::Bytes, payload).into())
    }

    #[test]
    fn each_line_is_a_trimmed_argument() {
        let args = given("lines", b" a b \r\n\n\t\n$(id)\n\xff\n").expect("arguments");
        assert_eq!(args, ["-n", "a b", "$(id)", "\u{fffd}"]);
    }

    #[test]
    fn a_json_string_is_split_into_its_lines() {
        let settings = json!({ "program": "echo", "payload": "lines" });
        let settings = CommandSettings::read(&settings, &Options::default()).expect("settings");
        for (payload, expected) in [(r#""a b\nc""#, vec!["a b", "c"]), ("[1]", vec!["[1]"])] {
            let args = arguments(&settings, &Payload::json(payload).into()).expect("arguments");
            assert_eq!(args, expected);
        }
    }

    #[test]
    fn an_array_of_strings_is_passed_unchanged() {
        let args = given("args", br#"["", " a\n", "b"]"#).expect("arguments");
        assert_eq!(args, ["-n", "", " a\n", "b"]);
    }

    #[test]
    fn a_payload_passed_otherwise_adds_no_argument() {
        for way in ["stdin", "none"] {
            assert_eq!(given(way, b"a\nb\0").expect("arguments"), ["-n"]);
        }
    }

    #[test]
    fn invalid_arguments_are_payload_errors() {
        let cases: [(&str, &[u8], &str); 4] = [
            ("lines", b"a\nb\0c", "payload: argument 2 contains a zero byte"),
            ("args", br#"["\u0000"]"#, "payload: argument 1 contains a zero byte"),
            ("args", b"[1]", "payload: not a JSON array of strings"),
            ("args", b"{}", "payload: not a JSON array of strings"),
        ];
        for (way, payload, error) in cases {
            let failure = given(way, payload).expect_err("no arguments");
            assert!(failure.error.starts_with(error), "{failure}");
            assert_eq!(failure.detail["reason"], "payload");
        }
    }
}
