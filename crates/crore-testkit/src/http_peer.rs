//! An HTTP server with scripted replies that records the calls it receives.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::eventually_async;

/// One recorded call.
#[derive(Debug, Clone)]
pub struct PeerCall {
    /// Its method.
    pub method: Method,
    /// Its target.
    pub uri: Uri,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
}

type ReplyFn = Arc<dyn Fn(usize, &PeerCall) -> Option<Response<Bytes>> + Send + Sync>;

/// How a peer replies.
#[derive(Clone)]
pub enum PeerReply {
    /// By HTTP; `None` closes the connection. The first argument counts the calls, from 0.
    Http(ReplyFn),
    /// By HTTP, and each reply takes a permit of the semaphore.
    Held(Arc<Semaphore>, ReplyFn),
    /// With these bytes to every request; then the connection is closed.
    Raw(Arc<[u8]>),
    /// Not at all: requests are read and never answered.
    Nothing,
}

impl PeerReply {
    /// A reply computed from the call.
    pub fn by(
        answers: impl Fn(usize, &PeerCall) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        Self::Http(Arc::new(answers))
    }

    /// The same, but each reply waits for a permit of `gate`.
    pub fn gated_by(self, gate: &Arc<Semaphore>) -> Self {
        match self {
            Self::Http(answers) => Self::Held(Arc::clone(gate), answers),
            other => other,
        }
    }

    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self::body(status, Vec::new())
    }

    /// A status and a body.
    pub fn body(status: u16, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self::by(move |_, _| Some(response(status).body(body.clone()).expect("a valid response")))
    }

    /// A redirect to `location`.
    pub fn redirect(status: u16, location: &str) -> Self {
        let location = location.to_owned();
        Self::by(move |_, _| {
            let response = response(status).header("location", &location);
            Some(response.body(Bytes::new()).expect("a valid response"))
        })
    }

    /// See [`PeerReply::Raw`].
    pub fn raw(bytes: Vec<u8>) -> Self {
        Self::Raw(bytes.into())
    }

    /// See [`PeerReply::Nothing`].
    pub const fn nothing() -> Self {
        Self::Nothing
    }
}

impl fmt::Debug for PeerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http(_) => "Http",
            Self::Held(..) => "Held",
            Self::Raw(_) => "Raw",
            Self::Nothing => "Nothing",
        })
    }
}

/// A response builder with this status.
pub fn response(status: u16) -> http::response::Builder {
    Response::builder().status(status)
}

/// A server on a port of loopback; dropping it closes all its connections.
#[derive(Debug)]
pub struct Peer {
    address: SocketAddr,
    seen: Arc<PeerLog>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct PeerLog {
    calls: Mutex<Vec<PeerCall>>,
    hung_up: Mutex<usize>,
}

impl PeerLog {
    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<PeerCall>> {
        self.calls.lock().expect("no code panics under this lock")
    }
}

impl Peer {
    /// Starts one on a free port.
    pub async fn start(reply: PeerReply) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), reply).await
    }

    /// Starts one on this address.
    pub async fn start_at(address: SocketAddr, reply: PeerReply) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(PeerLog::default());
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            // Dropping this task drops all connections.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, reply.clone(), Arc::clone(&log)));
            }
        });
        Self { address, seen, task }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Its URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of calls so far.
    pub fn calls(&self) -> usize {
        self.seen.calls().len()
    }

    /// The `n`-th call, from 0.
    pub fn call(&self, n: usize) -> PeerCall {
        self.seen.calls()[n].clone()
    }

    /// Waits until there were at least `n` calls.
    pub async fn until_called(&self, n: usize) {
        let called = || async {
            Err::<(), _>(self.calls()).or_else(|seen| if seen >= n { Ok(()) } else { Err(seen) })
        };
        eventually_async(Duration::from_secs(20), pause, called).await;
    }

    /// Waits until a client that got [`PeerReply::Nothing`] has closed its connection.
    pub async fn wait_hung_up(&self) -> bool {
        let hung_up = || async { *self.seen.hung_up.lock().expect("no panic") > 0 };
        eventually_async(Duration::from_secs(10), pause, hung_up).await;
        true
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pause of [`eventually_async`] under tokio.
#[expect(clippy::disallowed_methods, reason = "`eventually_async` pauses with it")]
pub fn pause(span: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(span)
}

async fn serve(mut stream: TcpStream, reply: PeerReply, seen: Arc<PeerLog>) {
    let open = || Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let reply = match reply {
        PeerReply::Http(answers) => PeerReply::Held(open(), answers),
        other => other,
    };
    match reply {
        PeerReply::Http(_) => unreachable!("replaced by `Held` above"),
        PeerReply::Held(gate, answers) => {
            let service = service_fn(move |request: Request<Incoming>| {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                let gate = Arc::clone(&gate);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                    let (method, uri, headers) = (head.method, head.uri, head.headers);
                    let call = PeerCall { method, uri, headers, body };
                    let n = {
                        let mut calls = seen.calls();
                        calls.push(call.clone());
                        calls.len() - 1
                    };
                    gate.acquire().await.expect("it is never closed").forget();
                    match answers(n, &call) {
                        Some(response) => Ok::<_, HangUp>(response.map(Full::new)),
                        None => Err(HangUp),
                    }
                }
            });
            // An error is a client that has closed its connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
        PeerReply::Raw(bytes) => {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&bytes).await;
        }
        PeerReply::Nothing => {
            let mut request = [0; 4096];
            while matches!(stream.read(&mut request).await, Ok(1..)) {}
            *seen.hung_up.lock().expect("no panic") += 1;
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("hangs up")]
struct HangUp;

impl From<Infallible> for HangUp {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
