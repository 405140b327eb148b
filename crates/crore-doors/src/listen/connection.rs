//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;

use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::Service;

use super::patient::Patient;
use super::{Host, Phase};

/// The bytes of the longest word by which a connection says which protocol it speaks.
const PREFACE: u64 = 24;

/// What is waited for, besides the end of the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is not clear yet which protocol is spoken, and no other time-out is in force.
    Silent,
    /// It is served.
    Served,
    /// It was told to end.
    Ending,
}

/// Serves a connection until it ends, is too slow or too old, or the server stops.
pub(super) async fn serve(
    host: &Host,
    stream: TcpStream,
    peer: SocketAddr,
    mut phase: watch::Receiver<Phase>,
) {
    let options = &host.options;
    let (io, seen) = Patient::new(stream, options.write_time.0.into());
    let router = host.router.clone();
    let service = hyper::service::service_fn(move |request| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(answer(router, peer, request).await) }
    });
    let mut connection = pin!(host.builder.serve_connection(TokioIo::new(io), service));
    let mut stage = Stage::Silent;
    let mut over = pin!(sleep_until(Instant::now() + options.first_bytes_time.0.into()));
    loop {
        tokio::select! {
            biased;
            // One that ends with an error has nobody left to tell.
            _ = connection.as_mut() => return,
            () = over.as_mut() => match stage {
                Stage::Silent if seen.count() >= PREFACE => {
                    stage = Stage::Served;
                    over.as_mut().reset(Instant::now() + options.max_age.0.into());
                }
                Stage::Silent | Stage::Ending => return,
                Stage::Served => {
                    stage = Stage::Ending;
                    connection.as_mut().graceful_shutdown();
                    over.as_mut().reset(Instant::now() + options.max_age.0.into());
                }
            },
            changed = phase.changed() => {
                if changed.is_err() || *phase.borrow() == Phase::Over {
                    return;
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The answer to a request, unless it is one that others might understand differently than we do.
async fn answer(
    mut router: axum::Router,
    peer: SocketAddr,
    mut request: http::Request<Incoming>,
) -> Response {
    if let Err(fault) = crate::http::wellformed(&request) {
        return fault.into_response();
    }
    request.extensions_mut().insert(ConnectInfo(peer));
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
