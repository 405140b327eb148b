//! The request that is under way on a connection, apart from the library that reads and writes it.

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

use super::connection::Front;

/// An answer to come.
pub(super) type Coming = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The request that is under way, if there is one. Cloning gives another handle to the same.
#[derive(Clone)]
pub(super) struct UnderWay(Arc<Shared>);

struct Shared {
    front: Front,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many requests there were.
    number: u64,
    answer: Option<Coming>,
    /// What the next request is answered with, which only stands for one.
    given: Option<Response>,
    /// Whether the request can be forgotten once its body was read.
    is_plain: bool,
    is_read: Arc<AtomicBool>,
}

impl UnderWay {
    pub(super) fn new(front: Front) -> Self {
        Self(Arc::new(Shared { front, state: Mutex::default() }))
    }

    pub(super) fn front(&self) -> &Front {
        &self.0.front
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the request that is under way, if nothing of it has to be known to write its answer.
    pub(super) fn can_be_forgotten(&self) -> Option<u64> {
        let state = self.lock();
        let can = state.answer.is_some() && state.is_plain && state.is_read.load(Ordering::Acquire);
        can.then_some(state.number)
    }

    /// The answer to come, which this forgets.
    pub(super) fn take(&self) -> Option<Coming> {
        self.lock().answer.take()
    }

    /// What the next request is answered with.
    pub(super) fn give(&self, answer: Response) {
        self.lock().given = Some(answer);
    }
}

impl Service<Request<Incoming>> for UnderWay {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: Request<Incoming>) -> Answer {
        let mut state = self.lock();
        state.number += 1;
        if let Some(given) = state.given.take() {
            state.is_plain = false;
            state.answer = Some(Box::pin(ready(given)));
            return Answer(self.clone());
        }
        state.is_plain = is_plain(&request);
        // The body of another request may still be there.
        state.is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let is_read = Arc::clone(&state.is_read);
        let answer = self.0.front.answer(request.map(|body| Watched { body, is_read }));
        state.answer = Some(Box::pin(answer.map(|Ok(answer)| answer)));
        drop(state);
        Answer(self.clone())
    }
}

/// Whether the answer to a request is written as that to any other, and the connection goes on after it.
fn is_plain(request: &Request<Incoming>) -> bool {
    let headers = request.headers();
    let goes_on = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    request.version() == Version::HTTP_11
        && matches!(*request.method(), Method::GET | Method::POST)
        && headers.get_all(CONNECTION).iter().all(goes_on)
        && ![EXPECT, TRANSFER_ENCODING, UPGRADE].iter().any(|name| headers.contains_key(name))
}

/// The answer to the request that is under way.
pub(super) struct Answer(UnderWay);

impl Future for Answer {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        // One that was taken away is awaited elsewhere.
        let Some(answer) = &mut state.answer else { return Poll::Pending };
        let answer = ready!(answer.as_mut().poll(context));
        state.answer = None;
        Poll::Ready(Ok(answer))
    }
}

/// A body that says when it was read to its end.
struct Watched {
    body: Incoming,
    is_read: Arc<AtomicBool>,
}

impl Body for Watched {
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
