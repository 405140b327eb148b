//! HTTP on one kept-open connection. `crore-outbound` is not used because it checks addresses and shares connections:
//! the verdict depends on whether a request was sent, and on which connection.

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

use crate::time::CALL_TIMEOUT;

/// A request to the server.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// The idempotency key of a push.
    pub(crate) idempotency_key: Option<String>,
    /// The id of the push worker that sends it.
    pub(crate) worker_id: Option<String>,
}

impl ApiRequest {
    pub(crate) fn get(path: String) -> Self {
        Self { method: "GET", path, body: Bytes::new(), idempotency_key: None, worker_id: None }
    }

    pub(crate) fn post<T: Serialize>(path: &str, format: Format, body: &T) -> Self {
        let body = format.encode(body).into();
        Self { method: "POST", path: path.to_owned(), body, idempotency_key: None, worker_id: None }
    }
}

/// The body of a response without content.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EmptyResponse {}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult<T> {
    Answered(T),
    /// Refused: the call has no effect.
    Refused(Code, String),
    /// Unknown: the call may or may not have had an effect.
    Unknown(String),
}

/// A client with one connection and one encoding.
#[derive(Debug)]
pub(crate) struct ChaosClient {
    address: SocketAddr,
    pub(crate) format: Format,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// The server is unreachable; nothing was sent.
#[derive(Debug)]
pub(crate) struct Unreachable;

impl ChaosClient {
    pub(crate) const fn new(address: SocketAddr, format: Format) -> Self {
        Self { address, format, sender: None }
    }

    /// Connects, unless the connection is open.
    pub(crate) async fn connect(&mut self) -> Result<(), Unreachable> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        let stream = TcpStream::connect(self.address).await.map_err(|_| Unreachable)?;
        // Best effort: without it the connection is only slower.
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|_| Unreachable)?;
        // Calls that wait for a response on this connection see the error.
        tokio::spawn(async move { drop(connection.await) });
        self.sender = Some(sender);
        Ok(())
    }

    /// Drops the connection without waiting for calls in flight.
    pub(crate) fn disconnect(&mut self) {
        self.sender = None;
    }

    /// Sends a request on the open connection and waits for the response.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        request: &ApiRequest,
    ) -> CallResult<T> {
        let response = timeout(CALL_TIMEOUT, self.exchange(request)).await;
        let (status, body) = match response {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                self.disconnect();
                return CallResult::Unknown(error);
            }
            Err(_) => {
                self.disconnect();
                return CallResult::Unknown(NO_RESPONSE.to_owned());
            }
        };
        self.read_response(status, &body)
    }

    async fn exchange(&mut self, request: &ApiRequest) -> Result<(StatusCode, Bytes), String> {
        let sender = self.sender.as_mut().ok_or("not connected")?;
        let media = self.format.media_type();
        let mut http_request = Request::builder()
            .method(request.method)
            .uri(&request.path)
            .header(HOST, self.address.to_string())
            .header(ACCEPT, media);
        if !request.body.is_empty() {
            http_request = http_request.header(CONTENT_TYPE, media);
        }
        if let Some(key) = &request.idempotency_key {
            http_request = http_request.header("idempotency-key", key);
        }
        if let Some(worker) = &request.worker_id {
            http_request = http_request.header("worker-id", worker);
        }
        let http_request =
            http_request.body(Full::new(request.body.clone())).map_err(|e| e.to_string())?;
        let response = sender.send_request(http_request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    }

    fn read_response<T: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> CallResult<T> {
        if status.is_success() {
            // Some calls respond with an empty body.
            let nothing = self.format.encode(&EmptyResponse {});
            let body = if body.is_empty() { nothing.as_slice() } else { body };
            return match self.format.decode(body) {
                Ok(answer) => CallResult::Answered(answer),
                Err(invalid) => {
                    CallResult::Unknown(format!("{UNEXPECTED_RESPONSE} {status}: {invalid:?}"))
                }
            };
        }
        let Ok(problem) = self.format.decode::<Problem>(body) else {
            return CallResult::Unknown(format!(
                "{UNEXPECTED_RESPONSE} {status}, which is no problem document"
            ));
        };
        let code = Code::ALL.iter().find(|code| code.as_str() == problem.code);
        let message = format!("{status} {}: {}", problem.code, problem.detail);
        match code {
            Some(code) if has_no_effect(*code) => CallResult::Refused(*code, message),
            Some(Code::Unavailable | Code::Poisoned | Code::TooSlow) => {
                CallResult::Unknown(message)
            }
            _ => CallResult::Unknown(format!("{UNEXPECTED_RESPONSE} {message}")),
        }
    }
}

/// Marks a call that the running server did not answer within the timeout.
pub(crate) const NO_RESPONSE: &str = "no response";
/// Marks a response that the protocol does not allow.
pub(crate) const UNEXPECTED_RESPONSE: &str = "unexpected response:";

/// Whether an error with this code guarantees that the call had no effect.
const fn has_no_effect(code: Code) -> bool {
    matches!(code, Code::Stopping | Code::Full | Code::TooMany | Code::Refused | Code::NotFound)
}
