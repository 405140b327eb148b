//! The connection: one Redis, or a Cluster.
//!
//! The driver would send a command again after a broken connection, and so could push twice; it is
//! told not to. Only a command that the server answered with "not here" or "not now" is repeated,
//! since it was not run.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use crore_store::Error;
use tokio::sync::Mutex;

use super::reply::{Reply, damaged};

const CONNECT_FOR: Duration = Duration::from_secs(5);
const ANSWER_FOR: Duration = Duration::from_secs(30);
/// How often, and after how long, a command is repeated that was not run.
const REPEATS: u32 = 50;
const REPEAT_AFTER: Duration = Duration::from_millis(20);

/// Source and digest of a script.
#[derive(Debug)]
pub(super) struct Script(redis::Script, String);

impl Script {
    pub(super) fn new(parts: &[&str]) -> Self {
        let source = parts.join("\n");
        Self(redis::Script::new(&source), source)
    }
}

pub(super) enum Link {
    One(Box<One>),
    Cluster(ClusterConnection),
}

/// A single Redis, and the connection to it while there is one.
pub(super) struct One {
    client: redis::Client,
    open: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "one Redis",
            Self::Cluster(_) => "a Redis Cluster",
        })
    }
}

impl Link {
    pub(super) fn one(url: &str) -> Result<Self, Error> {
        let client = redis::Client::open(url).map_err(unavailable)?;
        Ok(Self::One(Box::new(One { client, open: Mutex::new(None) })))
    }

    pub(super) async fn cluster(nodes: &[String]) -> Result<Self, Error> {
        let builder: ClusterClientBuilder =
            ClusterClient::builder(nodes.iter().map(String::as_str));
        let client = builder
            .retries(0)
            .connection_timeout(CONNECT_FOR)
            .response_timeout(ANSWER_FOR)
            .build()
            .map_err(unavailable)?;
        Ok(Self::Cluster(client.get_async_connection().await.map_err(unavailable)?))
    }

    /// Runs a script in the slot of `tag`.
    pub(super) async fn eval(
        &self,
        script: &Script,
        tag: &str,
        args: &[u8],
    ) -> Result<Reply, Error> {
        let Script(script, source) = script;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.get_hash()).arg(1).arg(tag).arg(args);
        for _ in 0..REPEATS {
            match self.query(&cmd).await {
                Ok(value) => return Ok(Reply(value)),
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    cmd = redis::cmd("EVAL");
                    cmd.arg(source).arg(1).arg(tag).arg(args);
                }
                Err(error) if was_not_run(&error) => pause(REPEAT_AFTER).await,
                Err(error) => return Err(translate(error)),
            }
        }
        self.query(&cmd).await.map(Reply).map_err(translate)
    }

    async fn query(&self, cmd: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Cluster(connection) => cmd.query_async(&mut connection.clone()).await,
            Self::One(one) => {
                let mut connection = one.connect().await?;
                let answer = cmd.query_async(&mut connection).await;
                if answer.as_ref().is_err_and(RedisError::is_unrecoverable_error) {
                    *one.open.lock().await = None;
                }
                answer
            }
        }
    }
}

impl One {
    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_FOR))
            .set_response_timeout(Some(ANSWER_FOR));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(open.insert(connection).clone())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another server's state is waited for, and it sends no signal"
)]
pub(super) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Whether the server refused to run the command here or now.
fn was_not_run(error: &RedisError) -> bool {
    use ServerErrorKind as Kind;
    matches!(
        error.kind(),
        ErrorKind::Server(
            Kind::Moved
                | Kind::Ask
                | Kind::TryAgain
                | Kind::ClusterDown
                | Kind::BusyLoading
                | Kind::MasterDown
                | Kind::ReadOnly
        )
    )
}

fn translate(error: RedisError) -> Error {
    if error.code() == Some("OOM") {
        return Error::Full { what: "Redis has reached its maxmemory".to_owned() };
    }
    let of_script = error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError)
        && error.to_string().contains("user_script");
    if of_script { damaged(format!("a script stumbled: {error}")) } else { unavailable(error) }
}

pub(super) fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Unavailable(error.into())
}
