//! Questions and answers by HTTP, over connections that are kept.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crore_outbound::{Connector, Outbound, Speech, Url};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::reach::{denied, unanswered};
use crate::runner::Failure;

/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 64 << 10;

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Question {
    /// Takes the question out; its URL stays, for what is told of the answer.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            method: self.method.clone(),
            url: self.url.clone(),
            headers: std::mem::take(&mut self.headers),
            body: std::mem::take(&mut self.body),
        }
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Not more of it than was wanted.
    pub(crate) body: Bytes,
    /// Whether that is all of it.
    pub(crate) is_whole: bool,
}

/// Asks whom one may call. Cloning shares the connections. There is no proxy, no cookie and no
/// decompression, and redirects are answers like others.
#[derive(Debug, Clone)]
pub(crate) struct Client(legacy::Client<Connector, Full<Bytes>>);

impl Client {
    pub(crate) fn new(outbound: &Outbound) -> Self {
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_max_buf_size(HEAD_BYTES)
            .http2_max_header_list_size(64 << 10)
            .http2_keep_alive_interval(Duration::from_secs(20));
        Self(builder.build(outbound.connector(Speech::Http)))
    }

    /// Asks, and reads at most so many bytes of the answer. How long that may take is the caller's to
    /// say; to drop the future ends the call.
    pub(crate) async fn ask(&self, question: Question, most: u64) -> Result<Answer, Failure> {
        let Question { method, url, headers, body } = question;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.to_uri().map_err(denied)?;
        *request.headers_mut() = headers;
        let answer = self.0.request(request).await;
        let answer = answer.map_err(|error| unanswered(&url.origin(), &error))?;
        let (head, body) = answer.into_parts();
        let read = read(body, most).await;
        let (body, is_whole) = read.map_err(|error| unanswered(&url.origin(), &error))?;
        Ok(Answer { status: head.status, headers: head.headers, body, is_whole })
    }
}

/// The first bytes of a body, and whether they are all.
async fn read(mut body: Incoming, most: u64) -> Result<(Bytes, bool), hyper::Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let said = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = BytesMut::with_capacity(said.min(most));
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        let room = most - bytes.len();
        if data.len() > room {
            bytes.extend_from_slice(&data[..room]);
            return Ok((bytes.freeze(), false));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes.freeze(), true))
}
