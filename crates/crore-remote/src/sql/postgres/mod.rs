//! The store on PostgreSQL, tested with version 15.
//!
//! Any number of nodes share one schema; a node has no state except its connections. Each operation is one
//! statement or one transaction at `read committed`: it locks its records, reads them, lets the rules of
//! `crore-core` decide, and writes the result.
//!
//! **Locks** are taken in one order, so that operations wait for each other without deadlocks: jobs by id,
//! buckets by key, keys by key, groups by id, registry entries by name, then the jobs that depend on those. A
//! claim takes buckets before jobs, which is safe because it never waits for a job. The remaining deadlocks
//! (a push that refers to a job which has just taken a key, or which the end of a group is releasing) are
//! detected by the server, and the operation is repeated.

mod apply;
mod buckets;
mod claim;
mod error;
mod flush;
mod keys;
mod operations;
mod peek;
mod push;
mod registry;
mod renew;
mod row;
mod schema;
mod unit_of_work;

use std::fmt;
use std::sync::Arc;

use crore_core::{Clock, Name, Span, Time};
use crore_store::{Committed, Error};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres as Db, Transaction};

use error::PostgresFault;

/// Every statement of this store is a few index lookups. The planner does not know how few jobs a claim takes
/// and would prefer sequential scans, so they are disabled.
const SESSION_SETUP: &str = "select set_config('search_path', quote_ident($1), false), \
     set_config(setting, 'off', false) from unnest(array['enable_seqscan', 'enable_hashjoin', \
     'enable_mergejoin', 'jit']) setting";

/// How to open a store on PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema with the tables; created if it does not exist.
    pub schema: Name,
    /// Maximum connections of this node.
    pub max_connections: u32,
    /// Timeout for getting a connection; then the store is unavailable.
    pub connect_timeout: Span,
    /// The source of "now"; `None` uses the clock of the database, so that all nodes agree.
    pub clock: Option<Arc<dyn Clock>>,
}

impl PostgresOptions {
    /// The defaults, in this schema.
    pub const fn new(schema: Name) -> Self {
        Self { schema, max_connections: 10, connect_timeout: Span::from_secs(10), clock: None }
    }
}

/// Jobs in a PostgreSQL database. Clones share the connections.
#[derive(Clone)]
pub struct Postgres {
    pool: PgPool,
    schema: Name,
    clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects, and creates the schema and its tables if they do not exist. Any number of nodes may do this
    /// at once. Refuses a schema of an unknown format.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, Error> {
        schema::check(options.schema.as_str())?;
        let schema = options.schema.clone();
        let connect: PgConnectOptions = url.parse().map_err(error::unavailable)?;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(options.connect_timeout.into())
            .after_connect(move |connection, _| {
                let schema = schema.clone();
                Box::pin(async move {
                    sqlx::query(SESSION_SETUP)
                        .bind(schema.as_str())
                        .execute(connection)
                        .await
                        .map(|_| ())
                })
            })
            .connect_with(connect)
            .await
            .map_err(error::unavailable)?;
        schema::prepare(&pool, options.schema.as_str()).await?;
        Ok(Self { pool, schema: options.schema, clock: options.clock })
    }

    /// Closes the connections after their current operations.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The time of the configured clock, or null for that of the database.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millis())
    }

    async fn begin(&self) -> Result<Transaction<'static, Db>, PostgresFault> {
        Ok(self.pool.begin().await?)
    }
}

/// Commits, and only then marks the answer as durable.
async fn commit<T>(tx: Transaction<'static, Db>, answer: T) -> Result<Committed<T>, PostgresFault> {
    tx.commit().await?;
    #[expect(clippy::disallowed_methods, reason = "the server has confirmed the commit")]
    let answer = Committed::synced(answer);
    Ok(answer)
}

fn time(millis: i64) -> Time {
    Time::from_millis(millis)
}
