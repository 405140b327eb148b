//! Creates the tables, and refuses those of another format.

use crore_core::{Code, Invalid};
use crore_store::Error;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::error::Fault;

/// The format of the tables that this version reads and writes.
const FORMAT: i32 = 1;
const TABLES: &str = include_str!("schema.sql");

/// The longest name that PostgreSQL does not cut, in bytes.
const MAX_SCHEMA: usize = 63;

pub(super) fn check(schema: &str) -> Result<(), Invalid> {
    if schema.len() > MAX_SCHEMA {
        let message = format!("schema `{schema}` is longer than {MAX_SCHEMA} bytes");
        return Err(Invalid::new(Code::NameTooLong, "schema", message));
    }
    Ok(())
}

/// Makes sure that the schema is there, in this version's format.
pub(super) async fn prepare(pool: &PgPool, schema: &str) -> Result<(), Error> {
    prepare_in(pool, schema).await.map_err(Error::from)
}

async fn prepare_in(pool: &PgPool, schema: &str) -> Result<(), Fault> {
    let mut tx = pool.begin().await?;
    // One node at a time: `create schema if not exists` fails if two do it at once.
    sqlx::query("select pg_advisory_xact_lock(hashtextextended('crore schema ' || $1, 0))")
        .bind(schema)
        .execute(&mut *tx)
        .await?;
    match format(&mut tx, schema).await? {
        None => create(&mut tx, schema).await?,
        Some(FORMAT) => {}
        Some(other) => return Err(unknown(schema, other)),
    }
    tx.commit().await?;
    Ok(())
}

/// The format of the tables that are there.
async fn format(connection: &mut PgConnection, schema: &str) -> Result<Option<i32>, Fault> {
    let there: bool = sqlx::query_scalar(
        "select exists(select from pg_catalog.pg_tables where schemaname = $1 and tablename = 'meta')",
    )
    .bind(schema)
    .fetch_one(&mut *connection)
    .await?;
    if !there {
        return Ok(None);
    }
    Ok(sqlx::query_scalar("select format from meta").fetch_optional(connection).await?)
}

async fn create(connection: &mut PgConnection, schema: &str) -> Result<(), Fault> {
    let create: String =
        sqlx::query_scalar("select 'create schema if not exists ' || quote_ident($1)")
            .bind(schema)
            .fetch_one(&mut *connection)
            .await?;
    // The server itself has quoted the name.
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
    sqlx::raw_sql(TABLES).execute(&mut *connection).await?;
    sqlx::query("insert into meta (format) values ($1)").bind(FORMAT).execute(connection).await?;
    Ok(())
}

fn unknown(schema: &str, format: i32) -> Fault {
    let what = format!(
        "schema `{schema}` has format {format}, and this version of crore knows format {FORMAT}; \
         open it with the version that wrote it, or a newer one"
    );
    Fault::Store(Error::Corrupt { what })
}
