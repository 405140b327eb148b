//! Tells Slack how a job ended: by a webhook, or by the chat API with a token.

mod answer;
mod message;
mod settings;

use bytes::Bytes;
use crore_core::Invalid;
use crore_outbound::Url;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::Value;

use crate::argument::object;
use crate::context::Context;
use crate::http::{Client, Question, header_value};
use crate::mask::Masks;
use crate::reach::{Reach, bounded, denied, time_for};
use crate::runner::{Failure, Maker, Making, Output, Runner, Running, Task};
use message::Ended;
use settings::{Place, Plan, called};

/// Slack's answers are short.
const MAX_ANSWER: u64 = 64 << 10;

/// The sort `slack`: a message for each job, about a job that has ended.
#[derive(Debug, Clone)]
pub struct Slack {
    reach: Reach,
    client: Client,
}

impl Slack {
    /// Calls whom one may reach.
    pub fn new(reach: Reach) -> Self {
        let client = Client::new(reach.outbound());
        Self { reach, client }
    }
}

impl Maker for Slack {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn needs_leave(&self) -> bool {
        false
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        Plan::read(settings, &self.reach).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> Making<'a> {
        Box::pin(async move {
            let plan = Plan::read(settings, &self.reach)?;
            let (reach, client) = (self.reach.clone(), self.client.clone());
            Ok(Box::new(Teller { plan, reach, client }) as Box<dyn Runner>)
        })
    }
}

/// Tells as a handler says.
#[derive(Debug)]
struct Teller {
    plan: Plan,
    reach: Reach,
    client: Client,
}

impl Runner for Teller {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        let time = time_for(task, self.plan.timeout);
        Box::pin(bounded(context, time, self.tell(task)))
    }
}

impl Teller {
    async fn tell(&self, task: &Task) -> Result<Output, Failure> {
        let ended: Ended = object(task).map_err(untold)?;
        let message = match ended.message(&self.plan.title) {
            Some(message) if self.plan.wants(ended.state) => message,
            _ => return Ok(Output::bytes("not sent")),
        };
        let mut masks = Masks::default();
        let question = self.question(message, &mut masks).await?;
        let origin = question.url.origin();
        let answer = self.client.ask(question, MAX_ANSWER).await?;
        answer::judge(&origin, &answer, &masks)?;
        Ok(Output::bytes("OK"))
    }

    async fn question(&self, mut message: Value, masks: &mut Masks) -> Result<Question, Failure> {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        headers.insert(CONTENT_TYPE, json);
        headers.insert(USER_AGENT, HeaderValue::from_static("crore"));
        let url = match &self.plan.place {
            Place::Webhook(webhook) => {
                let text = masks.look_up(webhook).await?;
                let url = called("settings.webhook", &text, &self.reach).map_err(denied)?;
                hide(&url, masks);
                url
            }
            Place::Api { url, token, channel } => {
                let bearer = format!("Bearer {}", masks.look_up(token).await?);
                let mut bearer = header_value("settings.token", &bearer)?;
                bearer.set_sensitive(true);
                headers.insert(AUTHORIZATION, bearer);
                message["channel"] = channel.as_str().into();
                url.clone()
            }
        };
        let body = Bytes::from(message.to_string());
        Ok(Question { method: Method::POST, url, headers, body })
    }
}

/// A payload that does not say how a job ended: most likely it is what came out of one.
fn untold(mut failure: Failure) -> Failure {
    failure.error += "; this runner is told how a job ended: follow another handler by `gives: summary`, \
                      which is `--on-success` and `--on-failure` of `crore handler set`";
    failure
}

/// Whom a webhook calls may be told; the rest of it is as good as a password, wherever it is written.
fn hide(webhook: &Url, masks: &mut Masks) {
    let uri = webhook.to_uri().unwrap_or_default();
    let rest = uri.path_and_query().map_or("", |rest| rest.as_str());
    masks.add(rest);
    rest.split(['/', '?', '&', '=']).for_each(|part| masks.add(part));
}
