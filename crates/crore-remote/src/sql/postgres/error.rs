//! What can go wrong, in the words of the seam; no type of the driver leaves this module.

use std::future::Future;

use crore_store::Error;

/// How often a verb is done again that lost a race between transactions.
const TRIES: usize = 5;

/// Why a verb has no answer, while it can still be told whether to try again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Store(#[from] Error),
}

impl Fault {
    /// Whether the server undid the transaction because of another one: a deadlock or a
    /// serialization failure. Nothing of it took effect.
    fn lost_a_race(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        matches!(error.code().as_deref(), Some("40P01" | "40001"))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => error,
            Fault::Sql(error) => from_sql(error),
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

/// Damaged pages and indexes, and values or rows that the tables do not allow.
fn is_damage(code: Option<&str>) -> bool {
    code.is_some_and(|code| {
        code.starts_with("XX") || code.starts_with("22") || code.starts_with("23")
    })
}

pub(super) fn unavailable(error: sqlx::Error) -> Error {
    Error::Unavailable(Box::new(error))
}

pub(super) fn corrupt(what: impl Into<String>) -> Fault {
    Fault::Store(Error::Corrupt { what: what.into() })
}

/// Does a verb, and does it again if it lost a race.
pub(super) async fn retried<T, F>(mut verb: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Fault>>,
{
    for _ in 1..TRIES {
        match verb().await {
            Err(fault) if fault.lost_a_race() => {}
            answer => return answer.map_err(Error::from),
        }
    }
    verb().await.map_err(Error::from)
}
