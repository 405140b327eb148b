//! Runs a job as a call by HTTP.

mod after;
mod answer;
mod client;
mod follow;
mod headers;
mod question;
mod settings;

use crore_core::Invalid;
use serde_json::Value;

pub(crate) use after::retry_after;
pub(crate) use answer::refused;
pub(crate) use client::{Answer, Client, Question};
pub(crate) use headers::{name as header_name, value as header_value};
pub(crate) use settings::max_answer;

use crate::context::Context;
use crate::mask::Masks;
use crate::reach::{Reach, bounded, time_for};
use crate::runner::{Failure, Maker, Making, Output, Runner, Running, Task};
use settings::Plan;

/// The sort `http`: a call of a URL for each job. All runners of one maker share its connections.
#[derive(Debug, Clone)]
pub struct Http {
    reach: Reach,
    client: Client,
}

impl Http {
    /// Calls whom one may reach.
    pub fn new(reach: Reach) -> Self {
        let client = Client::new(reach.outbound());
        Self { reach, client }
    }
}

impl Maker for Http {
    fn name(&self) -> &'static str {
        "http"
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
            Ok(Box::new(Caller { plan, reach, client }) as Box<dyn Runner>)
        })
    }
}

/// Calls as a handler says.
#[derive(Debug)]
struct Caller {
    plan: Plan,
    reach: Reach,
    client: Client,
}

impl Runner for Caller {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        let time = time_for(task, self.plan.timeout);
        Box::pin(bounded(context, time, self.call(task)))
    }
}

impl Caller {
    async fn call(&self, task: &Task) -> Result<Output, Failure> {
        let mut masks = Masks::default();
        let mut question = question::question(&self.plan, &self.reach, task, &mut masks).await?;
        let most = self.plan.max_answer.0;
        for left in (0..=self.plan.redirects).rev() {
            // The last question is needed for no further one.
            let asked = match left {
                0 => question.take(),
                _ => question.clone(),
            };
            let answer = self.client.ask(asked, most).await?;
            if self.plan.expects(answer.status.as_u16()) {
                return if answer.is_whole {
                    Ok(answer::output(answer))
                } else {
                    Err(answer::too_large(&question.url, &answer, &masks))
                };
            }
            let next = if left > 0 { follow::next(&question, &answer, &self.reach)? } else { None };
            match next {
                Some(next) => question = next,
                None => return Err(refused(&question.url.to_string(), &answer, &masks)),
            }
        }
        unreachable!("the last time round there is no next question")
    }
}
