//! A client for the API: one connection, one call after the other. The load generator and the exporter of traces use its
//! connections too. Not by `crore-outbound`: an operator's own server needs no check of its address.

use std::time::Duration;

use anyhow::{Context, anyhow};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};

use super::tls::{self, Tls};
use crate::cli::Remote;
use crate::config::secret::Secret;
use crate::exit::{Failure, Why};

/// How long a connection may take.
const CONNECT_FOR: Duration = Duration::from_secs(5);
/// How long an answer may take: longer than the server waits for anything.
const ANSWER_FOR: Duration = Duration::from_secs(90);
/// How long an answer may take to a call that does something with many jobs.
const WORK_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// A connection that was idle for longer is not used again: the server may be closing it right now.
const REUSED_WITHIN: Duration = Duration::from_secs(5);
/// The longest answer.
const LONGEST: usize = 256 << 20;

/// A client for one server.
#[derive(Debug)]
pub(crate) struct Client {
    url: String,
    authority: String,
    /// Without it, plain http is spoken.
    tls: Option<Tls>,
    /// What stands before `/v1`, where the server is behind another.
    prefix: String,
    token: Option<Secret>,
    runtime: Runtime,
    /// A connection that can be used again, and when it was used last.
    connection: Option<(SendRequest<Full<Bytes>>, Instant)>,
    /// How long an answer may take.
    answer_for: Duration,
}

impl Client {
    pub(crate) fn new(remote: &Remote) -> anyhow::Result<Self> {
        let url = remote.server.trim_end_matches('/').to_owned();
        let Parts { is_https, host, authority, prefix } = parts(&url)?;
        let tls = match is_https {
            true => Some(Tls::new(&host, remote.ca.as_deref())?),
            false => None,
        };
        let token = remote.token()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            url,
            authority,
            tls,
            prefix,
            token,
            runtime,
            connection: None,
            answer_for: ANSWER_FOR,
        })
    }

    /// From now on waits for answers that take their time.
    pub(crate) const fn be_patient(&mut self) {
        self.answer_for = WORK_FOR;
    }

    /// Asks for something.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        parse(&self.get_text(path)?)
    }

    /// Asks for something, and gives the answer as it was written.
    pub(crate) fn get_text(&mut self, path: &str) -> anyhow::Result<String> {
        self.send(&Method::GET, path, Bytes::new())
    }

    /// Sends something.
    pub(crate) fn post(&mut self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        self.call(&Method::POST, path, body)
    }

    /// Removes something.
    pub(crate) fn delete(&mut self, path: &str) -> anyhow::Result<Value> {
        parse(&self.send(&Method::DELETE, path, Bytes::new())?)
    }

    /// Calls with a body.
    pub(crate) fn call(
        &mut self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Value> {
        parse(&self.send(method, path, serde_json::to_vec(body)?.into())?)
    }

    /// Calls; an answer that is no success is an error that says what the server said.
    fn send(&mut self, method: &Method, path: &str, body: Bytes) -> anyhow::Result<String> {
        let request = self.request(method, path, body)?;
        let Self { url, authority, tls, runtime, connection, answer_for, .. } = self;
        let answer = async {
            let mut sender = match connection.take() {
                Some((open, used_at)) if used_at.elapsed() < REUSED_WITHIN => open,
                _ => connect(authority, tls.as_ref(), url).await?,
            };
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| anyhow!(error))?.to_bytes();
            *connection = Some((sender, Instant::now()));
            anyhow::Ok((status, body))
        };
        let answer = runtime.block_on(async { timeout(*answer_for, answer).await });
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is::<Failure>() => return Err(error),
            Ok(Err(error)) => {
                let message = format!("the connection to {url} broke: {error:#}");
                return Err(Failure::new(Why::NotReached, message).into());
            }
            Err(_) => {
                return Err(Failure::new(Why::NotReached, format!("{url} does not answer")).into());
            }
        };
        read(status, &body)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            let bearer = format!("Bearer {}", token.reveal());
            let mut header = hyper::header::HeaderValue::from_str(&bearer)
                .map_err(|_| anyhow!("the token has characters that no token has"))?;
            header.set_sensitive(true);
            request = request.header(AUTHORIZATION, header);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        Ok(request.body(Full::new(body))?)
    }
}

/// What an address of a server says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) is_https: bool,
    pub(crate) host: String,
    /// The host and the port.
    pub(crate) authority: String,
    /// What stands before every path.
    pub(crate) prefix: String,
}

