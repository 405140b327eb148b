//! Somebody whom crore calls, and who answers as a test wants.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use crore_testkit::eventually_async;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// One call, as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

type Answers = Arc<dyn Fn(usize, &Call) -> Option<Response<Bytes>> + Send + Sync>;

/// How a peer answers.
#[derive(Clone)]
pub(crate) enum Speaks {
    /// By HTTP; `None`: it hangs up. The first argument counts the calls, from 0.
    Http(Answers),
    /// By HTTP, when the test lets it: each answer needs a permit.
    Held(Arc<Semaphore>, Answers),
    /// These bytes, whatever it is asked; then it hangs up.
    Raw(Arc<[u8]>),
    /// Not at all: it takes the question and is silent.
    Nothing,
}

impl Speaks {
    pub(crate) fn by(
        answers: impl Fn(usize, &Call) -> Option<Response<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        Self::Http(Arc::new(answers))
    }

    /// The same, but each answer waits for a permit.
    pub(crate) fn when_let(self, gate: &Arc<Semaphore>) -> Self {
        match self {
            Self::Http(answers) => Self::Held(Arc::clone(gate), answers),
            other => other,
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::body(status, Vec::new())
    }

    pub(crate) fn body(status: u16, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self::by(move |_, _| Some(response(status).body(body.clone()).expect("good")))
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        let location = location.to_owned();
        Self::by(move |_, _| {
            let response = response(status).header("location", &location);
            Some(response.body(Bytes::new()).expect("good"))
        })
    }

    pub(crate) fn raw(bytes: Vec<u8>) -> Self {
        Self::Raw(bytes.into())
    }

    pub(crate) const fn nothing() -> Self {
        Self::Nothing
    }
}

pub(crate) fn response(status: u16) -> http::response::Builder {
    Response::builder().status(status)
}

/// Somebody who listens on a port of loopback; dropped, it is gone with all its connections.
pub(crate) struct Peer {
    address: SocketAddr,
    seen: Arc<Seen>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    calls: Mutex<Vec<Call>>,
    hung_up: Mutex<usize>,
}

impl Seen {
    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<Call>> {
        self.calls.lock().expect("no test panics while it looks")
    }
}

impl Peer {
    pub(crate) async fn start(speaks: Speaks) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), speaks).await
    }

    pub(crate) async fn start_at(address: SocketAddr, speaks: Speaks) -> Self {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Seen::default());
        let sees = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            // Dropped with this task, and all connections with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, speaks.clone(), Arc::clone(&sees)));
            }
        });
        Self { address, seen, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.calls().len()
    }

    pub(crate) fn call(&self, n: usize) -> Call {
        self.seen.calls()[n].clone()
    }

    /// Waits until there were so many calls.
    pub(crate) async fn until_called(&self, n: usize) {
        let called = || async {
            Err::<(), _>(self.calls()).or_else(|seen| if seen >= n { Ok(()) } else { Err(seen) })
        };
        eventually_async(Duration::from_secs(20), pause, called).await;
    }

    /// Waits until somebody who was answered with nothing has hung up.
    pub(crate) async fn was_hung_up(&self) -> bool {
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

#[expect(clippy::disallowed_methods, reason = "it is what `eventually_async` pauses with")]
pub(crate) fn pause(span: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(span)
}

async fn serve(mut stream: TcpStream, speaks: Speaks, seen: Arc<Seen>) {
    let open = || Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
    let speaks = match speaks {
        Speaks::Http(answers) => Speaks::Held(open(), answers),
        other => other,
    };
    match speaks {
        Speaks::Http(_) => unreachable!("it is held by nothing"),
        Speaks::Held(gate, answers) => {
            let service = service_fn(move |request: Request<Incoming>| {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&seen));
                let gate = Arc::clone(&gate);
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
                    let (method, uri, headers) = (head.method, head.uri, head.headers);
                    let call = Call { method, uri, headers, body };
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
            // Whoever hangs up in the middle has nobody to tell.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
        Speaks::Raw(bytes) => {
            let mut question = [0; 4096];
            let _ = stream.read(&mut question).await;
            let _ = stream.write_all(&bytes).await;
        }
        Speaks::Nothing => {
            let mut question = [0; 4096];
            while matches!(stream.read(&mut question).await, Ok(1..)) {}
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
