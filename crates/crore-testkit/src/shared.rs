//! Servers shared by many tests.
//!
//! Test runners give each test its own process, and a database takes seconds to start. The address therefore
//! comes from the environment, if `crore-testservers` (or a developer) set it; otherwise a server is started
//! once for this process and ends with it.
//!
//! Tests that share a server use separate schemas, databases or key prefixes: see
//! [`unique_name`](crate::unique_name).

use std::sync::OnceLock;

use crate::{Error, MariaDbServer, PostgresServer, RedisCluster, RedisServer, environment};

/// Connection URL of a PostgreSQL server: `CRORE_TEST_POSTGRES`, or one started by this process.
///
/// # Errors
///
/// As for [`PostgresServer::start`].
pub fn postgres() -> Result<String, Error> {
    static OWN: OnceLock<Result<PostgresServer, Error>> = OnceLock::new();
    address(environment::POSTGRES, &OWN, PostgresServer::start, PostgresServer::url)
}

/// Connection URL of a MariaDB server: `CRORE_TEST_MARIADB`, or one started by this process.
///
/// # Errors
///
/// As for [`MariaDbServer::start`].
pub fn mariadb() -> Result<String, Error> {
    static OWN: OnceLock<Result<MariaDbServer, Error>> = OnceLock::new();
    address(environment::MARIADB, &OWN, MariaDbServer::start, MariaDbServer::url)
}

/// Connection URL of a Redis server: `CRORE_TEST_REDIS`, or one started by this process.
///
/// # Errors
///
/// As for [`RedisServer::start`].
pub fn redis() -> Result<String, Error> {
    static OWN: OnceLock<Result<RedisServer, Error>> = OnceLock::new();
    address(environment::REDIS, &OWN, RedisServer::start, RedisServer::url)
}

/// `host:port` of every node of a Redis Cluster: `CRORE_TEST_REDIS_CLUSTER` (comma-separated), or one started
/// by this process.
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

/// Statics are never dropped, but the server's supervisor still notices the end of the process.
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
