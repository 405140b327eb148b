//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::Service;

use super::patient::Patient;
use super::{House, Phase};
use crate::access::Certificate;
use crate::grpc;

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

/// Both ends of a connection.
#[derive(Clone)]
struct Ends {
    peer: SocketAddr,
    local: SocketAddr,
    certificate: Option<Certificate>,
}

/// Serves a connection, in TLS if that is spoken here.
pub(super) async fn serve(
    house: &Arc<House>,
    stream: TcpStream,
    peer: SocketAddr,
    phase: watch::Receiver<Phase>,
) {
    // One that has no address any more is gone.
    let Ok(local) = stream.local_addr() else { return };
    match &house.tls {
        None => speak(house, stream, Ends { peer, local, certificate: None }, phase).await,
        // Whoever does not speak TLS, or shows a certificate that does not hold, is not heard.
        Some(tls) => {
            if let Ok((stream, certificate)) = tls.accept(stream).await {
                speak(house, stream, Ends { peer, local, certificate }, phase).await;
            }
        }
    }
}

/// Serves a connection until it ends, is too slow or too old, or the server stops.
async fn speak<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    house: &Arc<House>,
    stream: S,
    ends: Ends,
    mut phase: watch::Receiver<Phase>,
) {
    let options = &house.options;
    let (io, seen) = Patient::new(stream, options.write_time.0.into());
    let here = Arc::clone(house);
    let service = hyper::service::service_fn(move |request| {
        let (here, ends) = (Arc::clone(&here), ends.clone());
        async move { Ok::<_, Infallible>(answer(&here, ends, request).await) }
    });
    let mut connection = pin!(house.builder.serve_connection(TokioIo::new(io), service));
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

/// The answer to a request, unless it is meant for another server, or a page of another site has made it.
async fn answer(house: &House, ends: Ends, mut request: http::Request<Incoming>) -> Response {
    let Ends { peer, local, certificate } = ends;
    if let Err(fault) = house.guard.check(&request, local) {
        house.metrics.turned_away("guard");
        return match grpc::is_grpc(request.headers()) {
            true => grpc::told(fault),
            false => fault.into_response(),
        };
    }
    request.extensions_mut().insert(ConnectInfo(peer));
    if let Some(certificate) = certificate {
        request.extensions_mut().insert(certificate);
    }
    match house.router.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
