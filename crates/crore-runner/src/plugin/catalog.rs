//! Finds the library of a plugin, by its file name or by the name that it reports.
//!
//! A name is only compared with the files in the operator's directory, never made into a path. A missing
//! plugin is looked up again each time.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::PluginSetup;
use super::child::Child;
use crate::runner::{FailureClass, RunFailure};

/// A user that may write to a library could run code as crore.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// Names that libraries report, cached until their file changes.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    names: Mutex<BTreeMap<PathBuf, (FileStamp, Option<String>)>>,
}

/// Identity of an unchanged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileStamp {
    fn of(file: &Metadata) -> Self {
        let changed = (file.ctime(), file.ctime_nsec());
        Self { inode: file.ino(), size: file.len(), changed }
    }
}

impl Catalog {
    /// The library of a plugin. If no file name matches, each library is loaded in a child of its own to ask
    /// for its name.
    pub(super) async fn find(
        &self,
        name: &str,
        setup: &PluginSetup,
    ) -> Result<PathBuf, RunFailure> {
        let libraries = libraries(&setup.dir)?;
        let stems: Vec<_> = libraries.keys().map(|path| (stem(path), path)).collect();
        let by_stem = |wanted: &str| stems.iter().find(|(stem, _)| *stem == wanted);
        if let Some((_, path)) = by_stem(name).or_else(|| by_stem(&format!("lib{name}"))) {
            return Ok((*path).clone());
        }
        for (path, stamp) in &libraries {
            if self.name_of(path, *stamp, setup).await.as_deref() == Some(name) {
                return Ok(path.clone());
            }
        }
        let stems: Vec<_> = stems.iter().map(|(stem, _)| format!("`{stem}`")).collect();
        let there = if stems.is_empty() { "nothing".to_owned() } else { stems.join(", ") };
        let dir = setup.dir.display();
        Err(RunFailure::fatal(format!("no plugin `{name}` in `{dir}`; found {there}")))
    }

    async fn name_of(&self, path: &Path, stamp: FileStamp, setup: &PluginSetup) -> Option<String> {
        let lock = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, name)) = lock().get(path)
            && *of == stamp
        {
            return name.clone();
        }
        let name = match Child::start(path, setup).await {
            Ok(child) => Some(child.name().to_owned()),
            Err(failure) => {
                tracing::warn!(
                    library = %path.display(),
                    error = %failure,
                    "library cannot be used as a plugin"
                );
                // A temporary failure is not cached.
                if failure.class == FailureClass::Temporary {
                    return None;
                }
                None
            }
        };
        lock().insert(path.to_owned(), (stamp, name.clone()));
        name
    }
}

/// The libraries in a directory that no other user may write to.
fn libraries(dir: &Path) -> Result<BTreeMap<PathBuf, FileStamp>, RunFailure> {
    let shown = dir.display();
    let unreadable =
        |error| RunFailure::fatal(format!("cannot read `runners.plugins`, `{shown}`: {error}"));
    let home = fs::canonicalize(dir).map_err(unreadable)?;
    refuse_writable_by_others(&home, &fs::metadata(&home).map_err(unreadable)?)?;
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&home).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // A link must point into the same directory.
        let Ok(real) = fs::canonicalize(&path) else { continue };
        let is_ours = path.extension().is_some_and(|end| end == "so") && real.starts_with(&home);
        let Ok(file) = fs::metadata(&real) else { continue };
        if is_ours && file.is_file() && refuse_writable_by_others(&path, &file).is_ok() {
            found.insert(path, FileStamp::of(&file));
        }
    }
    Ok(found)
}

fn refuse_writable_by_others(path: &Path, of: &Metadata) -> Result<(), RunFailure> {
    if of.permissions().mode() & OTHERS_MAY_WRITE == 0 {
        return Ok(());
    }
    let path = path.display();
    tracing::warn!(%path, "plugins ignored: other users may write to the path");
    let message = format!("other users may write to `{path}`; fix it with `chmod go-w`");
    Err(RunFailure::fatal(message))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let found = libraries(dir).expect("it can be read");
        found.keys().map(|path| stem(path)).collect()
    }

    #[test]
    fn a_missing_folder_is_reported_with_its_key() {
        let failure = libraries(Path::new("/no/such")).expect_err("it does not exist");
        assert!(failure.error.contains("`runners.plugins`, `/no/such`"), "{failure}");
    }

    #[test]
    fn only_libraries_of_the_folder_itself_that_others_cannot_change_are_found() {
        let (dir, other) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        let (dir, other) = (dir.path(), other.path());
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        };
        fs::create_dir(dir.join("below")).expect("created");
        for path in ["a.so", "text", "open.so", "below/b.so"] {
            fs::write(dir.join(path), "").expect("written");
        }
        fs::write(other.join("far.so"), "").expect("written");
        fs::create_dir(dir.join("folder.so")).expect("created");
        mode(&dir.join("open.so"), 0o666);
        symlink(other.join("far.so"), dir.join("out.so")).expect("linked");
        symlink(dir.join("a.so"), dir.join("in.so")).expect("linked");
        assert_eq!(names(dir), ["a", "in"]);
        for open in [0o777, 0o775] {
            mode(dir, open);
            let refused = libraries(dir).expect_err("writable by others");
            assert!(refused.error.contains("chmod go-w"), "{refused}");
        }
    }
}
