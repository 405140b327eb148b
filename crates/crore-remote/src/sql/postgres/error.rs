//! Errors, translated to those of the store interface. No driver type leaves this module.

use std::future::Future;

use crore_store::Error;

/// Maximum attempts of an operation that conflicts with other transactions.
const MAX_ATTEMPTS: usize = 5;

/// The error of an operation, before it is known whether to retry.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostgresFault {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Store(#[from] Error),
}

impl PostgresFault {
    /// Whether the server rolled the transaction back because of another one: a deadlock or a serialization
    /// failure. Nothing of it took effect.
    fn is_conflict(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40P01" | "40001"))
    }
}

impl From<PostgresFault> for Error {
    fn from(fault: PostgresFault) -> Self {
        match fault {
            PostgresFault::Store(error) => error,
            PostgresFault::Sql(error) => from_sql(error),
        }
    }
}

fn from_sql(error: sqlx::Error) -> Error {
    let corrupt = |what: String| Error::Corrupt { what };
    match error {
        sqlx::Error::ColumnDecode { index, source } => {
            corrupt(format!("column {index} cannot be read: {source}"))
        }
        sqlx::Error::Decode(source) => corrupt(format!("a value cannot be read: {source}")),
        sqlx::Error::Database(error) if is_full(error.code().as_deref()) => {
            Error::Full { what: error.message().to_owned() }
        }
        sqlx::Error::Database(error) if is_damage(error.code().as_deref()) => {
            corrupt(error.message().to_owned())
        }
        error => unavailable(error),
    }
}

/// The disk is full.
fn is_full(code: Option<&str>) -> bool {
    code == Some("53100")
}

/// Damaged pages and indexes, and values or rows that violate constraints.
fn is_damage(code: Option<&str>) -> bool {
    code.is_some_and(|code| {
        code.starts_with("XX") || code.starts_with("22") || code.starts_with("23")
    })
}

pub(super) fn unavailable(error: sqlx::Error) -> Error {
    Error::Unavailable(Box::new(error))
}

pub(super) fn corrupt(what: impl Into<String>) -> PostgresFault {
    PostgresFault::Store(Error::Corrupt { what: what.into() })
}

/// Runs an operation, and repeats it after a conflict.
pub(super) async fn with_retries<T, F>(mut operation: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, PostgresFault>>,
{
    for _ in 1..MAX_ATTEMPTS {
        match operation().await {
            Err(fault) if fault.is_conflict() => {}
            result => return result.map_err(Error::from),
        }
    }
    operation().await.map_err(Error::from)
}
