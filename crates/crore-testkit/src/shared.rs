//! One server for many tests.
//!
//! Test runners give each test a process of its own, and a database takes seconds to start. So the
//! address comes from the environment if `crore-testservers` (or a person) has put it there, and
//! only otherwise is a server started, once for this process. It ends with the process.
//!
//! Tests that share a server keep apart by a schema, database or key prefix of their own: see
//! [`unique_name`](crate::unique_name).

use std::sync::OnceLock;

use crate::{Error, MariaDb, Postgres, Redis, RedisCluster, environment};

/// Connection URL of a PostgreSQL server: `CRORE_TEST_POSTGRES`, or one of this process.
///
/// # Errors
///
/// As for [`Postgres::start`].
pub fn postgres() -> Result<String, Error> {
    static OWN: OnceLock<Result<Postgres, Error>> = OnceLock::new();
    address(environment::POSTGRES, &OWN, Postgres::start, Postgres::url)
}

/// Connection URL of a MariaDB server: `CRORE_TEST_MARIADB`, or one of this process.
///
/// # Errors
///
/// As for [`MariaDb::start`].
pub fn mariadb() -> Result<String, Error> {
    static OWN: OnceLock<Result<MariaDb, Error>> = OnceLock::new();
    address(environment::MARIADB, &OWN, MariaDb::start, MariaDb::url)
}

/// Connection URL of a Redis server: `CRORE_TEST_REDIS`, or one of this process.
///
/// # Errors
///
/// As for [`Redis::start`].
pub fn redis() -> Result<String, Error> {
    static OWN: OnceLock<Result<Redis, Error>> = OnceLock::new();
    address(environment::REDIS, &OWN, Redis::start, Redis::url)
}

/// `host:port` of every node of a Redis Cluster: `CRORE_TEST_REDIS_CLUSTER` (comma-separated), or
/// one of this process.
///
/// # Errors
///
/// As for [`RedisCluster::start`].
pub fn redis_cluster() -> Result<Vec<String>, Error> {
    static OWN: OnceLock<Result<RedisCluster, Error>> = OnceLock::new();
    let joined = |cluster: &RedisCluster| cluster.addresses().join(",");
    let nodes = address(environment::REDIS_CLUSTER, &OWN, RedisCluster::start, joined)?;
    Ok(nodes.split(',').map(|node| node.trim().to_owned()).collect())
}

/// Statics are never dropped; the server's supervisor sees the process end all the same.
fn address<S>(
    variable: &str,
    own: &'static OnceLock<Result<S, Error>>,
    start: fn() -> Result<S, Error>,
    address: fn(&S) -> String,
) -> Result<String, Error> {
    match environment::read(variable) {
        Some(given) => Ok(given),
        None => own.get_or_init(start).as_ref().map(address).map_err(Clone::clone),
    }
}
