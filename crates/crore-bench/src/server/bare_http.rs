//! A bare hyper server: it reads each request and answers 200.

use std::convert::Infallible;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// About as long as the answer to a push.
const ANSWER: &[u8] = br#"{"id":"1234567","state":"new"}"#;

/// Serves on a free port, which it prints, until it is killed.
pub fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("a bare server listens on http://{}", listener.local_addr().unwrap());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                // An error is a client that has closed its connection.
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    let answer = Response::builder().header("content-type", "application/json");
    Ok(answer.body(Full::new(Bytes::from_static(ANSWER))).unwrap())
}
