//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use crore_api::access::Certificate;
use crore_api::request_log;
use futures_util::future::{Either, ready};
use http::Request;
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::{BoxError, Service};

use super::life::{Life, Turn};
use super::patient::{Patient, Protocol};
use super::{House, Phase, http1};
use crate::grpc;

/// A connection, as its requests see it.
#[derive(Clone)]
pub(super) struct Front {
    house: Arc<House>,
    peer: SocketAddr,
    local: SocketAddr,
    certificate: Option<Certificate>,
}

/// Serves a connection, in TLS if that is spoken here.
pub(super) async fn serve(
    house: Arc<House>,
    stream: TcpStream,
    peer: SocketAddr,
    phase: watch::Receiver<Phase>,
) {
    // One that has no address any more is gone.
    let Ok(local) = stream.local_addr() else { return };
    let life = Life::new(phase, house.options.max_age.into());
    let mut front = Front { house, peer, local, certificate: None };
    let Some(tls) = front.house.tls.clone() else { return speak(front, stream, life).await };
    // In a box, so that those who speak without do not need as much room.
    Box::pin(async move {
        // Whoever does not speak TLS, or shows a certificate that does not hold, is not heard.
        if let Ok((stream, certificate)) = tls.accept(stream).await {
            front.certificate = certificate;
            speak(front, Box::new(stream), life).await;
        }
    })
    .await;
}

/// Serves a connection until it ends, is too slow or too old, or the server stops.
async fn speak<S>(front: Front, stream: S, mut life: Life)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let options = &front.house.options;
    let mut io = Patient::new(stream, options.write_time.into());
    let protocol = tokio::select! {
        protocol = timeout(options.first_bytes_time.into(), io.protocol()) => protocol,
        _ = life.turn() => return,
    };
    match protocol {
        Ok(Ok(Protocol::Http1)) => http1::serve(front, io, life).await,
        Ok(Ok(Protocol::Http2)) => Box::pin(speak_http2(front, io, life)).await,
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn speak_http2<S>(front: Front, io: Patient<S>, mut life: Life)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let house = Arc::clone(&front.house);
    let service = service_fn(move |request: Request<Incoming>| front.answer(request));
    let mut connection = house.http2.serve_connection(TokioIo::new(io), service);
    loop {
        tokio::select! {
            biased;
            // One that ends with an error has nobody left to tell.
            _ = &mut connection => return,
            turn = life.turn() => match turn {
                Turn::End => Pin::new(&mut connection).graceful_shutdown(),
                // The streams that were there live on: not every worker comes back when its own is cut. One whose
                // other end is gone does not answer pings.
                Turn::Late => {}
                Turn::Leave => return,
            },
        }
    }
}

impl Front {
    pub(super) fn house(&self) -> &Arc<House> {
        &self.house
    }

    /// The answer to a request, unless it is meant for another server, or a page of another site has made it.
    pub(super) fn answer<B>(
        &self,
        mut request: Request<B>,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send + use<B>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let house = &self.house;
        if let Err(fault) = house.guard.check(&request, self.local) {
            house.metrics.turned_away("guard");
            let refused = match grpc::is_grpc(request.headers()) {
                true => grpc::refused(request.headers(), fault),
                false => fault.into_response(),
            };
            request_log::write(request.method(), request.uri().path(), &refused, Duration::ZERO);
            return Either::Right(ready(Ok(refused)));
        }
        request.extensions_mut().insert(ConnectInfo(self.peer));
        if let Some(certificate) = &self.certificate {
            request.extensions_mut().insert(certificate.clone());
        }
        Either::Left(house.router.clone().call(request))
    }
}
