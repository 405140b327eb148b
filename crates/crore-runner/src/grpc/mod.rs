//! Runs a job as a call by gRPC, of a method with one message each way.

mod line;
mod raw;
mod reflect;
mod settings;
mod status;

use std::io;

use bytes::Bytes;
use crore_core::{Encoding, Invalid, Span};
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::Value;
use tokio::sync::OnceCell;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::context::Context;
use crate::http::header_value;
use crate::mask::Masks;
use crate::reach::{Reach, bounded, time_for};
use crate::runner::{Failure, Item, Maker, Making, Output, Runner, Running, Task};
use line::{Client, Line};
use raw::Raw;
use reflect::Unknown;
use settings::{Meaning, Plan};

/// The sort `grpc`: a call for each job. All runners of one maker share its connections.
#[derive(Debug, Clone)]
pub struct Grpc {
    reach: Reach,
    client: Client,
}

impl Grpc {
    /// Calls whom one may reach.
    pub fn new(reach: Reach) -> Self {
        let client = line::client(reach.outbound());
        Self { reach, client }
    }
}

impl Maker for Grpc {
    fn name(&self) -> &'static str {
        "grpc"
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
            let line = Line::new(self.client.clone(), &plan.url)?;
            Ok(Box::new(Caller { plan, line, method: OnceCell::new() }) as Box<dyn Runner>)
        })
    }
}

/// Calls as a handler says.
#[derive(Debug)]
struct Caller {
    plan: Plan,
    line: Line,
    /// What the other end says of the method, once it was asked.
    method: OnceCell<MethodDescriptor>,
}

impl Runner for Caller {
    fn run<'a>(&'a self, task: &'a Task, context: &'a Context) -> Running<'a> {
        let time = time_for(task, self.plan.deadline);
        Box::pin(bounded(context, time, self.call(task, time)))
    }
}

impl Caller {
    async fn call(&self, task: &Task, time: Span) -> Result<Output, Failure> {
        let mut masks = Masks::default();
        let mut headers = HeaderMap::new();
        for (name, secret) in &self.plan.metadata {
            let value = masks.look_up(secret).await?;
            let mut value = header_value(&format!("settings.metadata.{name}"), &value)?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("crore"));
        if let Some(Ok(trace)) = task.trace.as_deref().map(HeaderValue::from_str) {
            headers.entry(HeaderName::from_static("traceparent")).or_insert(trace);
        }
        let failed = |status: Status| {
            status::failure(&self.plan.url.to_string(), &self.plan.url.origin(), &status, &masks)
        };
        match self.plan.payload {
            Meaning::Bytes => {
                let message = task.payload.bytes.clone();
                let answer = self.ask(message, headers, time).await.map_err(failed)?;
                Ok(Output { items: vec![Item { encoding: Encoding::Protobuf, bytes: answer }] })
            }
            Meaning::Json => {
                let about = reflect::method(&self.line, &self.plan.service, &self.plan.method);
                let known = self.method.get_or_try_init(|| about).await;
                let method = known.map_err(|unknown| match unknown {
                    Unknown::Unsaid(status) => failed(status),
                    Unknown::Unfit(why) => {
                        let error = masks.apply(&format!("`{}`: {why}", self.plan.url));
                        Failure::fatal(error).with("reason", "reflection")
                    }
                })?;
                let message = from_json(method, task)?;
                let answer = self.ask(message, headers, time).await.map_err(failed)?;
                to_json(method, answer, self.plan.max_answer.0)
            }
        }
    }

    async fn ask(&self, message: Bytes, headers: HeaderMap, time: Span) -> Result<Bytes, Status> {
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        request.set_timeout(time.into());
        let most = usize::try_from(self.plan.max_answer.0).unwrap_or(usize::MAX);
        let mut grpc = self.line.grpc(most);
        let answer = grpc.unary(request, self.plan.path.clone(), Raw).await?;
        Ok(answer.into_inner())
    }
}

/// The message that a payload says in JSON, as bytes.
fn from_json(method: &MethodDescriptor, task: &Task) -> Result<Bytes, Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        let input = method.input();
        let error = format!("payload: is no `{}` in JSON: {why}", input.full_name());
        Failure::other(error).with("reason", "payload")
    };
    let mut reader = serde_json::Deserializer::from_slice(&task.payload.bytes);
    let message = DynamicMessage::deserialize(method.input(), &mut reader);
    let message = message.and_then(|message| reader.end().map(|()| message));
    Ok(message.map_err(|error| wrong(&error))?.encode_to_vec().into())
}

/// What an answer says, in JSON.
fn to_json(method: &MethodDescriptor, answer: Bytes, most: u64) -> Result<Output, Failure> {
    let wrong = |why: String| {
        let output = method.output();
        let error = format!("the answer is no `{}`: {why}", output.full_name());
        Failure::other(error).with("reason", "answer")
    };
    let message = DynamicMessage::decode(method.output(), answer);
    let message = message.map_err(|error| wrong(error.to_string()))?;
    // The other end has chosen the names too, so that there is no telling how long it is.
    let most = usize::try_from(most.saturating_mul(MORE_IN_JSON)).unwrap_or(usize::MAX);
    let mut json = Bounded { bytes: Vec::new(), most };
    serde_json::to_writer(&mut json, &message).map_err(|error| wrong(error.to_string()))?;
    let json = json.bytes;
    Ok(Output { items: vec![Item { encoding: Encoding::Json, bytes: json.into() }] })
}

/// How many times longer than its bytes an answer may be in JSON.
const MORE_IN_JSON: u64 = 8;

/// Bytes, up to so many.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if more.len() > self.most - self.bytes.len() {
            return Err(io::Error::other("in JSON it is too large"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
