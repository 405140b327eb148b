//! What a server says of itself: which message a method takes, and which it gives.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::FileDescriptorProto;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest as Question;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse as Answer;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

use super::line::Line;

/// The two versions that are spoken; their messages are the same on the wire.
const VERSIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// The most files that are asked for.
const FILES: usize = 500;

/// The most bytes that all of them may have.
const BYTES: usize = 8 << 20;

/// Why nothing is known of a method.
pub(super) enum Unknown {
    /// The server would not say.
    Unsaid(Status),
    /// What it says does not do.
    Unfit(String),
}

impl From<Status> for Unknown {
    fn from(status: Status) -> Self {
        Self::Unsaid(status)
    }
}

/// What is known of a method, by what its server says.
pub(super) async fn method(
    line: &Line,
    service: &str,
    method: &str,
) -> Result<MethodDescriptor, Unknown> {
    let mut files = None;
    for version in VERSIONS {
        match all_files(line, version, service).await {
            Err(Unknown::Unsaid(status)) if status.code() == Code::Unimplemented => {}
            answered => {
                files = Some(answered?);
                break;
            }
        }
    }
    let files = files.ok_or_else(|| {
        unfit("it does not say of itself what its messages are (server reflection)")
    })?;
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files)
        .map_err(|error| unfit(format!("what it says of itself is wrong: {error}")))?;
    let described = pool
        .get_service_by_name(service)
        .and_then(|service| service.methods().find(|known| known.name() == method))
        .ok_or_else(|| unfit(format!("there is no method `{method}` in `{service}`")))?;
    if described.is_client_streaming() || described.is_server_streaming() {
        return Err(unfit(format!("`{method}` is no call with one answer: it has a stream")));
    }
    Ok(described)
}

fn unfit(why: impl Into<String>) -> Unknown {
    Unknown::Unfit(why.into())
}

/// The file that a service stands in, and all that it needs.
async fn all_files(
    line: &Line,
    version: &'static str,
    service: &str,
) -> Result<Vec<FileDescriptorProto>, Unknown> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let (mut known, mut asked, mut wanted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut question = Question::FileContainingSymbol(service.to_owned());
    loop {
        for file in ask(line, version, question).await? {
            bytes += file.len();
            let file = FileDescriptorProto::decode(&*file)
                .map_err(|error| unfit(format!("what it says of itself is wrong: {error}")))?;
            if known.insert(file.name().to_owned()) {
                wanted.extend(file.dependency.iter().cloned());
                files.push(file);
            }
        }
        if files.len().max(asked.len()) > FILES || bytes > BYTES {
            return Err(unfit("it says more of itself than is read"));
        }
        wanted.retain(|name| !known.contains(name) && !asked.contains(name));
        match wanted.pop_first() {
            // Asked for once, given or not: what is missing is told when the files are joined.
            Some(name) => {
                asked.insert(name.clone());
                question = Question::FileByFilename(name);
            }
            None => return Ok(files),
        }
    }
}

/// One question about a server, and its answer.
async fn ask(
    line: &Line,
    version: &'static str,
    question: Question,
) -> Result<Vec<Vec<u8>>, Unknown> {
    let question = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let asked = Request::new(futures_util::stream::iter([question]));
    let codec = ProstCodec::<ServerReflectionRequest, ServerReflectionResponse>::new();
    let mut grpc = line.grpc(BYTES);
    let answers = grpc.streaming(asked, PathAndQuery::from_static(version), codec).await?;
    let answer = answers.into_inner().next().await.transpose()?;
    match answer.and_then(|answer| answer.message_response) {
        Some(Answer::FileDescriptorResponse(files)) => Ok(files.file_descriptor_proto),
        Some(Answer::ErrorResponse(error)) => {
            // Not `UNIMPLEMENTED`, which would be about the version.
            let code = match Code::from_i32(error.error_code) {
                Code::Unimplemented => Code::NotFound,
                code => code,
            };
            Err(Status::new(code, error.error_message).into())
        }
        _ => Err(unfit("what it says of itself is no answer to the question")),
    }
}
