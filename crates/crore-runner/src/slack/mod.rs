//! The slack runner: posts the result of a job to Slack, by a webhook or by the chat API with a token.

mod message;
mod response;
mod settings;

use bytes::Bytes;
use crore_core::Invalid;
use crore_outbound::Url;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::Value;

use crate::argument::decode_object;
use crate::context::RunContext;
use crate::http::{HttpClient, HttpRequest, header_value};
use crate::mask::Masks;
use crate::network::{NetworkAccess, call_timeout, denied, with_timeout};
use crate::runner::{MakeFuture, Output, RunFailure, RunFuture, Runner, RunnerFactory, Task};
use message::SlackJobSummary;
use settings::{SlackSettings, SlackTarget, parse_callable_url};

/// Maximum size of a response; Slack's are short.
const MAX_ANSWER: u64 = 64 << 10;

/// The runner type `slack`: each job posts one message about another job that has ended.
#[derive(Debug, Clone)]
pub struct SlackFactory {
    network: NetworkAccess,
    client: HttpClient,
}

impl SlackFactory {
    /// A factory whose runners call only what `network` allows.
    pub fn new(network: NetworkAccess) -> Self {
        let client = HttpClient::new(network.outbound());
        Self { network, client }
    }
}

impl RunnerFactory for SlackFactory {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn must_be_allowed(&self) -> bool {
        false
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        SlackSettings::read(settings, &self.network).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let parsed = SlackSettings::read(settings, &self.network)?;
            let (network, client) = (self.network.clone(), self.client.clone());
            Ok(Box::new(SlackRunner { settings: parsed, network, client }) as Box<dyn Runner>)
        })
    }
}

/// Posts with the settings of a handler.
#[derive(Debug)]
struct SlackRunner {
    settings: SlackSettings,
    network: NetworkAccess,
    client: HttpClient,
}

impl Runner for SlackRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        let timeout = call_timeout(task, self.settings.timeout);
        Box::pin(with_timeout(context, timeout, self.post(task)))
    }
}

impl SlackRunner {
    async fn post(&self, task: &Task) -> Result<Output, RunFailure> {
        let ended: SlackJobSummary = decode_object(task).map_err(not_a_summary)?;
        let message = match ended.message(&self.settings.title) {
            Some(message) if self.settings.reports(ended.state) => message,
            _ => return Ok(Output::bytes("not sent")),
        };
        let mut masks = Masks::default();
        let request = self.build_request(message, &mut masks).await?;
        let origin = request.url.origin();
        let response = self.client.send(request, MAX_ANSWER).await?;
        response::check_response(&origin, &response, &masks)?;
        Ok(Output::bytes("OK"))
    }

    async fn build_request(
        &self,
        mut message: Value,
        masks: &mut Masks,
    ) -> Result<HttpRequest, RunFailure> {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        headers.insert(CONTENT_TYPE, json);
        headers.insert(USER_AGENT, HeaderValue::from_static("crore"));
        let url = match &self.settings.target {
            SlackTarget::Webhook(webhook) => {
                let text = masks.look_up(webhook).await?;
                let url =
                    parse_callable_url("settings.webhook", &text, &self.network).map_err(denied)?;
                mask_webhook(&url, masks);
                url
            }
            SlackTarget::Api { url, token, channel } => {
                let bearer = format!("Bearer {}", masks.look_up(token).await?);
                let mut bearer = header_value("settings.token", &bearer)?;
                bearer.set_sensitive(true);
                headers.insert(AUTHORIZATION, bearer);
                message["channel"] = channel.as_str().into();
                url.clone()
            }
        };
        let body = Bytes::from(message.to_string());
        Ok(HttpRequest { method: Method::POST, url, headers, body })
    }
}

/// Adds a hint to the failure of a payload that is no job summary; most likely it is the output of a job.
fn not_a_summary(mut failure: RunFailure) -> RunFailure {
    failure.error += "; the slack runner takes job summaries: follow another handler with `gives: summary`, \
                      which is `--on-success` and `--on-failure` of `crore handler set`";
    failure
}

/// Masks all of a webhook URL except its origin: the rest is as secret as a password.
fn mask_webhook(webhook: &Url, masks: &mut Masks) {
    let uri = webhook.to_uri().unwrap_or_default();
    let rest = uri.path_and_query().map_or("", |rest| rest.as_str());
    masks.add(rest);
    rest.split(['/', '?', '&', '=']).for_each(|part| masks.add(part));
}
