//! Stores that are SQL databases.

pub mod postgres;

pub use postgres::Postgres;
