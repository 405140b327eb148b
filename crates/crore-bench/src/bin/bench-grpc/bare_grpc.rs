//! A bare tonic server: it answers a push at once, and every message of a worker's stream with one of its own.

use std::convert::Infallible;

use crore_wire::grpc::v1;
use futures_util::StreamExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

/// Serves on a free port, which it prints, until it is killed.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("a bare server listens on http://{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let http = http2::Builder::new(TokioExecutor::new());
                // An error is a client that has closed its connection.
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<tonic::body::Body>, Infallible> {
    if request.uri().path().ends_with("/Push") {
        let mut grpc = Grpc::new(ProstCodec::<v1::PushResponse, v1::PushRequest>::default());
        return Ok(grpc.unary(tower::service_fn(push), request).await);
    }
    let mut grpc = Grpc::new(ProstCodec::<v1::ServerSays, v1::WorkerSays>::default());
    Ok(grpc.streaming(tower::service_fn(stream), request).await)
}

async fn push(
    request: tonic::Request<v1::PushRequest>,
) -> Result<tonic::Response<v1::PushResponse>, Status> {
    let pushed = v1::Pushed { id: 1_234_567, ..v1::Pushed::default() };
    let jobs = vec![pushed; request.into_inner().jobs.len()];
    Ok(tonic::Response::new(v1::PushResponse { jobs, ..v1::PushResponse::default() }))
}

type ServerMessages = futures_util::stream::BoxStream<'static, Result<v1::ServerSays, Status>>;

async fn stream(
    request: tonic::Request<Streaming<v1::WorkerSays>>,
) -> Result<tonic::Response<ServerMessages>, Status> {
    let says = request.into_inner().map(|message| message.map(|_| v1::ServerSays::default()));
    Ok(tonic::Response::new(says.boxed()))
}
