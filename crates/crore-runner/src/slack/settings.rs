//! Settings of the slack runner.

use crore_core::{Code, Invalid};
use crore_outbound::Url;
use crore_wire::units::Period;
use serde::Deserialize;
use serde_json::Value;

use super::message::SlackJobState;
use crate::network::NetworkAccess;
use crate::secret::SecretRef;
use crate::settings::read;

/// Default URL of the chat API.
const DEFAULT_API: &str = "https://slack.com/api/chat.postMessage";

/// The settings as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSlackSettings {
    webhook: Option<SecretRef>,
    token: Option<SecretRef>,
    channel: Option<String>,
    api: Option<String>,
    title: Option<String>,
    success: Option<bool>,
    failure: Option<bool>,
    timeout: Option<Period>,
}

/// The destination of messages.
#[derive(Debug)]
pub(super) enum SlackTarget {
    /// A webhook URL, which is a secret itself.
    Webhook(SecretRef),
    /// A channel, through the chat API.
    Api { url: Url, token: SecretRef, channel: String },
}

/// The checked settings.
#[derive(Debug)]
pub(super) struct SlackSettings {
    pub(super) target: SlackTarget,
    pub(super) title: String,
    success: bool,
    failure: bool,
    pub(super) timeout: Option<Period>,
}

impl SlackSettings {
    pub(super) fn read(settings: &Value, network: &NetworkAccess) -> Result<Self, Invalid> {
        let raw: RawSlackSettings = read(settings)?;
        let wrong = |field: &str, message: &str| {
            Err(Invalid::new(Code::Malformed, format!("settings.{field}"), message))
        };
        if raw.timeout.is_some_and(|time| time.0.is_zero()) {
            return wrong("timeout", "must be longer than `0s`");
        }
        let target = match (raw.webhook, raw.token, raw.channel) {
            (Some(_), Some(_), _) => {
                return wrong("webhook", "set either `webhook` or `token`, not both");
            }
            (Some(_), None, Some(_)) => {
                return wrong("channel", "must be absent: the webhook determines the channel");
            }
            (Some(webhook), None, None) => {
                if raw.api.is_some() {
                    return wrong("api", "must be absent: it applies only with a `token`");
                }
                if !webhook.is_reference() {
                    let text = webhook.resolve().unwrap_or_default();
                    parse_callable_url("settings.webhook", &text, network)?;
                }
                SlackTarget::Webhook(webhook)
            }
            (None, Some(token), Some(channel)) if !channel.is_empty() => {
                let url = parse_callable_url(
                    "settings.api",
                    raw.api.as_deref().unwrap_or(DEFAULT_API),
                    network,
                )?;
                SlackTarget::Api { url, token, channel }
            }
            (None, Some(_), _) => return wrong("channel", "a `token` needs a `channel`"),
            (None, None, _) => {
                return wrong("webhook", "set a `webhook` or a `token`");
            }
        };
        Ok(Self {
            target,
            title: raw.title.unwrap_or_else(|| "job result".to_owned()),
            success: raw.success.unwrap_or(true),
            failure: raw.failure.unwrap_or(true),
            timeout: raw.timeout,
        })
    }

    /// Whether jobs that end in this state are reported.
    pub(super) const fn reports(&self, state: SlackJobState) -> bool {
        match state {
            SlackJobState::Done => self.success,
            SlackJobState::Dead => self.failure,
        }
    }
}

/// Parses a URL that may be called. The error omits the URL, which may be a secret.
pub(super) fn parse_callable_url(
    field: &str,
    text: &str,
    network: &NetworkAccess,
) -> Result<Url, Invalid> {
    let url = Url::parse(field, text)
        .map_err(|invalid| Invalid::new(invalid.code, field, "is not a URL that can be called"))?;
    network.check(field, &url).map(|()| url)
}
