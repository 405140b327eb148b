//! What a handler says of its messages, read and checked.

use crore_core::{Code, Invalid};
use crore_outbound::Url;
use crore_wire::words::Period;
use serde::Deserialize;
use serde_json::Value;

use super::message::State;
use crate::reach::Reach;
use crate::secret::Secret;
use crate::settings::read;

/// Where messages are posted with a token, unless settings name another place.
const API: &str = "https://slack.com/api/chat.postMessage";

/// The settings as they are written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    webhook: Option<Secret>,
    token: Option<Secret>,
    channel: Option<String>,
    api: Option<String>,
    title: Option<String>,
    success: Option<bool>,
    failure: Option<bool>,
    timeout: Option<Period>,
}

/// Where messages go.
#[derive(Debug)]
pub(super) enum Place {
    /// To a URL that is the secret.
    Webhook(Secret),
    /// To a channel, by a token.
    Api { url: Url, token: Secret, channel: String },
}

/// The settings as they are used.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) place: Place,
    pub(super) title: String,
    success: bool,
    failure: bool,
    pub(super) timeout: Option<Period>,
}

impl Plan {
    pub(super) fn read(settings: &Value, reach: &Reach) -> Result<Self, Invalid> {
        let said: Settings = read(settings)?;
        let wrong = |field: &str, message: &str| {
            Err(Invalid::new(Code::Malformed, format!("settings.{field}"), message))
        };
        if said.timeout.is_some_and(|time| time.0.is_zero()) {
            return wrong("timeout", "`0s` is no time to answer in");
        }
        let place = match (said.webhook, said.token, said.channel) {
            (Some(_), Some(_), _) => {
                return wrong("webhook", "there is a `token` too; take one of them");
            }
            (Some(_), None, Some(_)) => return wrong("channel", "is chosen by the webhook"),
            (Some(webhook), None, None) => {
                if said.api.is_some() {
                    return wrong("api", "is for a `token`, not for a webhook");
                }
                if !webhook.is_reference() {
                    let text = webhook.resolve().unwrap_or_default();
                    called("settings.webhook", &text, reach)?;
                }
                Place::Webhook(webhook)
            }
            (None, Some(token), Some(channel)) if !channel.is_empty() => {
                let url = called("settings.api", said.api.as_deref().unwrap_or(API), reach)?;
                Place::Api { url, token, channel }
            }
            (None, Some(_), _) => return wrong("channel", "a `token` needs a `channel`"),
            (None, None, _) => {
                return wrong("webhook", "there must be a `webhook`, or a `token`");
            }
        };
        Ok(Self {
            place,
            title: said.title.unwrap_or_else(|| "job result".to_owned()),
            success: said.success.unwrap_or(true),
            failure: said.failure.unwrap_or(true),
            timeout: said.timeout,
        })
    }

    /// Whether it is to be told that a job ended so.
    pub(super) const fn wants(&self, state: State) -> bool {
        match state {
            State::Done => self.success,
            State::Dead => self.failure,
        }
    }
}

/// A URL that may be called. What is wrong with it is told without it: it may be the secret.
pub(super) fn called(field: &str, text: &str, reach: &Reach) -> Result<Url, Invalid> {
    let url = Url::parse(field, text)
        .map_err(|invalid| Invalid::new(invalid.code, field, "is no url that can be called"))?;
    reach.check(field, &url).map(|()| url)
}
