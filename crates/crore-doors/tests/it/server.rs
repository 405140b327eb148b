//! A server on a free port, and a client for it in both encodings.

use bytes::Bytes;
use crore::Engine;
use crore_doors::tls::Tls;
use crore_doors::{Doors, Options, listen};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The encoding of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyEncoding {
    Json,
    Msgpack,
}

impl BodyEncoding {
    pub(crate) const BOTH: [Self; 2] = [Self::Json, Self::Msgpack];

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Msgpack => "application/msgpack",
        }
    }

    pub(crate) fn encode(self, value: &Value) -> Vec<u8> {
        match self {
            Self::Json => serde_json::to_vec(value).expect("a value"),
            Self::Msgpack => rmp_serde::to_vec_named(value).expect("a value"),
        }
    }

    fn decode(self, bytes: &[u8]) -> Value {
        match self {
            _ if bytes.is_empty() => Value::Null,
            Self::Json => serde_json::from_slice(bytes).expect("an answer in JSON"),
            Self::Msgpack => rmp_serde::from_slice(bytes).expect("an answer in MessagePack"),
        }
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct ServerResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl ServerResponse {
    /// Status, code and field of a problem.
    pub(crate) fn problem(&self) -> (u16, &str, Option<&str>) {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str);
        (self.status.as_u16(), text("code").unwrap_or_default(), text("field"))
    }
}

/// A server, until it is dropped or stopped.
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) doors: Doors,
    pub(crate) address: std::net::SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Result<(), listen::ListenError>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(Options::default(), listen::Options::default()).await
    }

    pub(crate) async fn start_with(options: Options, listening: listen::Options) -> Self {
        Self::start_on(Engine::memory(), options, listening).await
    }

    pub(crate) async fn start_on(
        engine: Engine,
        options: Options,
        listening: listen::Options,
    ) -> Self {
        Self::open(Doors::new(engine, options), listening, None).await
    }

    /// Serves these doors, with or without TLS.
    pub(crate) async fn open(doors: Doors, listening: listen::Options, tls: Option<Tls>) -> Self {
        let engine = doors.engine().clone();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let listener = match tls {
            Some(tls) => listen::Listener::secure(listener, tls),
            None => listener.into(),
        };
        let (stop, stopped) = oneshot::channel();
        let served = doors.served();
        let shutdown = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(listen::serve(listener, served, listening, shutdown));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { engine, doors, address, client, stop: Some(stop), serving: Some(serving) }
    }

    /// A call with a body, in one of the encodings.
    pub(crate) async fn call(
        &self,
        encoding: BodyEncoding,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> ServerResponse {
        let bytes = body.map(|body| encoding.encode(body));
        let kind = bytes.as_ref().map(|_| encoding.media_type());
        let headers: Vec<_> = kind.map(|kind| (CONTENT_TYPE.as_str(), kind)).into_iter().collect();
        self.send(encoding, (method, path), &headers, bytes.unwrap_or_default()).await
    }

    pub(crate) async fn get(&self, encoding: BodyEncoding, path: &str) -> ServerResponse {
        self.call(encoding, Method::GET, path, None).await
    }

    pub(crate) async fn post(
        &self,
        encoding: BodyEncoding,
        path: &str,
        body: &Value,
    ) -> ServerResponse {
        self.call(encoding, Method::POST, path, Some(body)).await
    }

    /// A call with arbitrary bytes and headers, answered in one of the encodings.
    pub(crate) async fn send(
        &self,
        encoding: BodyEncoding,
        (method, path): (Method, &str),
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> ServerResponse {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        request.headers_mut().insert(ACCEPT, encoding.media_type().parse().expect("a type"));
        for (name, value) in headers {
            let name: http::HeaderName = name.parse().expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        let response = self.client.request(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a complete response").to_bytes();
        ServerResponse {
            status: parts.status,
            headers: parts.headers,
            body: encoding.decode(&bytes),
        }
    }

    /// An HTML page.
    pub(crate) async fn page(&self, path: &str) -> (HeaderMap, String) {
        let uri = format!("http://{}{path}", self.address).parse().expect("an address");
        let (parts, body) = self.client.get(uri).await.expect("an answer").into_parts();
        assert_eq!(parts.status, StatusCode::OK);
        let bytes = body.collect().await.expect("a complete response").to_bytes();
        (parts.headers, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    /// The status of a HEAD request.
    pub(crate) async fn head_status(&self, path: &str) -> StatusCode {
        let request = Request::builder()
            .method(Method::HEAD)
            .uri(format!("http://{}{path}", self.address))
            .body(Full::default())
            .expect("a request");
        self.client.request(request).await.expect("an answer").status()
    }

    /// A connection for raw bytes.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Stops the server, and returns its task.
    pub(crate) fn stop(&mut self) -> JoinHandle<Result<(), listen::ListenError>> {
        let _ = self.stop.take().expect("not stopped yet").send(());
        self.serving.take().expect("not stopped yet")
    }
}

/// Waits until the check holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(check: impl FnMut() -> F) {
    let pause = |pause| tokio::time::sleep_until(tokio::time::Instant::now() + pause);
    crore_testkit::eventually_async(std::time::Duration::from_secs(10), pause, check).await;
}
