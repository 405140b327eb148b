//! The store on PostgreSQL; 15 is the version that it is tested on.
//!
//! Any number of nodes share one schema; there is no state in a node but its connections. A verb is
//! one statement or one transaction at the level `read committed`: it locks what it is about, reads
//! it, lets the rules of `crore-core` say what becomes of it, and writes that.
//!
//! **Locks** are taken in one order, so that verbs wait for each other but not in a circle: jobs by
//! id, buckets by key, keys by key, groups by id, registry entries by name, and then the jobs that
//! wait for those. A claim takes buckets before jobs, and can, because it never waits for a job.
//! What is left (a push that refers to a job which came to a key, or which a group's end releases,
//! just then) the server notices, and the verb is done again.

mod apply;
mod buckets;
mod claim;
mod error;
mod flush;
mod keys;
mod peek;
mod push;
mod registry;
mod renew;
mod row;
mod schema;
mod verbs;
mod work;

use std::fmt;
use std::sync::Arc;

use crore_core::{Clock, Name, Span, Time};
use crore_store::{Committed, Error};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgPool, Postgres as Db, Transaction};

use error::Fault;

/// Every statement of this store is some steps down an index. The planner does not know how few jobs
/// a claim takes, and would rather read the whole table; so it is not given the choice.
const SESSION: &str = "select set_config('search_path', quote_ident($1), false), \
     set_config(setting, 'off', false) from unnest(array['enable_seqscan', 'enable_hashjoin', \
     'enable_mergejoin', 'jit']) setting";

/// How a store on PostgreSQL is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The schema that holds the tables; created if it is not there.
    pub schema: Name,
    /// At most so many connections from this node.
    pub max_connections: u32,
    /// How long a verb waits for a connection before the store counts as unavailable.
    pub connect_for: Span,
    /// Where "now" comes from; `None`: from the database, so that all nodes agree.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// The defaults, in this schema.
    pub const fn new(schema: Name) -> Self {
        Self { schema, max_connections: 10, connect_for: Span::from_secs(10), clock: None }
    }
}

/// Jobs in a PostgreSQL database. Cloning shares the connections.
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
    /// Connects, and creates the schema and its tables unless they are there. Any number of nodes
    /// may do this at once. A schema of a format that this version does not know is refused.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        schema::check(options.schema.as_str())?;
        let schema = options.schema.clone();
        let connect: PgConnectOptions = url.parse().map_err(error::unavailable)?;
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections.max(1))
            .acquire_timeout(options.connect_for.into())
            .after_connect(move |connection, _| {
                let schema = schema.clone();
                Box::pin(async move {
                    sqlx::query(SESSION).bind(schema.as_str()).execute(connection).await.map(|_| ())
                })
            })
            .connect_with(connect)
            .await
            .map_err(error::unavailable)?;
        schema::prepare(&pool, options.schema.as_str()).await?;
        Ok(Self { pool, schema: options.schema, clock: options.clock })
    }

    /// Closes the connections; what is under way on them ends first.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// The test's instant, or null for the database's.
    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millis())
    }

    async fn begin(&self) -> Result<Transaction<'static, Db>, Fault> {
        Ok(self.pool.begin().await?)
    }
}

/// Commits, and only then makes the answer one that may be passed on.
async fn commit<T>(tx: Transaction<'static, Db>, answer: T) -> Result<Committed<T>, Fault> {
    tx.commit().await?;
    #[expect(clippy::disallowed_methods, reason = "the server said that the commit is done")]
    let answer = Committed::synced(answer);
    Ok(answer)
}

fn time(millis: i64) -> Time {
    Time::from_millis(millis)
}
