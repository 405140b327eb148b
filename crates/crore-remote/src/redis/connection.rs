//! The connection to a single Redis or to a Cluster.
//!
//! The driver's retries are disabled: resending a command after a broken connection could push twice. A
//! command is repeated only if the server refused to run it, for example because the slot has moved.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use crore_store::Error;
use tokio::sync::Mutex;

use super::reply::{ScriptReply, corrupt};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often, and after what delay, a refused command is repeated.
const MAX_REPEATS: u32 = 50;
const REPEAT_DELAY: Duration = Duration::from_millis(20);

/// Digest and source of a script.
#[derive(Debug)]
pub(super) struct LuaScript(redis::Script, String);

impl LuaScript {
    pub(super) fn new(parts: &[&str]) -> Self {
        let source = parts.join("\n");
        Self(redis::Script::new(&source), source)
    }
}

pub(super) enum RedisConnection {
    Single(Box<SingleConnection>),
    Cluster(ClusterConnection),
}

/// A single Redis, and the connection while it is open.
pub(super) struct SingleConnection {
    client: redis::Client,
    open: Mutex<Option<MultiplexedConnection>>,
}

impl std::fmt::Debug for RedisConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Single(_) => "one Redis",
            Self::Cluster(_) => "a Redis Cluster",
        })
    }
}

impl RedisConnection {
    pub(super) fn single(url: &str) -> Result<Self, Error> {
        let client = redis::Client::open(url).map_err(unavailable)?;
        Ok(Self::Single(Box::new(SingleConnection { client, open: Mutex::new(None) })))
    }

    pub(super) async fn cluster(nodes: &[String]) -> Result<Self, Error> {
        let builder: ClusterClientBuilder =
            ClusterClient::builder(nodes.iter().map(String::as_str));
        let client = builder
            .retries(0)
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .build()
            .map_err(unavailable)?;
        Ok(Self::Cluster(client.get_async_connection().await.map_err(unavailable)?))
    }

    /// Runs a script in the slot of `tag`.
    pub(super) async fn eval(
        &self,
        script: &LuaScript,
        tag: &str,
        args: &[u8],
    ) -> Result<ScriptReply, Error> {
        let LuaScript(script, source) = script;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.get_hash()).arg(1).arg(tag).arg(args);
        for _ in 0..MAX_REPEATS {
            match self.query(&cmd).await {
                Ok(value) => return Ok(ScriptReply(value)),
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    cmd = redis::cmd("EVAL");
                    cmd.arg(source).arg(1).arg(tag).arg(args);
                }
                Err(error) if was_not_run(&error) => pause(REPEAT_DELAY).await,
                Err(error) => return Err(translate(error)),
            }
        }
        self.query(&cmd).await.map(ScriptReply).map_err(translate)
    }

    async fn query(&self, cmd: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Cluster(connection) => cmd.query_async(&mut connection.clone()).await,
            Self::Single(one) => {
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

impl SingleConnection {
    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(open.insert(connection).clone())
    }
}

#[expect(clippy::disallowed_methods, reason = "waits for another server, which sends no event")]
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
    if of_script { corrupt(format!("a script failed: {error}")) } else { unavailable(error) }
}

pub(super) fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Unavailable(error.into())
}
