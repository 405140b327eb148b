//! The environment variables that the testkit reads; no other module reads the environment.

/// Connection URL of the PostgreSQL server that all tests share.
pub(crate) const POSTGRES: &str = "CRORE_TEST_POSTGRES";
/// Connection URL of the MariaDB server that all tests share.
pub(crate) const MARIADB: &str = "CRORE_TEST_MARIADB";
/// Connection URL of the Redis server that all tests share.
pub(crate) const REDIS: &str = "CRORE_TEST_REDIS";
/// `host:port` of every node of the Redis Cluster that all tests share, comma-separated.
pub(crate) const REDIS_CLUSTER: &str = "CRORE_TEST_REDIS_CLUSTER";
/// Cache directory for downloads, instead of the user's cache.
pub(crate) const CACHE: &str = "CRORE_TEST_CACHE";

/// The value of a variable; empty counts as unset.
#[expect(clippy::disallowed_methods, reason = "the only read of the environment in the testkit")]
pub(crate) fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether skipping tests is forbidden.
pub(crate) fn is_ci() -> bool {
    read("CI").is_some_and(|value| value == "true" || value == "1")
}
