//! What a program is given of a job's payload: arguments, or its standard input.

use std::borrow::Cow;

use crore_core::Encoding;

use super::settings::{Give, Settings};
use crate::runner::{Failure, Item};

/// The most arguments of one run; the system has a cap of its own on their bytes.
const MAX_ARGS: usize = 100_000;

/// The arguments of a program: those of its handler, then those of the job.
pub(super) fn arguments(settings: &Settings, payload: &Item) -> Result<Vec<String>, Failure> {
    let mut all = settings.args.clone();
    match settings.payload {
        Give::Lines => all.extend(lines(payload)),
        Give::Args => all.extend(array(&payload.bytes)?),
        Give::Stdin | Give::None => {}
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

/// The lines of a text; of a JSON string, those of what it says.
fn lines(payload: &Item) -> Vec<String> {
    let said = match payload.encoding {
        Encoding::Json => serde_json::from_slice::<String>(&payload.bytes).ok(),
        _ => None,
    };
    let text = said.map_or_else(|| String::from_utf8_lossy(&payload.bytes), Cow::Owned);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn array(bytes: &[u8]) -> Result<Vec<String>, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| bad(format!("payload: not a JSON array of strings: {error}")))
}

fn bad(error: String) -> Failure {
    Failure::fatal(error).with("reason", "payload")
}

#[cfg(test)]
mod tests {
    use crore_core::Payload;
    use serde_json::json;

    use super::*;
    use crate::options::Options;

    fn given(way: &str, payload: &[u8]) -> Result<Vec<String>, Failure> {
        let settings = json!({ "program": "echo", "args": ["-n"], "payload": way });
        let settings = Settings::read(&settings, &Options::default()).expect("settings");
        arguments(&settings, &Payload::new(Encoding::Bytes, payload).into())
    }

    #[test]
    fn each_line_is_an_argument_without_the_blanks_around_it() {
        let args = given("lines", b" a b \r\n\n\t\n$(id)\n\xff\n").expect("arguments");
        assert_eq!(args, ["-n", "a b", "$(id)", "\u{fffd}"]);
    }

    #[test]
    fn a_json_string_is_the_lines_that_it_says() {
        let settings = json!({ "program": "echo", "payload": "lines" });
        let settings = Settings::read(&settings, &Options::default()).expect("settings");
        for (payload, expected) in [(r#""a b\nc""#, vec!["a b", "c"]), ("[1]", vec!["[1]"])] {
            let args = arguments(&settings, &Payload::json(payload).into()).expect("arguments");
            assert_eq!(args, expected);
        }
    }

    #[test]
    fn an_array_of_strings_is_taken_as_it_is() {
        let args = given("args", br#"["", " a\n", "b"]"#).expect("arguments");
        assert_eq!(args, ["-n", "", " a\n", "b"]);
    }

    #[test]
    fn a_payload_that_is_no_argument_is_none() {
        for way in ["stdin", "none"] {
            assert_eq!(given(way, b"a\nb\0").expect("arguments"), ["-n"]);
        }
    }

    #[test]
    fn what_cannot_be_an_argument_is_told_as_the_payloads_fault() {
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
