//! The grpc runner: a job is one unary gRPC call.

mod bytes_codec;
mod channel;
mod reflection;
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

use crate::context::RunContext;
use crate::http::header_value;
use crate::mask::Masks;
use crate::network::{NetworkAccess, call_timeout, with_timeout};
use crate::runner::{
    EncodedBytes, MakeFuture, Output, RunFailure, RunFuture, Runner, RunnerFactory, Task,
};
use bytes_codec::BytesCodec;
use channel::{GrpcChannel, Http2Client};
use reflection::ReflectionError;
use settings::{GrpcPayload, GrpcSettings};

/// The runner type `grpc`: one call per job. All runners of one factory share its connections.
#[derive(Debug, Clone)]
pub struct GrpcFactory {
    network: NetworkAccess,
    client: Http2Client,
}

impl GrpcFactory {
    /// A factory whose runners call only what `network` allows.
    pub fn new(network: NetworkAccess) -> Self {
        let client = channel::client(network.outbound());
        Self { network, client }
    }
}

impl RunnerFactory for GrpcFactory {
    fn name(&self) -> &'static str {
        "grpc"
    }

    fn must_be_allowed(&self) -> bool {
        false
    }

    fn check(&self, settings: &Value) -> Result<(), Invalid> {
        GrpcSettings::read(settings, &self.network).map(drop)
    }

    fn make<'a>(&'a self, settings: &'a Value) -> MakeFuture<'a> {
        Box::pin(async move {
            let parsed = GrpcSettings::read(settings, &self.network)?;
            let channel = GrpcChannel::new(self.client.clone(), &parsed.url)?;
            Ok(Box::new(GrpcRunner { settings: parsed, channel, method: OnceCell::new() })
                as Box<dyn Runner>)
        })
    }
}

/// Calls the method of a handler.
#[derive(Debug)]
struct GrpcRunner {
    settings: GrpcSettings,
    channel: GrpcChannel,
    /// The method's descriptor, cached after the first reflection request.
    method: OnceCell<MethodDescriptor>,
}

impl Runner for GrpcRunner {
    fn run<'a>(&'a self, task: &'a Task, context: &'a RunContext) -> RunFuture<'a> {
        let timeout = call_timeout(task, self.settings.deadline);
        Box::pin(with_timeout(context, timeout, self.call(task, timeout)))
    }
}

impl GrpcRunner {
    async fn call(&self, task: &Task, timeout: Span) -> Result<Output, RunFailure> {
        let mut masks = Masks::default();
        let mut headers = HeaderMap::new();
        for (name, secret) in &self.settings.metadata {
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
            status::failure(
                &self.settings.url.to_string(),
                &self.settings.url.origin(),
                &status,
                &masks,
            )
        };
        match self.settings.payload {
            GrpcPayload::Bytes => {
                let message = task.payload.bytes.clone();
                let response = self.send(message, headers, timeout).await.map_err(failed)?;
                Ok(Output {
                    items: vec![EncodedBytes { encoding: Encoding::Protobuf, bytes: response }],
                })
            }
            GrpcPayload::Json => {
                let lookup = reflection::method(
                    &self.channel,
                    &self.settings.service,
                    &self.settings.method,
                );
                let known = self.method.get_or_try_init(|| lookup).await;
                let method = known.map_err(|unknown| match unknown {
                    ReflectionError::Refused(status) => failed(status),
                    ReflectionError::Unusable(why) => {
                        let error = masks.apply(&format!("`{}`: {why}", self.settings.url));
                        RunFailure::fatal(error).with("reason", "reflection")
                    }
                })?;
                let message = from_json(method, task)?;
                let response = self.send(message, headers, timeout).await.map_err(failed)?;
                to_json(method, response, self.settings.max_answer.0)
            }
        }
    }

    async fn send(
        &self,
        message: Bytes,
        headers: HeaderMap,
        timeout: Span,
    ) -> Result<Bytes, Status> {
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        request.set_timeout(timeout.into());
        let max = usize::try_from(self.settings.max_answer.0).unwrap_or(usize::MAX);
        let mut grpc = self.channel.grpc(max);
        let response = grpc.unary(request, self.settings.path.clone(), BytesCodec).await?;
        Ok(response.into_inner())
    }
}

/// Encodes a JSON payload as the method's request message.
fn from_json(method: &MethodDescriptor, task: &Task) -> Result<Bytes, RunFailure> {
    let wrong = |why: &dyn std::fmt::Display| {
        let input = method.input();
        let error = format!("payload: not a `{}` in JSON: {why}", input.full_name());
        RunFailure::other(error).with("reason", "payload")
    };
    let mut reader = serde_json::Deserializer::from_slice(&task.payload.bytes);
    let message = DynamicMessage::deserialize(method.input(), &mut reader);
    let message = message.and_then(|message| reader.end().map(|()| message));
    Ok(message.map_err(|error| wrong(&error))?.encode_to_vec().into())
}

/// Converts a response message to JSON.
fn to_json(method: &MethodDescriptor, response: Bytes, max: u64) -> Result<Output, RunFailure> {
    let wrong = |why: String| {
        let output = method.output();
        let error = format!("the response is not a `{}`: {why}", output.full_name());
        RunFailure::other(error).with("reason", "answer")
    };
    let message = DynamicMessage::decode(method.output(), response);
    let message = message.map_err(|error| wrong(error.to_string()))?;
    // The server chooses the field names too, so the size in JSON is not bounded by that of the message.
    let max = usize::try_from(max.saturating_mul(MAX_JSON_GROWTH)).unwrap_or(usize::MAX);
    let mut json = BoundedBuffer { bytes: Vec::new(), max };
    serde_json::to_writer(&mut json, &message).map_err(|error| wrong(error.to_string()))?;
    let json = json.bytes;
    Ok(Output { items: vec![EncodedBytes { encoding: Encoding::Json, bytes: json.into() }] })
}

/// Maximum size of a response in JSON, as a multiple of its size in bytes.
const MAX_JSON_GROWTH: u64 = 8;

/// A buffer with a maximum size.
struct BoundedBuffer {
    bytes: Vec<u8>,
    max: usize,
}

impl io::Write for BoundedBuffer {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if more.len() > self.max - self.bytes.len() {
            return Err(io::Error::other("too large in JSON"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
