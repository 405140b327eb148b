//! What stands around a call: a function of the request and of what is behind it.
//!
//! As axum's `from_fn`, which boxes what is behind it once more and copies all of that for every request: about 750
//! instructions more for each layer, and a call of gRPC passes three.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use futures_util::FutureExt;
use futures_util::future::NeverError;
use tower::{Layer, Service};

/// Puts a function around calls. It is given what it has to know, the request, and what is behind it.
pub(crate) fn around<T, F>(known: T, pass: F) -> Around<T, F> {
    Around { known, pass }
}

/// What to put around.
#[derive(Clone)]
pub(crate) struct Around<T, F> {
    known: T,
    pass: F,
}

impl<T: Clone, F: Clone> Layer<Route> for Around<T, F> {
    type Service = Within<T, F>;

    fn layer(&self, inner: Route) -> Within<T, F> {
        Within { around: self.clone(), next: Next(Arc::new(inner)) }
    }
}

/// A call within.
#[derive(Clone)]
pub(crate) struct Within<T, F> {
    around: Around<T, F>,
    next: Next,
}

impl<T, F, A> Service<Request> for Within<T, F>
where
    T: Clone,
    F: Fn(T, Request, Next) -> A,
    A: Future<Output = Response>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = NeverError<A>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let Around { known, pass } = &self.around;
        pass(known.clone(), request, self.next.clone()).never_error()
    }
}

/// What is behind.
#[derive(Clone)]
pub(crate) struct Next(Arc<Route>);

impl Next {
    pub(crate) async fn run(self, request: Request) -> Response {
        let answer = Route::clone(&self.0).call(request);
        // Whoever waits long keeps the answer to come, and no more.
        drop(self);
        match answer.await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}
