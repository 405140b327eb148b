//! An HTTP client with pooled connections.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crore_outbound::{Connector, HttpVersions, Outbound, Url};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::network::{denied, no_response};
use crate::runner::RunFailure;

/// Maximum size of a response head.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Idle timeout of a pooled connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpRequest {
    /// Moves the request out. Keeps the URL, which error messages need.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: std::mem::take(&mut self.headers),
            body: std::mem::take(&mut self.body),
        }
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The body, up to the requested limit.
    pub(crate) body: Bytes,
    /// Whether the body is complete.
    pub(crate) is_complete: bool,
}

/// Calls addresses that the operator allows. Clones share the connections. Uses no proxy, no cookies and no
/// decompression, and does not follow redirects.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(legacy::Client<Connector, Full<Bytes>>);

impl HttpClient {
    pub(crate) fn new(outbound: &Outbound) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .http2_max_header_list_size(64 << 10)
            .http2_keep_alive_interval(Duration::from_secs(20));
        Self(builder.build(outbound.connector(HttpVersions::Http)))
    }

    /// Sends a request and reads at most `max` bytes of the response. It has no timeout of its own; dropping
    /// the future aborts the call.
    pub(crate) async fn send(
        &self,
        request: HttpRequest,
        max: u64,
    ) -> Result<HttpResponse, RunFailure> {
        let HttpRequest { method, url, headers, body } = request;
        let mut http_request = Request::new(Full::new(body));
        *http_request.method_mut() = method;
        *http_request.uri_mut() = url.to_uri().map_err(denied)?;
        *http_request.headers_mut() = headers;
        let response = self.0.request(http_request).await;
        let response = response.map_err(|error| no_response(&url.origin(), &error))?;
        let (head, body) = response.into_parts();
        let read = read(body, max).await;
        let (body, is_complete) = read.map_err(|error| no_response(&url.origin(), &error))?;
        Ok(HttpResponse { status: head.status, headers: head.headers, body, is_complete })
    }
}

/// The first bytes of a body, and whether they are all of it.
async fn read(mut body: Incoming, max: u64) -> Result<(Bytes, bool), hyper::Error> {
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let size_hint = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = BytesMut::with_capacity(size_hint.min(max));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let room = max - bytes.len();
        if data.len() > room {
            bytes.extend_from_slice(&data[..room]);
            return Ok((bytes.freeze(), false));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), true))
}
