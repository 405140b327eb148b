//! A server in this process on a real socket, and a client for it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use crore::Engine;
use crore_doors::{Doors, Options, listen};
use crore_testkit::{PollResult, eventually_async};
use crore_wire::Format;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crore_testkit::http_peer::pause;

/// A server, until it is dropped.
pub(crate) struct LocalServer {
    pub(crate) engine: Engine,
    address: SocketAddr,
    doors: Doors,
    serving: JoinHandle<()>,
    pushing: JoinHandle<()>,
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LocalResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl LocalResponse {
    /// The body, decoded by its content type.
    pub(crate) fn body(&self) -> Value {
        let kind = self.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.contains("json") {
            serde_json::from_slice(&self.bytes).expect("JSON")
        } else {
            rmp_serde::from_slice(&self.bytes).unwrap_or(Value::Null)
        }
    }
}

impl LocalServer {
    /// Starts on an engine in memory.
    pub(crate) async fn start() -> Self {
        Self::on(Engine::memory(), |_| {}).await
    }

    /// Starts on an engine with changed options. It listens on loopback only, so that it may call loopback.
    pub(crate) async fn on(engine: Engine, change: impl FnOnce(&mut Options)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let mut options = Options::default();
        options.outbound.listens = vec![address];
        change(&mut options);
        let doors = Doors::new(engine.clone(), options);
        let (router, closing) = (doors.router(), doors.clone());
        let serving = tokio::spawn(async move {
            let shutdown = closing.closing();
            listen::serve(listener, router, listen::Options::default(), shutdown)
                .await
                .expect("it ends");
        });
        let (service, closing) = (doors.push_workers(), doors.clone());
        let pushing = tokio::spawn(async move { service.run(closing.closing()).await });
        Self { engine, address, doors, serving, pushing }
    }

    /// Stops gracefully: requests in flight finish.
    pub(crate) async fn stop(mut self) {
        self.doors.close();
        (&mut self.serving).await.expect("it serves without a panic");
        (&mut self.pushing).await.expect("it pushes without a panic");
        self.engine.stop().expect("acknowledged writes are kept");
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A request with a MessagePack body, as LightJQ clients send it.
    pub(crate) async fn post(&self, path: &str, body: Value) -> LocalResponse {
        self.ask(Method::POST, path, &[], Some((Format::Msgpack, body))).await
    }

    pub(crate) async fn get(&self, path: &str) -> LocalResponse {
        self.ask(Method::GET, path, &[], None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> LocalResponse {
        self.ask(Method::DELETE, path, &[], None).await
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<(Format, Value)>,
    ) -> LocalResponse {
        let mut all = HeaderMap::new();
        if let Some((format, _)) = &body {
            all.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
            all.insert(ACCEPT, HeaderValue::from_static("*/*"));
        }
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).expect("a name");
            all.insert(name, value.parse().expect("a value"));
        }
        let bytes = body.map(|(format, body)| format.encode(&body)).unwrap_or_default();
        self.send(method, path, all, bytes.into()).await
    }

    /// A request with exactly these bytes.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> LocalResponse {
        let stream = TcpStream::connect(self.address).await.expect("it listens");
        let connected = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        let (mut sender, connection) = connected;
        let connection = tokio::spawn(connection);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a path");
        *request.headers_mut() = headers;
        let host = HeaderValue::try_from(self.address.to_string()).expect("a host");
        request.headers_mut().insert("host", host);
        let response = sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a complete response").to_bytes();
        connection.abort();
        LocalResponse { status: head.status.as_u16(), headers: head.headers, bytes }
    }

    /// Pushes a LightJQ job, and returns its id.
    pub(crate) async fn push(&self, job: Value) -> String {
        let pushed = self.post("/job", job).await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
        pushed.body()["job_id"].as_str().expect("an id").to_owned()
    }

    /// Registers a push worker at a URL, and returns its id.
    pub(crate) async fn join(&self, url: &str, max_jobs: u32) -> String {
        let body = serde_json::json!({"name": "w", "max_jobs": max_jobs, "url": url});
        let joined = self.post("/worker", body).await;
        assert_eq!(joined.status, 201, "{joined:?}");
        joined.body()["worker_id"].as_str().expect("an id").to_owned()
    }

    /// Sends a worker's report.
    pub(crate) async fn done(&self, worker: &str, report: Value) -> u16 {
        let body = Some((Format::Msgpack, report));
        self.ask(Method::POST, "/done", &[("worker-id", worker)], body).await.status
    }

    /// The status of a LightJQ job.
    pub(crate) async fn status(&self, id: &str) -> Value {
        let answer = self.get(&format!("/job/{id}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body()
    }

    /// Waits until a LightJQ job has this status.
    pub(crate) async fn until(&self, id: &str, status: &str) -> Value {
        eventually(|| async {
            let response = self.status(id).await;
            if response["status"] == status { Ok(response) } else { Err(response) }
        })
        .await
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        self.serving.abort();
        self.pushing.abort();
    }
}

/// Waits until the check holds, at most half a minute.
pub(crate) async fn eventually<C: PollResult, F: Future<Output = C>>(
    check: impl FnMut() -> F,
) -> C::Value {
    eventually_async(Duration::from_secs(30), pause, check).await
}
