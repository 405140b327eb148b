//! Payloads: JSON as it is written, or bytes of another encoding.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use crore_core::code::excerpt;
use crore_wire::api::enums::Encoding;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::exit::{CliError, FailureCode};

/// The fields of a request body that carry a payload.
#[derive(Debug, Default, Serialize)]
pub(crate) struct JobPayload {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<Encoding>,
}

impl JobPayload {
    /// A payload written as text.
    pub(super) fn of_text(text: &str, encoding: Encoding) -> Result<Self, String> {
        match encoding {
            Encoding::Json => Self::json(text),
            encoding => Ok(Self::bytes(text.as_bytes(), encoding)),
        }
    }

    fn json(text: &str) -> Result<Self, String> {
        let parsed = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        Ok(Self { payload: Some(parsed), ..Self::default() })
    }

    fn bytes(bytes: &[u8], encoding: Encoding) -> Self {
        let text = BASE64_STANDARD.encode(bytes);
        Self { payload: None, payload_base64: Some(text), encoding: Some(encoding) }
    }
}

/// The arguments that say what the payload is.
#[derive(Debug)]
pub(crate) struct PayloadSource<'a> {
    /// The payload itself, or `@FILE`.
    pub(crate) argument: Option<&'a str>,
    pub(crate) file: Option<&'a str>,
}

impl PayloadSource<'_> {
    pub(crate) fn read(&self, encoding: Encoding) -> anyhow::Result<JobPayload> {
        match (self.argument, self.file) {
            (_, Some(path)) => from_file(path, encoding),
            (Some(text), None) => match text.strip_prefix('@') {
                Some(path) => from_file(path, encoding),
                None => from_argument(text, encoding),
            },
            (None, None) => Ok(JobPayload::default()),
        }
    }
}

fn from_argument(text: &str, encoding: Encoding) -> anyhow::Result<JobPayload> {
    // Without the position: the message shows the argument.
    let why = |_| {
        let shown = excerpt(text);
        let hint = "write a string as '\"text\"', or set `--encoding text`";
        wrong(format!("the payload `{shown}` is not JSON; {hint}"))
    };
    Ok(JobPayload::of_text(text, encoding).map_err(why)?)
}

fn from_file(path: &str, encoding: Encoding) -> anyhow::Result<JobPayload> {
    let bytes =
        std::fs::read(path).map_err(|error| wrong(format!("cannot read `{path}`: {error}")))?;
    if encoding != Encoding::Json {
        return Ok(JobPayload::bytes(&bytes, encoding));
    }
    let read = std::str::from_utf8(&bytes).map_err(|_| "not JSON: invalid UTF-8".to_owned());
    let why = |why| {
        wrong(format!("the payload in `{path}` is {why}; set `--encoding` for other contents"))
    };
    Ok(read.and_then(JobPayload::json).map_err(why)?)
}

fn wrong(message: String) -> CliError {
    CliError::new(FailureCode::Usage, message)
}
