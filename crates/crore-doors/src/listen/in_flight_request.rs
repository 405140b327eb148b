//! The request in flight on a connection. Its pending response can outlive hyper's connection state, which
//! [`http1`](super::http1) drops while a response is slow.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONNECTION, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;

use super::connection::ConnectionContext;

/// A pending response.
pub(super) type PendingResponse = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The request in flight, if any. Clones share the same state.
#[derive(Clone)]
pub(super) struct InFlightRequest(Arc<InFlightShared>);

struct InFlightShared {
    context: ConnectionContext,
    state: Mutex<InFlightState>,
}

#[derive(Default)]
struct InFlightState {
    /// Number of requests so far.
    number: u64,
    response: Option<PendingResponse>,
    /// The response to the next request, if that is a stand-in for one whose hyper state was dropped.
    stand_in_response: Option<Response>,
    /// Whether hyper's connection state may be dropped once the body is read.
    is_detachable: bool,
    is_body_read: Arc<AtomicBool>,
}

impl InFlightRequest {
    pub(super) fn new(context: ConnectionContext) -> Self {
        Self(Arc::new(InFlightShared { context, state: Mutex::default() }))
    }

    pub(super) fn context(&self) -> &ConnectionContext {
        &self.0.context
    }

    fn lock(&self) -> MutexGuard<'_, InFlightState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the request in flight, if its response does not need hyper's connection state.
    pub(super) fn detachable(&self) -> Option<u64> {
        let state = self.lock();
        let can = state.response.is_some()
            && state.is_detachable
            && state.is_body_read.load(Ordering::Acquire);
        can.then_some(state.number)
    }

    /// Takes the pending response out.
    pub(super) fn take_response(&self) -> Option<PendingResponse> {
        self.lock().response.take()
    }

    /// Sets the response to the next request, which is a stand-in.
    pub(super) fn set_stand_in_response(&self, response: Response) {
        self.lock().stand_in_response = Some(response);
    }
}

impl Service<Request<Incoming>> for InFlightRequest {
    type Response = Response;
    type Error = Infallible;
    type Future = InFlightResponse;

    fn call(&self, request: Request<Incoming>) -> InFlightResponse {
        let mut state = self.lock();
        state.number += 1;
        if let Some(stand_in) = state.stand_in_response.take() {
            state.is_detachable = false;
            state.response = Some(Box::pin(ready(stand_in)));
            return InFlightResponse(self.clone());
        }
        state.is_detachable = is_detachable(&request);
        // A fresh flag: the body of the previous request may still be alive.
        state.is_body_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let is_read = Arc::clone(&state.is_body_read);
        let response = self.0.context.handle(request.map(|body| WatchedBody { body, is_read }));
        state.response = Some(Box::pin(response.map(|Ok(response)| response)));
        drop(state);
        InFlightResponse(self.clone())
    }
}

/// Whether the response to a request needs nothing from the request, and the connection stays open after it.
fn is_detachable(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let is_keep_alive =
        |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    request.version() == Version::HTTP_11
        && matches!(*request.method(), Method::GET | Method::POST)
        && headers.get_all(CONNECTION).iter().all(is_keep_alive)
        && ![EXPECT, TRANSFER_ENCODING, UPGRADE].iter().any(|name| headers.contains_key(name))
}

/// The response to the request in flight.
pub(super) struct InFlightResponse(InFlightRequest);

impl Future for InFlightResponse {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        // A response that was taken out is awaited elsewhere.
        let Some(response) = &mut state.response else { return Poll::Pending };
        let response = ready!(response.as_mut().poll(context));
        state.response = None;
        Poll::Ready(Ok(response))
    }
}

/// A body that records when it was read to its end.
struct WatchedBody {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
