//! Connections to the server: HTTP and gRPC.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
};
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::super::client::{ServerUrl, connect, error_of, parse_url};
use super::super::tls::ClientTls;
use crate::cli::RemoteArgs;
use crate::config::secret::ConfigSecret;
use crate::exit::{CliError, FailureCode};

/// Address and credentials of the server.
#[derive(Debug)]
pub(super) struct BenchTarget {
    url: String,
    parts: ServerUrl,
    tls: Option<ClientTls>,
    ca: Option<PathBuf>,
    token: Option<HeaderValue>,
}

impl BenchTarget {
    pub(super) fn new(remote: &RemoteArgs) -> anyhow::Result<Self> {
        let url = remote.server.trim_end_matches('/').to_owned();
        let parts = parse_url(&url)?;
        let tls = match parts.is_https {
            true => Some(ClientTls::new(&parts.host, remote.ca.as_deref())?),
            false => None,
        };
        let token = remote.token()?.as_ref().map(bearer).transpose()?;
        Ok(Self { url, parts, tls, ca: remote.ca.clone(), token })
    }

    /// The local address of a connection to the server, at which the server can reach this machine.
    pub(super) async fn own_address(&self) -> anyhow::Result<IpAddr> {
        let stream = TcpStream::connect(&self.parts.authority).await?;
        Ok(stream.local_addr()?.ip())
    }

    /// Opens a persistent HTTP/1.1 connection for request bodies of this content type; responses are JSON.
    pub(super) async fn http(&self, media_type: &'static str) -> anyhow::Result<HttpConnection> {
        let sender = connect(&self.parts.authority, self.tls.as_ref(), &self.url).await?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::try_from(&self.parts.authority)?);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.extend(self.token.clone().map(|token| (AUTHORIZATION, token)));
        Ok(HttpConnection { sender, headers, prefix: self.parts.prefix.clone() })
    }

    /// Opens a gRPC connection.
    pub(super) async fn grpc(&self) -> anyhow::Result<AuthorizedChannel> {
        if !self.parts.prefix.is_empty() {
            let message = format!("gRPC does not support a path in the server URL `{}`", self.url);
            return Err(CliError::new(FailureCode::Usage, message).into());
        }
        let scheme = if self.parts.is_https { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", self.parts.authority))?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20);
        if self.parts.is_https {
            let tls = match &self.ca {
                Some(path) => {
                    let pem = std::fs::read(path)
                        .with_context(|| format!("cannot read `{}`", path.display()))?;
                    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
                }
                None => ClientTlsConfig::new().with_native_roots(),
            };
            endpoint = endpoint.tls_config(tls)?;
        }
        let channel = endpoint.connect().await.map_err(|error| {
            let message = format!("{} cannot be reached: {:#}", self.url, anyhow!(error));
            CliError::new(FailureCode::Unreachable, message)
        })?;
        let token = self.token.as_ref().map(HeaderValue::to_str).transpose()?;
        let token = token.map(str::parse).transpose()?.map(Arc::new);
        Ok(InterceptedService::new(channel, BearerInterceptor(token)))
    }
}

fn bearer(token: &ConfigSecret) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| anyhow!("the access token contains invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// HTTP/1.1 connection for sequential calls.
#[derive(Debug)]
pub(super) struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    prefix: String,
}

impl HttpConnection {
    /// Adds a header to every further call.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> anyhow::Result<Self> {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value)?);
        Ok(self)
    }

    /// Posts a body and returns the response; an error status is an error.
    pub(super) async fn post(&mut self, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        self.call(Method::POST, path, body).await
    }

    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = match self.prefix.as_str() {
            "" => path.parse()?,
            prefix => format!("{prefix}{path}").parse()?,
        };
        request.headers_mut().clone_from(&self.headers);
        let (status, body) = self.exchange(request).await.map_err(|error| {
            CliError::new(
                FailureCode::Unreachable,
                format!("connection lost: {:#}", anyhow!(error)),
            )
        })?;
        if status.is_success() {
            return Ok(body);
        }
        Err(response_error(path, status, &body).into())
    }

    async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), hyper::Error> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}

/// Error for a refused request, with the server's message; Jobber's messages are plain text.
fn response_error(path: &str, status: StatusCode, body: &[u8]) -> CliError {
    let (why, mut message) = error_of(status, body);
    if let Ok(text) = str::from_utf8(body)
        && !text.starts_with(['{', '<'])
    {
        message = text.trim().to_owned();
    }
    CliError::new(why, format!("the server refused {path}: {message}"))
}

/// gRPC channel that sends the access token with every call.
pub(super) type AuthorizedChannel = InterceptedService<Channel, BearerInterceptor>;

/// Interceptor that adds the access token.
#[derive(Debug, Clone)]
pub(super) struct BearerInterceptor(Option<Arc<MetadataValue<Ascii>>>);

impl Interceptor for BearerInterceptor {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", MetadataValue::clone(token));
        }
        Ok(request)
    }
}

/// Converts a gRPC status; one with a source is a broken connection.
pub(super) fn status_error(status: &tonic::Status) -> CliError {
    use tonic::Code::{AlreadyExists, InvalidArgument, OutOfRange};
    let message = status.message();
    if std::error::Error::source(status).is_some() {
        return CliError::new(FailureCode::Unreachable, format!("connection lost: {message}"));
    }
    let why = match status.code() {
        InvalidArgument | OutOfRange | AlreadyExists => FailureCode::Usage,
        _ => FailureCode::Failed,
    };
    CliError::new(why, format!("the server ended the call: {message}"))
}
