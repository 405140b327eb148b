//! Creates the tables, and refuses those of an unknown format.

use crore_core::{Code, Invalid};
use crore_store::Error;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::error::PostgresFault;

/// The format of the tables that this version reads and writes.
const FORMAT: i32 = 1;
const TABLES: &str = include_str!("schema.sql");

/// Maximum length of a name in bytes; PostgreSQL truncates longer ones.
const MAX_SCHEMA: usize = 63;

pub(super) fn check(schema: &str) -> Result<(), Invalid> {
    if schema.len() > MAX_SCHEMA {
        let message = format!("schema `{schema}` is longer than {MAX_SCHEMA} bytes");
        return Err(Invalid::new(Code::NameTooLong, "schema", message));
    }
    Ok(())
}

/// Creates the schema if it does not exist, and checks its format.
pub(super) async fn prepare(pool: &PgPool, schema: &str) -> Result<(), Error> {
    prepare_in(pool, schema).await.map_err(Error::from)
}

async fn prepare_in(pool: &PgPool, schema: &str) -> Result<(), PostgresFault> {
    let mut tx = pool.begin().await?;
    // One node at a time: concurrent `create schema if not exists` can fail.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('crore schema ' || $1, 0))")
        .bind(schema)
        .execute(&mut *tx)
        .await?;
    match format(&mut tx, schema).await? {
        None => create(&mut tx, schema).await?,
        Some(FORMAT) => {}
        Some(other) => return Err(unknown_format(schema, other)),
    }
    tx.commit().await?;
    Ok(())
}

/// The format of the existing tables.
async fn format(connection: &mut PgConnection, schema: &str) -> Result<Option<i32>, PostgresFault> {
    let exists: bool = sqlx::query_scalar(
        "select exists(select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'meta')",
    )
    .bind(schema)
    .fetch_one(&mut *connection)
    .await?;
    if !exists {
        return Ok(None);
    }
    Ok(sqlx::query_scalar("select format from meta").fetch_optional(connection).await?)
}

async fn create(connection: &mut PgConnection, schema: &str) -> Result<(), PostgresFault> {
    let create: String =
        sqlx::query_scalar("select 'create schema if not exists ' || quote_ident($1)")
            .bind(schema)
            .fetch_one(&mut *connection)
            .await?;
    // The server has quoted the name.
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
    sqlx::raw_sql(TABLES).execute(&mut *connection).await?;
    sqlx::query("insert into meta (format) values ($1)").bind(FORMAT).execute(connection).await?;
    Ok(())
}

fn unknown_format(schema: &str, format: i32) -> PostgresFault {
    let what = format!(
        "schema `{schema}` has format {format}, this version of crore expects format {FORMAT}; \
         open it with the version that wrote it, or a newer one"
    );
    PostgresFault::Store(Error::Corrupt { what })
}
