//! A connection to a server.

use std::sync::Arc;
use std::time::Duration;

use crore_core::JobId;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::pusher::Pusher;
use crate::{Error, Job};

/// How a connection is made.
#[derive(Debug, Clone)]
#[must_use = "nothing is connected yet"]
pub struct Builder {
    address: String,
    token: Option<String>,
    tls: Option<ClientTlsConfig>,
}

impl Builder {
    /// Shows a token with every call.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How TLS is spoken; for `https` addresses, as the system trusts, unless told otherwise.
    pub fn tls(mut self, tls: ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects.
    pub async fn connect(self) -> Result<Client, Error> {
        let (endpoint, shows) = self.endpoint()?;
        Ok(Client::on(endpoint.connect().await?, shows))
    }

    fn endpoint(self) -> Result<(Endpoint, Shows), Error> {
        let endpoint = Endpoint::from_shared(self.address.clone())
            .map_err(|error| Error::Malformed(format!("`{}`: {error}", self.address)))?
            .connect_timeout(Duration::from_secs(10))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10))
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20);
        let is_secure = self.address.starts_with("https:");
        let endpoint = match self.tls {
            Some(tls) => endpoint.tls_config(tls)?,
            None if is_secure => endpoint.tls_config(ClientTlsConfig::new().with_native_roots())?,
            None => endpoint,
        };
        let token = self.token.map(|token| format!("Bearer {token}").parse()).transpose();
        let token = token.map_err(|_| Error::Malformed("the token is none".to_owned()))?;
        Ok((endpoint, Shows(token.map(Arc::new))))
    }
}

/// Shows a token with every call.
#[derive(Debug, Clone)]
pub(crate) struct Shows(Option<Arc<MetadataValue<Ascii>>>);

impl Interceptor for Shows {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", MetadataValue::clone(token));
        }
        Ok(request)
    }
}

/// Where calls go.
pub(crate) type Line = InterceptedService<Channel, Shows>;

/// A connection to a server. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct Client {
    line: Line,
    pusher: Arc<Pusher>,
}

impl Client {
    fn on(channel: Channel, shows: Shows) -> Self {
        let line = InterceptedService::new(channel, shows);
        Self { pusher: Arc::new(Pusher::start(line.clone())), line }
    }

    /// Connects to `http://host:port`, or `https://…`.
    pub async fn connect(address: impl Into<String>) -> Result<Self, Error> {
        Self::builder(address).connect().await
    }

    /// A connection, word by word.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder { address: address.into(), token: None, tls: None }
    }

    /// Pushes a job. It is on the disk when this is answered. A job that was there before (by its unique
    /// key or client id) is answered with that one's id.
    pub async fn push(&self, job: Job) -> Result<JobId, Error> {
        self.pusher.push(job.0).await
    }

    /// Pushes many at once: all of them, or none if one breaks a rule.
    pub async fn push_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, Error> {
        let jobs = jobs.into_iter().map(|job| job.0).collect();
        let ask = v1::PushRequest { jobs, ..v1::PushRequest::default() };
        let pushed = self.jobs().push(ask).await?.into_inner();
        pushed.jobs.into_iter().map(taken).collect()
    }

    /// Looks at a job.
    pub async fn get(&self, id: JobId) -> Result<Option<v1::Job>, Error> {
        match self.jobs().get(by_id(id)).await {
            Ok(job) => Ok(Some(job.into_inner())),
            Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Waits for a job's end as long as asked, and gives its result.
    pub async fn wait(&self, id: JobId, at_most: Duration) -> Result<v1::Ended, Error> {
        let wait_ms = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        Ok(self.jobs().wait(v1::WaitRequest { id: id.0, wait_ms }).await?.into_inner())
    }

    /// A job is not to run; one that runs is asked to stop.
    pub async fn cancel(&self, id: JobId) -> Result<v1::Acted, Error> {
        Ok(self.jobs().cancel(by_id(id)).await?.into_inner())
    }

    /// A job is to run again, or now.
    pub async fn retry(&self, id: JobId) -> Result<v1::Acted, Error> {
        Ok(self.jobs().retry(by_id(id)).await?.into_inner())
    }

    /// Everything else that can be asked about jobs.
    pub(crate) fn jobs(&self) -> JobsClient<Line> {
        JobsClient::new(self.line.clone())
    }

    pub(crate) fn work(&self) -> WorkClient<Line> {
        WorkClient::new(self.line.clone())
    }
}

fn by_id(id: JobId) -> v1::JobRef {
    v1::JobRef { which: Some(v1::job_ref::Which::Id(id.0)) }
}

/// What became of a pushed job.
pub(crate) fn taken(pushed: v1::Pushed) -> Result<JobId, Error> {
    match pushed.problem {
        Some(problem) => Err(Error::Refused(problem.into())),
        None => Ok(JobId(pushed.id)),
    }
}
