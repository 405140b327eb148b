//! The http runner: a job is one HTTP call.

mod client;
mod headers;
mod redirect;
mod request;
mod response;
mod retry_header;
mod settings;

use crore_core::Invalid;
use serde_json::Value;

pub(crate) use client::{HttpClient, HttpRequest, HttpResponse};
pub(crate) use headers::{name as header_name, value as header_value};
pub(crate) use response::unexpected_status;
pub(crate) use retry_header::retry_after;
pub(crate) use settings::max_answer;

use crate::context::RunContext;
use crate::mask::Masks;
use crate::network::{NetworkAccess, call_timeout, with_timeout};
use crate::runner::{MakeFuture, Output, RunFailure, RunFuture, Runner, RunnerFactory, Task};
use settings::HttpSettings;

/// The runner type `http`: one call per job. All runners of one factory share its connections.
#[derive(Debug, Clone)]
pub struct HttpFactory {
    network: NetworkAccess,
    client: HttpClient,
}

impl HttpFactory {
    /// A factory whose runners call only what `network` allows.
    pub fn new(network: NetworkAccess) -> Self {
        let client = HttpClient::new(network.outbound());
        Self { network, client }
    }
}

impl RunnerFactory for HttpFactory {
    fn name(&self) -> &'static str {
        "http"
    }

    fn must_be_allowed(&self) -> bool {
        false
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        HttpSettings::read(settings, &self.network).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let parsed = HttpSettings::read(settings, &self.network)?;
            let (network, client) = (self.network.clone(), self.client.clone());
            Ok(Box::new(HttpRunner { settings: parsed, network, client }) as Box<dyn Runner>)
        })
    }
}

/// Calls the URL of a handler.
#[derive(Debug)]
struct HttpRunner {
    settings: HttpSettings,
    network: NetworkAccess,
    client: HttpClient,
}

impl Runner for HttpRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        let timeout = call_timeout(task, self.settings.timeout);
        Box::pin(with_timeout(context, timeout, self.call(task)))
    }
}

impl HttpRunner {
    async fn call(&self, task: &Task) -> Result<Output, RunFailure> {
        let mut masks = Masks::default();
        let mut request =
            request::build_request(&self.settings, &self.network, task, &mut masks).await?;
        let max = self.settings.max_answer.0;
        for left in (0..=self.settings.redirects).rev() {
            // The last request can be moved: no redirect follows it.
            let sent = match left {
                0 => request.take(),
                _ => request.clone(),
            };
            let response = self.client.send(sent, max).await?;
            if self.settings.expects(response.status.as_u16()) {
                return if response.is_complete {
                    Ok(response::output(response))
                } else {
                    Err(response::too_large(&request.url, &response, &masks))
                };
            }
            let next = if left > 0 {
                redirect::redirected_request(&request, &response, &self.network)?
            } else {
                None
            };
            match next {
                Some(next) => request = next,
                None => return Err(unexpected_status(&request.url.to_string(), &response, &masks)),
            }
        }
        unreachable!("the last round follows no redirect")
    }
}
