//! Backups: copies of the store, made while it is used.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use axum::extract::State;
use axum::response::Response;
use crore::Engine;
use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Name};
use crore_wire::api::backups::{Backup, NewBackup};
use http::StatusCode;
use tokio::task::spawn_blocking;

use super::body::Read;
use super::fault::Fault;
use super::wants::Reply;
use crate::Doors;
use crate::audit::About;

/// Copies the store into the server's directory for backups, under a new name.
///
/// Others go on with their work. What is made is a store, with everything that was answered before this call;
/// the answer comes when it is on the disk.
#[utoipa::path(
    post, path = "/v1/backups", operation_id = "createBackup", tag = "server",
    request_body = NewBackup,
    responses((status = 201, description = "The backup is made.", body = Backup)),
)]
pub(super) async fn create(
    State(doors): State<Doors>,
    reply: Reply,
    Read { value: NewBackup { name }, .. }: Read<NewBackup>,
) -> Result<Response, Fault> {
    check(&name)?;
    let Some(dir) = doors.options().backups.clone() else {
        let detail = "this server has no directory for backups; `store.backups` names one";
        return Err(Fault::new(Code::Refused, detail));
    };
    let (engine, called) = (doors.engine().clone(), name.clone());
    let copied = spawn_blocking(move || copy(&engine, &dir, &called)).await;
    let made = copied.map_err(|_| Fault::new(Code::Unavailable, "the backup was not made"))??;
    let mut response = reply.with(StatusCode::CREATED, &made);
    response.extensions_mut().insert(About(format!("backup {name}: {} bytes", made.bytes)));
    Ok(response)
}

/// A name that stays in its directory.
fn check(name: &str) -> Result<(), Invalid> {
    Name::new("name", name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.starts_with('.') || !name.chars().all(is_plain) {
        let why = format!(
            "`{}` is no name for a backup: letters, digits, `.`, `-` and `_` are, and no `.` at the start",
            excerpt(name)
        );
        return Err(Invalid::new(Code::Malformed, "name", why));
    }
    Ok(())
}

/// Makes the copy. What is left of one that failed is removed.
fn copy(engine: &Engine, dir: &Path, name: &str) -> Result<Backup, Fault> {
    let to = dir.join(name);
    // It is made here and nowhere else, so that nothing that was there is touched.
    let ready = fs::create_dir_all(dir).and_then(|()| fs::create_dir(&to));
    ready.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Fault::new(Code::Refused, format!("`{name}` is there already")),
        _ => {
            tracing::error!(%error, dir = %dir.display(), "no backup can be made");
            Fault::new(Code::Unavailable, "the directory for backups cannot be written")
        }
    })?;
    match engine.backup(&to) {
        Ok(made) => {
            let (name, commit) = (name.to_owned(), made.commit);
            Ok(Backup { name, bytes: made.bytes, segments: made.segments, commit })
        }
        Err(error) => {
            let why: &dyn std::error::Error = &error;
            tracing::error!(error = why, name, "a backup was not made");
            // One that stays says by itself that it is none.
            let _ = fs::remove_dir_all(&to);
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_directory() {
        for good in ["a", "2026-11-15", "nightly_3.copy", "-"] {
            assert!(check(good).is_ok(), "{good}");
        }
        let long = "x".repeat(256);
        for bad in ["", ".", "..", ".hidden", "a/b", "../a", "/etc", "a b", "a\0", "é", &long] {
            assert!(check(bad).is_err_and(|invalid| invalid.field == "name"), "{bad}");
        }
    }
}