pub(crate) fn parts(url: &str) -> anyhow::Result<Parts> {
    let wrong =
        || Failure::new(Why::Usage, format!("`{url}` is no server: write http://HOST:PORT"));
    let text = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    let is_https = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong().into()),
    };
    let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let host = authority.host().to_owned();
    let prefix = uri.path().trim_end_matches('/').to_owned();
    Ok(Parts { is_https, authority: format!("{host}:{port}"), host, prefix })
}

/// Connects to a server.
pub(crate) async fn connect(
    authority: &str,
    tls: Option<&Tls>,
    url: &str,
) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let not_reached = |why: String| {
        let message = format!("{url} cannot be reached: {why}; is `crore serve` running there?");
        Failure::new(Why::NotReached, message)
    };
    let stream = match timeout(CONNECT_FOR, TcpStream::connect(authority)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(not_reached(error.to_string()).into()),
        Err(_) => return Err(not_reached("it does not answer".to_owned()).into()),
    };
    stream.set_nodelay(true)?;
    match tls {
        None => begin(stream).await,
        Some(tls) => match timeout(CONNECT_FOR, tls.connect(stream)).await {
            Ok(Ok(stream)) => begin(stream).await,
            Ok(Err(error)) => match tls::distrust(&error) {
                Some(why) => {
                    let message = format!("the certificate of {url} is not trusted: {why}");
                    Err(Failure::new(Why::NotReached, message).into())
                }
                None => Err(not_reached(error.to_string()).into()),
            },
            Err(_) => Err(not_reached("it does not answer".to_owned()).into()),
        },
    }
}

/// Speaks HTTP/1.1 on a stream.
pub(crate) async fn begin<S>(stream: S) -> anyhow::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends when the sender is dropped; an error of it is the sender's error too.
    tokio::spawn(connection);
    Ok(sender)
}

fn parse(text: &str) -> anyhow::Result<Value> {
    match text {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).context("the answer is not JSON"),
    }
}

fn read(status: StatusCode, body: &[u8]) -> anyhow::Result<String> {
    if status.is_success() {
        return String::from_utf8(body.to_vec()).context("the answer is not text");
    }
    let (why, message) = problem(status, body);
    Err(Failure::new(why, message).into())
}

/// What an answer that is no success means, and what it says.
pub(crate) fn problem(status: StatusCode, body: &[u8]) -> (Why, String) {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name: &str| problem.get(name).and_then(Value::as_str);
    let mut message = match (part("field"), part("detail")) {
        (Some(field), Some(detail)) => format!("{field}: {detail}"),
        (_, Some(detail)) => detail.to_owned(),
        (_, None) => format!("the server answered {status}"),
    };
    if let Some(code) = part("code") {
        message += &format!(" ({code})");
    }
    let why = match status.as_u16() {
        404 | 410 => Why::NotFound,
        409 | 412 => Why::Conflict,
        400 | 413 | 415 | 422 => Why::Usage,
        _ => Why::Failed,
    };
    (why, message)
}

/// A name as a part of a path: whatever is in it stays in it.
pub(crate) fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            byte if plain(byte) => text.push(byte.into()),
            byte => text += &format!("%{byte:02X}"),
        }
    }
    // Dots alone would be taken for a way up.
    if text.chars().all(|c| c == '.') { text.replace('.', "%2E") } else { text }
}

/// A path with a query, of the parts that are there.
pub(crate) fn with_query(path: &str, parts: &[(&str, Option<String>)]) -> String {
    let said = parts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query: Vec<String> =
        said.map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// The list in an answer.
pub(crate) fn list(answer: Value, name: &str) -> Vec<Value> {
    match answer {
        Value::Object(mut fields) => match fields.remove(name) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_place() {
        assert_eq!(segment("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
        assert_eq!(segment(".."), "%2E%2E");
        let parts =
            [("state", Some("dead".to_owned())), ("queue", None), ("n", Some("5".to_owned()))];
        assert_eq!(with_query("/v1/jobs", &parts), "/v1/jobs?state=dead&n=5");
    }

    #[test]
    fn a_server_is_a_host_and_a_port_and_perhaps_a_path() {
        let of = |url: &str| parts(url).ok().map(|parts| (parts.authority, parts.prefix));
        let is = |authority: &str, prefix: &str| Some((authority.to_owned(), prefix.to_owned()));
        assert_eq!(of("http://127.0.0.1:9000"), is("127.0.0.1:9000", ""));
        assert_eq!(of("queue.example:80/crore/"), is("queue.example:80", "/crore"));
        assert_eq!(of("[::1]:9000"), is("[::1]:9000", ""));
        assert_eq!(of("https://queue.example"), is("queue.example:443", ""));
        assert_eq!(of("ftp://x"), None);
        assert_eq!(of(""), None);
    }
}
