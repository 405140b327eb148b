//! The client: a connection to a server.

use std::sync::Arc;
use std::time::Duration;

use crore_core::JobId;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use crore_wire::grpc::v1::work_client::WorkClient;
use serde::Serialize;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::pusher::Pusher;
use crate::{Error, Job};

/// Options of a connection; see [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected until `connect` is called"]
pub struct Builder {
    address: String,
    token: Option<String>,
    tls: Option<ClientTlsConfig>,
}

impl Builder {
    /// Sends this access token with every call.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the TLS configuration. Default for `https` addresses: the certificates that the system trusts.
    pub fn tls(mut self, tls: ClientTlsConfig) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects to the server. The client reconnects automatically if the connection breaks.
    pub async fn connect(self) -> Result<Client, Error> {
        let (endpoint, interceptor) = self.endpoint()?;
        Ok(Client::on(endpoint.connect().await?, interceptor))
    }

    fn endpoint(self) -> Result<(Endpoint, TokenInterceptor), Error> {
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
        let token = token.map_err(|_| Error::Malformed("the token is malformed".to_owned()))?;
        Ok((endpoint, TokenInterceptor(token.map(Arc::new))))
    }
}

/// Adds the access token to every call.
#[derive(Debug, Clone)]
pub(crate) struct TokenInterceptor(Option<Arc<MetadataValue<Ascii>>>);

impl Interceptor for TokenInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", MetadataValue::clone(token));
        }
        Ok(request)
    }
}

/// The channel of all calls.
pub(crate) type AuthenticatedChannel = InterceptedService<Channel, TokenInterceptor>;

/// A connection to a server. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    channel: AuthenticatedChannel,
    pusher: Arc<Pusher>,
}

impl Client {
    fn on(channel: Channel, interceptor: TokenInterceptor) -> Self {
        let authenticated = InterceptedService::new(channel, interceptor);
        Self { pusher: Arc::new(Pusher::start(authenticated.clone())), channel: authenticated }
    }

    /// Connects to `http://host:port` or `https://host:port`.
    pub async fn connect(address: impl Into<String>) -> Result<Self, Error> {
        Self::builder(address).connect().await
    }

    /// Configures a connection.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder { address: address.into(), token: None, tls: None }
    }

    /// Pushes a job and returns its id; the job is durable then. If a job with the same unique key or client id
    /// exists, its id is returned and nothing is stored.
    pub async fn push(&self, job: Job) -> Result<JobId, Error> {
        self.pusher.push(job.0).await
    }

    /// Pushes several jobs in one call: all of them, or none if one is invalid.
    pub async fn push_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<JobId>, Error> {
        let jobs = jobs.into_iter().map(|job| job.0).collect();
        let request = v1::PushRequest { jobs, ..v1::PushRequest::default() };
        let pushed = self.jobs().push(request).await?.into_inner();
        pushed.jobs.into_iter().map(pushed_id).collect()
    }

    /// Looks up a job; `None`: it does not exist.
    pub async fn get(&self, id: JobId) -> Result<Option<v1::Job>, Error> {
        match self.jobs().get(by_id(id)).await {
            Ok(job) => Ok(Some(job.into_inner())),
            Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Waits for the end of a job, up to a timeout, and returns its state and result.
    pub async fn wait(&self, id: JobId, timeout: Duration) -> Result<v1::Ended, Error> {
        let wait_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Ok(self.jobs().wait(v1::WaitRequest { id: id.0, wait_ms }).await?.into_inner())
    }

    /// Cancels a job. A running job is asked to stop.
    pub async fn cancel(&self, id: JobId) -> Result<v1::Acted, Error> {
        Ok(self.jobs().cancel(by_id(id)).await?.into_inner())
    }

    /// Runs a job again after it ended, or now if it is due later.
    pub async fn retry(&self, id: JobId) -> Result<v1::Acted, Error> {
        Ok(self.jobs().retry(by_id(id)).await?.into_inner())
    }

    /// Pushes a replay of a job: a new job with its definition, and with edits. Fields of `edits` that are absent have the
    /// values of the original; its `job` is ignored. Returns the id of the replay, or of the job that holds the unique key
    /// of the original.
    pub async fn replay(&self, id: JobId, edits: v1::ReplayRequest) -> Result<JobId, Error> {
        let request = v1::ReplayRequest { job: Some(by_id(id)), ..edits };
        pushed_id(self.jobs().replay(request).await?.into_inner())
    }

    /// Sends a named event with a JSON payload to the jobs that wait for it, now and for the next hour. Returns how many
    /// jobs waited.
    pub async fn send_event<T: Serialize>(&self, name: &str, payload: &T) -> Result<u64, Error> {
        let (payload, name) = (Some(serde_json::to_vec(payload)?.into()), name.to_owned());
        let event = v1::NewEvent { name, payload, ..v1::NewEvent::default() };
        let sent = AdminClient::new(self.channel.clone()).send_event(event).await?;
        Ok(sent.into_inner().waiting)
    }

    /// The generated gRPC client of the jobs service.
    pub(crate) fn jobs(&self) -> JobsClient<AuthenticatedChannel> {
        JobsClient::new(self.channel.clone())
    }

    pub(crate) fn work(&self) -> WorkClient<AuthenticatedChannel> {
        WorkClient::new(self.channel.clone())
    }
}

fn by_id(id: JobId) -> v1::JobRef {
    v1::JobRef { which: Some(v1::job_ref::Which::Id(id.0)) }
}

/// The id of a pushed job, or why it was refused.
pub(crate) fn pushed_id(pushed: v1::Pushed) -> Result<JobId, Error> {
    match pushed.problem {
        Some(problem) => Err(Error::Refused(problem.into())),
        None => Ok(JobId(pushed.id)),
    }
}
