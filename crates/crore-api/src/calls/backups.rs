//! Online backups of the store.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::path::Path;

use crore::Engine;
use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Name};
use crore_wire::api::backups::Backup;
use tokio::task::spawn_blocking;

use crate::{Api, Fault, Grant};

impl Api {
    /// Copies the store into the backup directory, under a new name. Returns when the copy is durable.
    pub async fn create_backup(&self, grant: &Grant, name: &str) -> Result<Backup, Fault> {
        grant.check_unrestricted("backups")?;
        check(name)?;
        let Some(dir) = self.options().backups.clone() else {
            let detail = "this server has no backup directory; set `store.backups`";
            return Err(Fault::new(Code::Refused, detail));
        };
        let (engine, name) = (self.engine().clone(), name.to_owned());
        let copied = spawn_blocking(move || copy(&engine, &dir, &name)).await;
        copied.map_err(|_| Fault::new(Code::Unavailable, "the backup failed"))?
    }
}

/// Refuses a name that could escape from the directory.
fn check(name: &str) -> Result<(), Invalid> {
    Name::new("name", name)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.starts_with('.') || !name.chars().all(is_plain) {
        let why = format!(
            "`{}` is not a valid backup name; use letters, digits, `.`, `-` and `_`, with no `.` at the start",
            excerpt(name)
        );
        return Err(Invalid::new(Code::Malformed, "name", why));
    }
    Ok(())
}

/// Makes the copy; removes the remains of a failed one.
fn copy(engine: &Engine, dir: &Path, name: &str) -> Result<Backup, Fault> {
    let to = dir.join(name);
    // The directory is created here, so that an existing one is never touched.
    let ready = private_dir(true).create(dir).and_then(|()| private_dir(false).create(&to));
    ready.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Fault::new(Code::Refused, format!("backup `{name}` already exists"))
        }
        _ => {
            tracing::error!(%error, dir = %dir.display(), "cannot create the backup directory");
            Fault::new(Code::Unavailable, "the backup directory cannot be written")
        }
    })?;
    match engine.backup(&to) {
        Ok(made) => {
            let (name, commit) = (name.to_owned(), made.commit);
            Ok(Backup { name, bytes: made.bytes, segments: made.segments, commit })
        }
        Err(error) => {
            let why: &dyn std::error::Error = &error;
            tracing::error!(error = why, name, "backup failed");
            // A partial copy that cannot be removed is not opened as a store.
            let _ = fs::remove_dir_all(&to);
            Err(error.into())
        }
    }
}

/// A builder of directories that only this user may enter: a backup contains payloads.
fn private_dir(with_parents: bool) -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(with_parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
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
