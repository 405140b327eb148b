//! gRPC: the generated messages and services of `proto/`, and their conversion to core types.

mod codec;
mod enums;
mod job;
mod operation;
mod push;
mod queue;
mod replay;
mod report;
mod status_name;
mod worker;

/// The native services.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::use_self,
    reason = "generated from the files under `proto`"
)]
pub mod v1 {
    tonic::include_proto!("crore.v1");
}

/// The Lakh service.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated from the files under `proto`"
)]
pub mod lakh {
    tonic::include_proto!("lakh");
}

/// The jobworkerp services.
pub mod jobworkerp {
    /// Data messages.
    pub mod data {
        tonic::include_proto!("jobworkerp.data");
    }

    /// Services.
    #[expect(
        unused_qualifications,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated from the files under `proto`"
    )]
    pub mod service {
        tonic::include_proto!("jobworkerp.service");
    }
}

/// Descriptors of all files under `proto`, served by gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

use crore_core::{Invalid, Span, Time};
use prost::Message;

pub use codec::{BoundedDecoder, Codec, unreadable};
pub use enums::{enum_text, message_field, parse_enum_text};
pub use report::follow_ups;
pub use status_name::status_name;
pub use worker::ReceivedHandlers;

/// `google.rpc.Status`, sent as the binary details of a gRPC status.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// The status code.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<prost_types::Any>,
}

impl RpcStatus {
    /// Encodes a status with a problem as its detail.
    pub fn about(code: i32, message: &str, problem: &v1::Problem) -> Vec<u8> {
        let type_url = "type.googleapis.com/crore.v1.Problem".to_owned();
        let details = vec![prost_types::Any { type_url, value: problem.encode_to_vec() }];
        Self { code, message: message.to_owned(), details }.encode_to_vec()
    }
}

impl From<&Invalid> for v1::Problem {
    fn from(invalid: &Invalid) -> Self {
        Self {
            code: invalid.code.as_str().to_owned(),
            field: message_field(&invalid.field),
            message: invalid.message.clone(),
        }
    }
}

/// An instant in milliseconds since the epoch.
fn epoch_millis(time: Time) -> i64 {
    time.as_millis()
}

/// A duration in milliseconds.
fn millis(span: Span) -> u64 {
    span.as_millis()
}
