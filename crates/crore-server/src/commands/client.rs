//! HTTP client for the API: one connection, one call at a time. The load generator and the trace exporter reuse its
//! connections. It does not use `crore-outbound`, because an operator's own server needs no address check.

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

use super::tls::{self, ClientTls};
use crate::cli::RemoteArgs;
use crate::config::secret::ConfigSecret;
use crate::exit::{CliError, FailureCode};

/// Timeout of connecting, and of the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a call; longer than any wait of the server.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
/// Timeout of a call that processes many jobs.
const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum idle time of a reused connection; the server may be about to close an older one.
const MAX_IDLE: Duration = Duration::from_secs(5);
/// Maximum size of a response.
const MAX_RESPONSE: usize = 256 << 20;

/// Client for one server.
#[derive(Debug)]
pub(crate) struct ApiClient {
    url: String,
    authority: String,
    /// Without it, the client uses plain HTTP.
    tls: Option<ClientTls>,
    /// Path prefix before `/v1`, if the server is behind a reverse proxy.
    prefix: String,
    token: Option<ConfigSecret>,
    runtime: Runtime,
    /// An idle connection, and when it was last used.
    connection: Option<(SendRequest<Full<Bytes>>, Instant)>,
    /// Timeout of a call.
    timeout: Duration,
}

impl ApiClient {
    pub(crate) fn new(remote: &RemoteArgs) -> anyhow::Result<Self> {
        let url = remote.server.trim_end_matches('/').to_owned();
        let ServerUrl { is_https, host, authority, prefix } = parse_url(&url)?;
        let tls = match is_https {
            true => Some(ClientTls::new(&host, remote.ca.as_deref())?),
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
            timeout: CALL_TIMEOUT,
        })
    }

    /// The server's address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Switches to the timeout for calls that process many jobs.
    pub(crate) const fn use_long_timeout(&mut self) {
        self.timeout = LONG_CALL_TIMEOUT;
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        parse(&self.get_text(path)?)
    }

    /// Like [`Self::get`], but returns the response body unparsed.
    pub(crate) fn get_text(&mut self, path: &str) -> anyhow::Result<String> {
        self.send(&Method::GET, path, Bytes::new())
    }

    pub(crate) fn post(&mut self, path: &str, body: &impl Serialize) -> anyhow::Result<Value> {
        self.call(&Method::POST, path, body)
    }

    pub(crate) fn delete(&mut self, path: &str) -> anyhow::Result<Value> {
        parse(&self.send(&Method::DELETE, path, Bytes::new())?)
    }

    /// Calls with a JSON body.
    pub(crate) fn call(
        &mut self,
        method: &Method,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Value> {
        parse(&self.send(method, path, serde_json::to_vec(body)?.into())?)
    }

    /// Sends a request. An error response becomes an error with the server's message.
    fn send(&mut self, method: &Method, path: &str, body: Bytes) -> anyhow::Result<String> {
        let request = self.request(method, path, body)?;
        let Self { url, authority, tls, runtime, connection, timeout: answer_for, .. } = self;
        let answer = async {
            let mut sender = match connection.take() {
                Some((open, used_at)) if used_at.elapsed() < MAX_IDLE => open,
                _ => connect(authority, tls.as_ref(), url).await?,
            };
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
            let body = body.map_err(|error| anyhow!(error))?.to_bytes();
            *connection = Some((sender, Instant::now()));
            anyhow::Ok((status, body))
        };
        let answer = runtime.block_on(async { timeout(*answer_for, answer).await });
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is::<CliError>() => return Err(error),
            Ok(Err(error)) => {
                let message = format!("connection to {url} lost: {error:#}");
                return Err(CliError::new(FailureCode::Unreachable, message).into());
            }
            Err(_) => {
                return Err(CliError::new(
                    FailureCode::Unreachable,
                    format!("{url} does not respond"),
                )
                .into());
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
                .map_err(|_| anyhow!("the access token contains invalid characters"))?;
            header.set_sensitive(true);
            request = request.header(AUTHORIZATION, header);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        Ok(request.body(Full::new(body))?)
    }
}

/// Parts of a server URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    pub(crate) is_https: bool,
    pub(crate) host: String,
    /// `host:port`.
    pub(crate) authority: String,
    /// Path prefix of every request.
    pub(crate) prefix: String,
}

pub(crate) fn parse_url(url: &str) -> anyhow::Result<ServerUrl> {
    let wrong = || {
        CliError::new(
            FailureCode::Usage,
            format!("`{url}` is not a server URL; expected http://HOST:PORT"),
        )
    };
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
    Ok(ServerUrl { is_https, authority: format!("{host}:{port}"), host, prefix })
}

