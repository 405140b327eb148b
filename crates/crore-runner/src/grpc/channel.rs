//! Pooled gRPC connections.

use std::time::Duration;

use crore_outbound::{Connector, HttpVersions, Outbound, Url};
use http::Uri;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::body::Body;
use tonic::client::Grpc;

use crate::network::denied;
use crate::runner::RunFailure;

/// A pool of HTTP/2 connections. Clones share it.
pub(super) type Http2Client = legacy::Client<Connector, Body>;

pub(super) fn client(outbound: &Outbound) -> Http2Client {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(true)
        .http2_max_header_list_size(64 << 10)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .build(outbound.connector(HttpVersions::Http2))
}

/// The destination of calls. The first call connects.
#[derive(Debug, Clone)]
pub(super) struct GrpcChannel {
    client: Http2Client,
    origin: Uri,
}

impl GrpcChannel {
    pub(super) fn new(client: Http2Client, url: &Url) -> Result<Self, RunFailure> {
        let cannot = |_| denied("the URL cannot be used in a request");
        Ok(Self { client, origin: url.origin().parse().map_err(cannot)? })
    }

    /// A client that refuses responses larger than `max` bytes.
    pub(super) fn grpc(&self, max: usize) -> Grpc<Http2Client> {
        let grpc = Grpc::with_origin(self.client.clone(), self.origin.clone());
        grpc.max_decoding_message_size(max)
    }
}
