//! Server reflection: looks up the message types of a method.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::FileDescriptorProto;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::channel::GrpcChannel;

/// The supported versions of the protocol. Their messages are the same on the wire.
const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// Maximum number of files to request.
const MAX_FILES: usize = 500;

/// Maximum total size of the files in bytes.
const MAX_BYTES: usize = 8 << 20;

/// Why the lookup of a method failed.
pub(super) enum ReflectionError {
    /// The server refused or did not answer.
    Refused(Status),
    /// The server's reply cannot be used.
    Unusable(String),
}

impl From<Status> for ReflectionError {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// The descriptor of a method, from the server's reflection service.
pub(super) async fn method(
    channel: &GrpcChannel,
    service: &str,
    method: &str,
) -> Result<MethodDescriptor, ReflectionError> {
    let mut files = None;
    for version in VERSIONS {
        match all_files(channel, version, service).await {
            Err(ReflectionError::Refused(status)) if status.code() == Code::Unimplemented => {}
            result => {
                files = Some(result?);
                break;
            }
        }
    }
    let files = files.ok_or_else(|| unusable("it does not support server reflection"))?;
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files)
        .map_err(|error| unusable(format!("invalid server reflection: {error}")))?;
    let described = pool
        .get_service_by_name(service)
        .and_then(|service| service.methods().find(|known| known.name() == method))
        .ok_or_else(|| unusable(format!("no method `{method}` in `{service}`")))?;
    if described.is_client_streaming() || described.is_server_streaming() {
        return Err(unusable(format!(
            "`{method}` is a streaming method; only unary methods can be called"
        )));
    }
    Ok(described)
}

fn unusable(why: impl Into<String>) -> ReflectionError {
    ReflectionError::Unusable(why.into())
}

/// The file that defines a service, and all files that it imports.
async fn all_files(
    channel: &GrpcChannel,
    version: &'static str,
    service: &str,
) -> Result<Vec<FileDescriptorProto>, ReflectionError> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let (mut loaded, mut requested, mut missing) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut message = MessageRequest::FileContainingSymbol(service.to_owned());
    loop {
        for file in send(channel, version, message).await? {
            bytes += file.len();
            let file = FileDescriptorProto::decode(&*file)
                .map_err(|error| unusable(format!("invalid server reflection: {error}")))?;
            if loaded.insert(file.name().to_owned()) {
                missing.extend(file.dependency.iter().cloned());
                files.push(file);
            }
        }
        if files.len().max(requested.len()) > MAX_FILES || bytes > MAX_BYTES {
            return Err(unusable("its server reflection exceeds the size limit"));
        }
        missing.retain(|name| !loaded.contains(name) && !requested.contains(name));
        match missing.pop_first() {
            // Each file is requested only once. A file that stays missing is an error when the files are
            // linked.
            Some(name) => {
                requested.insert(name.clone());
                message = MessageRequest::FileByFilename(name);
            }
            None => return Ok(files),
        }
    }
}

/// Sends one reflection request.
async fn send(
    channel: &GrpcChannel,
    version: &'static str,
    message: MessageRequest,
) -> Result<Vec<Vec<u8>>, ReflectionError> {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let request = Request::new(futures_util::stream::iter([request]));
    let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::new();
    let mut grpc = channel.grpc(MAX_BYTES);
    let responses = grpc.streaming(request, PathAndQuery::from_static(version), codec).await?;
    let response = responses.into_inner().next().await.transpose()?;
    match response.and_then(|response| response.message_response) {
        Some(MessageResponse::FileDescriptorResponse(files)) => Ok(files.file_descriptor_proto),
        Some(MessageResponse::ErrorResponse(error)) => {
            // `UNIMPLEMENTED` is reserved for an unsupported protocol version.
            let code = match Code::from_i32(error.error_code) {
                Code::Unimplemented => Code::NotFound,
                code => code,
            };
            Err(Status::new(code, error.error_message).into())
        }
        _ => Err(unusable("unexpected reply of server reflection")),
    }
}