/// Opens a connection, with TLS if given.
pub(crate) async fn connect(
    authority: &str,
    tls: Option<&ClientTls>,
    url: &str,
) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let not_reached = |why: String| {
        let message = format!("{url} cannot be reached: {why}; is `crore serve` running there?");
        CliError::new(FailureCode::Unreachable, message)
    };
    let stream = match timeout(CONNECT_TIMEOUT, TcpStream::connect(authority)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(not_reached(error.to_string()).into()),
        Err(_) => return Err(not_reached("connection timeout".to_owned()).into()),
    };
    stream.set_nodelay(true)?;
    match tls {
        None => start_http(stream).await,
        Some(tls) => match timeout(CONNECT_TIMEOUT, tls.connect(stream)).await {
            Ok(Ok(stream)) => start_http(stream).await,
            Ok(Err(error)) => match tls::untrusted_reason(&error) {
                Some(why) => {
                    let message = format!("the certificate of {url} is not trusted: {why}");
                    Err(CliError::new(FailureCode::Unreachable, message).into())
                }
                None => Err(not_reached(error.to_string()).into()),
            },
            Err(_) => Err(not_reached("TLS handshake timeout".to_owned()).into()),
        },
    }
}

/// Starts HTTP/1.1 on a stream.
pub(crate) async fn start_http<S>(stream: S) -> anyhow::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends when the sender is dropped; the sender reports its errors.
    tokio::spawn(connection);
    Ok(sender)
}

fn parse(text: &str) -> anyhow::Result<Value> {
    match text {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).context("the response is not JSON"),
    }
}

fn read(status: StatusCode, body: &[u8]) -> anyhow::Result<String> {
    if status.is_success() {
        return String::from_utf8(body.to_vec()).context("the response is not UTF-8");
    }
    let (why, message) = error_of(status, body);
    Err(CliError::new(why, message).into())
}

/// Exit code and message of an error response.
pub(crate) fn error_of(status: StatusCode, body: &[u8]) -> (FailureCode, String) {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name: &str| problem.get(name).and_then(Value::as_str);
    let mut message = match (part("field"), part("detail").map(without_position)) {
        (Some(field), Some(detail)) => format!("{field}: {detail}"),
        (_, Some(detail)) => detail.to_owned(),
        (_, None) => format!("the server responded with {status}"),
    };
    if let Some(code) = part("code") {
        message += &format!(" ({code})");
    }
    let why = match status.as_u16() {
        404 | 410 => FailureCode::NotFound,
        409 | 412 => FailureCode::Conflict,
        400 | 413 | 415 | 422 => FailureCode::Usage,
        _ => FailureCode::Failed,
    };
    (why, message)
}

/// A message without the position in the body that this program has made: ` at line 1 column 25`.
fn without_position(detail: &str) -> &str {
    match detail.rsplit_once(" at line ") {
        Some((message, rest)) if rest.contains(" column ") => message,
        _ => detail,
    }
}

/// Percent-encodes a name as one path segment.
pub(crate) fn path_segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            byte if plain(byte) => text.push(byte.into()),
            byte => text += &format!("%{byte:02X}"),
        }
    }
    // `.` and `..` would be resolved as relative paths.
    if text.chars().all(|c| c == '.') { text.replace('.', "%2E") } else { text }
}

/// Appends a query string with the parts that have a value.
pub(crate) fn with_query(path: &str, parts: &[(&str, Option<String>)]) -> String {
    let present = parts.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query: Vec<String> =
        present.map(|(name, value)| format!("{name}={}", path_segment(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// The named list in a response.
pub(crate) fn list_field(answer: Value, name: &str) -> Vec<Value> {
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
    fn names_are_percent_encoded() {
        assert_eq!(path_segment("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
        assert_eq!(path_segment(".."), "%2E%2E");
        let parts =
            [("state", Some("dead".to_owned())), ("queue", None), ("n", Some("5".to_owned()))];
        assert_eq!(with_query("/v1/jobs", &parts), "/v1/jobs?state=dead&n=5");
    }

    #[test]
    fn errors_do_not_name_a_position_that_nobody_has_written() {
        let body = br#"{"field":"lease","detail":"`x` is not a duration at line 1 column 25","code":"malformed"}"#;
        let (_, message) = error_of(StatusCode::BAD_REQUEST, body);
        assert_eq!(message, "lease: `x` is not a duration (malformed)");
        let body = br#"{"detail":"the meeting at line 1"}"#;
        assert_eq!(error_of(StatusCode::BAD_REQUEST, body).1, "the meeting at line 1");
    }

    #[test]
    fn server_urls_are_parsed() {
        let of = |url: &str| parse_url(url).ok().map(|parts| (parts.authority, parts.prefix));
        let is = |authority: &str, prefix: &str| Some((authority.to_owned(), prefix.to_owned()));
        assert_eq!(of("http://127.0.0.1:9000"), is("127.0.0.1:9000", ""));
        assert_eq!(of("queue.example:80/crore/"), is("queue.example:80", "/crore"));
        assert_eq!(of("[::1]:9000"), is("[::1]:9000", ""));
        assert_eq!(of("https://queue.example"), is("queue.example:443", ""));
        assert_eq!(of("ftp://x"), None);
        assert_eq!(of(""), None);
    }
}
