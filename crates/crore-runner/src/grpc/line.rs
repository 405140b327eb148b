//! Calls by gRPC, over connections that are kept.

use std::time::Duration;

use crore_outbound::{Connector, Outbound, Speech, Url};
use http::Uri;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tonic::body::Body;
use tonic::client::Grpc;

use crate::reach::denied;
use crate::runner::Failure;

/// Connections that are kept, by HTTP/2 alone. Cloning shares them.
pub(super) type Client = legacy::Client<Connector, Body>;

pub(super) fn client(outbound: &Outbound) -> Client {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(true)
        .http2_max_header_list_size(64 << 10)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .build(outbound.connector(Speech::Http2))
}

/// Where one calls; the connection is made with the first call.
#[derive(Debug, Clone)]
pub(super) struct Line {
    client: Client,
    origin: Uri,
}

impl Line {
    pub(super) fn new(client: Client, url: &Url) -> Result<Self, Failure> {
        let cannot = |_| denied("the url cannot be sent");
        Ok(Self { client, origin: url.origin().parse().map_err(cannot)? })
    }

    /// One that calls, and takes no message that is larger than this.
    pub(super) fn grpc(&self, most: usize) -> Grpc<Client> {
        let grpc = Grpc::with_origin(self.client.clone(), self.origin.clone());
        grpc.max_decoding_message_size(most)
    }
}
