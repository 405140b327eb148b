//! gRPC: the messages and services of `proto/`, and what they mean to the rules.

mod codec;
mod job;
mod push;
mod report;
mod words;
mod worker;

/// Our own services.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "it is made from the files under `proto`"
)]
pub mod v1 {
    tonic::include_proto!("crore.v1");
}

/// Lakh.
#[expect(
    unused_qualifications,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "it is made from the files under `proto`"
)]
pub mod lakh {
    tonic::include_proto!("lakh");
}

/// jobworkerp.
pub mod jobworkerp {
    /// What its messages are about.
    pub mod data {
        tonic::include_proto!("jobworkerp.data");
    }

    /// Its calls.
    #[expect(
        unused_qualifications,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "it is made from the files under `proto`"
    )]
    pub mod service {
        tonic::include_proto!("jobworkerp.service");
    }
}

/// All files, as reflection tells them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

use crore_core::{Invalid, Span, Time};
use prost::Message;

pub use codec::{Bounded, Codec, unreadable};
pub use report::follow_ups;
pub use words::{field, read_word, word};
pub use worker::Handlers;

/// What stands in the details of a status: `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// The number of the status.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// Its message.
    #[prost(string, tag = "2")]
    pub message: String,
    /// What is known besides.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<prost_types::Any>,
}

impl RpcStatus {
    /// The bytes of a status about a problem.
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
            field: field(&invalid.field),
            message: invalid.message.clone(),
        }
    }
}

/// An instant, in the numbers of the wire.
fn at(time: Time) -> i64 {
    time.as_millis()
}

/// A span, in the numbers of the wire.
fn millis(span: Span) -> u64 {
    span.as_millis()
}
