//! Stores in SQL databases.

pub mod postgres;

pub use postgres::Postgres;
