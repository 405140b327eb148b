//! A scripted gRPC server with server reflection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::pending;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost_reflect::DescriptorPool;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic_reflection::server::Builder;
use tower::Service;

/// The service, in a file with two imports.
const FILES: [(&str, &str); 2] = [
    (
        "money.proto",
        r#"syntax = "proto3"; package shop; message Money { int64 cents = 1; string currency = 2; }"#,
    ),
    (
        "shop.proto",
        r#"syntax = "proto3"; package shop;
        import "money.proto";
        import "google/protobuf/timestamp.proto";
        message Payment { string by = 1; Money amount = 2; google.protobuf.Timestamp at = 3; }
        message Receipt { uint64 number = 1; Money amount = 2; repeated string lines = 3; }
        service Till {
            rpc Pay(Payment) returns (Receipt);
            rpc PayMany(stream Payment) returns (Receipt);
            rpc Watch(Payment) returns (stream Receipt);
        }"#,
    ),
];

/// The message types of the server.
pub(crate) fn pool() -> DescriptorPool {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in FILES {
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    let files = protox::compile(["shop.proto"], [dir.path()]).expect("valid files");
    DescriptorPool::from_file_descriptor_set(files).expect("they fit")
}

/// A recorded call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) message: Bytes,
}

/// A scripted response.
#[derive(Debug, Clone)]
pub(crate) enum ScriptedResponse {
    Message(Bytes),
    Status(i32, String),
    /// These frames, without trailers.
    Raw(Bytes),
    /// Never responds.
    Nothing,
}

/// The version of server reflection that is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReflectionSupport {
    V1,
    V1Alpha,
    Not,
}

type ResponseScript = Arc<dyn Fn(&Call) -> ScriptedResponse + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, tonic::Status>;

/// A server on loopback. Dropping it closes its connections.
pub(crate) struct Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<RecordedCalls>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct RecordedCalls {
    calls: Mutex<Vec<Call>>,
    connections: AtomicUsize,
    /// Calls that were dropped before a response.
    dropped: AtomicUsize,
    questions: AtomicUsize,
}

impl Server {
    pub(crate) async fn start(
        reflects: ReflectionSupport,
        answers: impl Fn(&Call) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), None, reflects, Arc::new(answers)).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        reflects: ReflectionSupport,
        answers: ResponseScript,
    ) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(RecordedCalls::default());
        let sees = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                sees.connections.fetch_add(1, Ordering::SeqCst);
                let (sees, answers) = (Arc::clone(&sees), Arc::clone(&answers));
                let service = service_fn(move |request| {
                    serve(request, reflects, Arc::clone(&sees), Arc::clone(&answers))
                });
                let tls = tls.clone();
                connections.spawn(async move {
                    let server = http2::Builder::new(TokioExecutor::new());
                    // The client may close the connection at any time.
                    let _ = match tls {
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => {
                                server.serve_connection(TokioIo::new(stream), service).await
                            }
                            Err(_) => return,
                        },
                        None => server.serve_connection(TokioIo::new(stream), service).await,
                    };
                });
            }
        });
        Self { address, scheme, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.seen.calls.lock().expect("no panic").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.seen.dropped.load(Ordering::SeqCst)
    }

    /// The number of reflection requests.
    pub(crate) fn questions(&self) -> usize {
        self.seen.questions.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    request: Request<Incoming>,
    reflects: ReflectionSupport,
    seen: Arc<RecordedCalls>,
    answers: ResponseScript,
) -> Result<Response<Body>, Infallible> {
    let is_about = |package: &str| request.uri().path().starts_with(package);
    let about = || {
        seen.questions.fetch_add(1, Ordering::SeqCst);
        Builder::configure().register_encoded_file_descriptor_set(described())
    };
    if is_about("/grpc.reflection.v1.") && reflects == ReflectionSupport::V1 {
        let mut service = about().build_v1().expect("valid files");
        return service.call(request).await.map(|answer| answer.map(BodyExt::boxed_unsync));
    }
    if is_about("/grpc.reflection.v1alpha.") && reflects == ReflectionSupport::V1Alpha {
        let mut service = about().build_v1alpha().expect("valid files");
        return service.call(request).await.map(|answer| answer.map(BodyExt::boxed_unsync));
    }
    if is_about("/grpc.reflection.") {
        return Ok(answer(ScriptedResponse::Status(12, String::new())));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a complete request").to_bytes();
    // One byte of flags, four bytes of length.
    let message = body.slice(5..);
    let call = Call { path: head.uri.path().to_owned(), headers: head.headers, message };
    seen.calls.lock().expect("no panic").push(call.clone());
    let says = answers(&call);
    if let ScriptedResponse::Nothing = says {
        let _counts = DroppedCall(seen);
        pending::<()>().await;
    }
    Ok(answer(says))
}

/// Counts when the future that holds it is dropped.
struct DroppedCall(Arc<RecordedCalls>);

impl Drop for DroppedCall {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn described() -> &'static [u8] {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| {
        let files = pool().file_descriptor_protos().cloned().collect();
        prost_types::FileDescriptorSet { file: files }.encode_to_vec()
    })
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("small"));
    frame.put_slice(message);
    frame.freeze()
}

fn answer(says: ScriptedResponse) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    let (data, status, text) = match says {
        ScriptedResponse::Message(message) => (Some(framed(&message)), Some(0), String::new()),
        ScriptedResponse::Status(status, text) => (None, Some(status), text),
        ScriptedResponse::Raw(bytes) => (Some(bytes), None, String::new()),
        ScriptedResponse::Nothing => unreachable!("it is waited for"),
    };
    if let Some(status) = status {
        trailers.insert("grpc-status", status.into());
        trailers.insert("grpc-message", HeaderValue::from_str(&text).expect("plain"));
    }
    let frames = [data.map(Frame::data), status.map(|_| Frame::trailers(trailers))];
    let frames = frames.into_iter().flatten().map(Ok);
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    Response::builder().header("content-type", "application/grpc").body(body).expect("good")
}
