//! HTTP on one connection, which is kept open. Not by `crore-outbound`, which checks addresses and
//! shares connections: the verdict depends on whether a request was sent, and on this connection.

use std::net::SocketAddr;

use crore_core::Code;
use crore_wire::Format;
use crore_wire::api::Problem;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::pause::LIMIT;

/// What is asked, and in which words.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// The name of a push that may be said again.
    pub(crate) key: Option<String>,
    /// The push worker that asks.
    pub(crate) worker: Option<String>,
}

impl Ask {
    pub(crate) fn get(path: String) -> Self {
        Self { method: "GET", path, body: Bytes::new(), key: None, worker: None }
    }

    pub(crate) fn post<T: Serialize>(path: &str, format: Format, body: &T) -> Self {
        let body = format.encode(body).into();
        Self { method: "POST", path: path.to_owned(), body, key: None, worker: None }
    }
}

/// An answer that says no more than that it is done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Nothing {}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Heard<T> {
    /// The answer.
    Yes(T),
    /// It was refused, and has no effect.
    No(Code, String),
    /// Nobody knows.
    Nothing(String),
}

/// A client with one connection, which speaks one encoding.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    pub(crate) format: Format,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// There is nobody to speak to: nothing was sent.
#[derive(Debug)]
pub(crate) struct Away;

impl Client {
    pub(crate) const fn new(address: SocketAddr, format: Format) -> Self {
        Self { address, format, sender: None }
    }

    /// Makes sure that there is somebody to speak to.
    pub(crate) async fn connect(&mut self) -> Result<(), Away> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        let stream = TcpStream::connect(self.address).await.map_err(|_| Away)?;
        // One that cannot be told so is slower, and no worse.
        let _ = stream.set_nodelay(true);
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| Away)?;
        // How it ended is seen by whoever waits for an answer on it.
        tokio::spawn(async move { drop(connection.await) });
        self.sender = Some(sender);
        Ok(())
    }

    /// Leaves without a word, whatever is under way.
    pub(crate) fn hang_up(&mut self) {
        self.sender = None;
    }

    /// Asks, on the connection that there is.
    pub(crate) async fn call<T: DeserializeOwned>(&mut self, ask: &Ask) -> Heard<T> {
        let heard = timeout(LIMIT, self.exchange(ask)).await;
        let (status, body) = match heard {
            Ok(Ok(heard)) => heard,
            Ok(Err(error)) => {
                self.hang_up();
                return Heard::Nothing(error);
            }
            Err(_) => {
                self.hang_up();
                return Heard::Nothing(NEVER.to_owned());
            }
        };
        self.understand(status, &body)
    }

    async fn exchange(&mut self, ask: &Ask) -> Result<(StatusCode, Bytes), String> {
        let sender = self.sender.as_mut().ok_or("there is no connection")?;
        let media = self.format.media_type();
        let mut request = Request::builder()
            .method(ask.method)
            .uri(&ask.path)
            .header(HOST, self.address.to_string())
            .header(ACCEPT, media);
        if !ask.body.is_empty() {
            request = request.header(CONTENT_TYPE, media);
        }
        if let Some(key) = &ask.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(worker) = &ask.worker {
            request = request.header("worker-id", worker);
        }
        let request = request.body(Full::new(ask.body.clone())).map_err(|e| e.to_string())?;
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    }

    fn understand<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Heard<T> {
        if status.is_success() {
            // Nothing is the answer of some calls.
            let nothing = self.format.encode(&Nothing {});
            let body = if body.is_empty() { nothing.as_slice() } else { body };
            return match self.format.decode(body) {
                Ok(answer) => Heard::Yes(answer),
                Err(invalid) => Heard::Nothing(format!("{STRANGE} {status}: {invalid:?}")),
            };
        }
        let Ok(problem) = self.format.decode::<Problem>(body) else {
            return Heard::Nothing(format!("{STRANGE} {status}, which is no problem document"));
        };
        let code = Code::ALL.iter().find(|code| code.as_str() == problem.code);
        let said = format!("{status} {}: {}", problem.code, problem.detail);
        match code {
            Some(code) if has_no_effect(*code) => Heard::No(*code, said),
            Some(Code::Unavailable | Code::Poisoned | Code::TooSlow) => Heard::Nothing(said),
            _ => Heard::Nothing(format!("{STRANGE} {said}")),
        }
    }
}

/// How a call is marked that was never answered: the server lived, and said nothing.
pub(crate) const NEVER: &str = "never answered";
/// How an answer is marked that nobody expects.
pub(crate) const STRANGE: &str = "strange answer:";

/// Whether such an answer says that nothing was done.
const fn has_no_effect(code: Code) -> bool {
    matches!(code, Code::Stopping | Code::Full | Code::TooMany | Code::Refused | Code::NotFound)
}
