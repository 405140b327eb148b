//! Ways to the server: connections of HTTP and of gRPC.

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

use super::super::client::{Parts, connect, parts, problem};
use super::super::tls::Tls;
use crate::cli::Remote;
use crate::config::secret::Secret;
use crate::exit::{Failure, Why};

/// Where the server is, and how to speak to it.
#[derive(Debug)]
pub(super) struct Line {
    url: String,
    parts: Parts,
    tls: Option<Tls>,
    ca: Option<PathBuf>,
    token: Option<HeaderValue>,
}

impl Line {
    pub(super) fn new(remote: &Remote) -> anyhow::Result<Self> {
        let url = remote.server.trim_end_matches('/').to_owned();
        let parts = parts(&url)?;
        let tls = match parts.is_https {
            true => Some(Tls::new(&parts.host, remote.ca.as_deref())?),
            false => None,
        };
        let token = remote.token()?.as_ref().map(bearer).transpose()?;
        Ok(Self { url, parts, tls, ca: remote.ca.clone(), token })
    }

    /// The address by which this machine reaches the server, and by which the server may reach this machine.
    pub(super) async fn own_address(&self) -> anyhow::Result<IpAddr> {
        let stream = TcpStream::connect(&self.parts.authority).await?;
        Ok(stream.local_addr()?.ip())
    }

    /// A connection of HTTP/1.1 that is kept, for bodies of this sort; answers are in JSON.
    pub(super) async fn http(&self, sort: &'static str) -> anyhow::Result<Connection> {
        let sender = connect(&self.parts.authority, self.tls.as_ref(), &self.url).await?;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::try_from(&self.parts.authority)?);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(sort));
        headers.extend(self.token.clone().map(|token| (AUTHORIZATION, token)));
        Ok(Connection { sender, headers, prefix: self.parts.prefix.clone() })
    }

    /// A connection of gRPC.
    pub(super) async fn grpc(&self) -> anyhow::Result<Grpc> {
        if !self.parts.prefix.is_empty() {
            let message = format!("gRPC is not spoken below a path, as in `{}`", self.url);
            return Err(Failure::new(Why::Usage, message).into());
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
            Failure::new(Why::NotReached, message)
        })?;
        let token = self.token.as_ref().map(HeaderValue::to_str).transpose()?;
        let token = token.map(str::parse).transpose()?.map(Arc::new);
        Ok(InterceptedService::new(channel, Shows(token)))
    }
}

fn bearer(token: &Secret) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.reveal()))
        .map_err(|_| anyhow!("the token has characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A connection of HTTP/1.1, for one call after the other.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    prefix: String,
}

impl Connection {
    /// Says this with every call from now on.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> anyhow::Result<Self> {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value)?);
        Ok(self)
    }

    /// Posts something, and gives the answer, which has to be a good one.
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
            Failure::new(Why::NotReached, format!("the connection broke: {:#}", anyhow!(error)))
        })?;
        if status.is_success() {
            return Ok(body);
        }
        Err(refused(path, status, &body).into())
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

/// A refusal in the server's words; Jobber's are plain text.
fn refused(path: &str, status: StatusCode, body: &[u8]) -> Failure {
    let (why, mut message) = problem(status, body);
    if let Ok(text) = str::from_utf8(body)
        && !text.starts_with(['{', '<'])
    {
        message = text.trim().to_owned();
    }
    Failure::new(why, format!("the server refuses {path}: {message}"))
}

/// A connection of gRPC that shows a token with every call.
pub(super) type Grpc = InterceptedService<Channel, Shows>;

/// Shows a token with every call.
#[derive(Debug, Clone)]
pub(super) struct Shows(Option<Arc<MetadataValue<Ascii>>>);

impl Interceptor for Shows {
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

/// A status as an error of ours: what the server says, or that it says nothing any more.
pub(super) fn failed(status: &tonic::Status) -> Failure {
    use tonic::Code::{AlreadyExists, InvalidArgument, OutOfRange};
    let message = status.message();
    if std::error::Error::source(status).is_some() {
        return Failure::new(Why::NotReached, format!("the connection broke: {message}"));
    }
    let why = match status.code() {
        InvalidArgument | OutOfRange | AlreadyExists => Why::Usage,
        _ => Why::Failed,
    };
    Failure::new(why, format!("the server ends the call: {message}"))
}
