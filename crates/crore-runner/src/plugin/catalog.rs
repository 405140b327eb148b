//! Which library a handler means: the one whose file is called so, or that tells this name.
//!
//! A name is compared with what lies in the operator's folder, and never made into a path. What is
//! not there is looked for again each time.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Setup;
use super::child::Child;
use crate::runner::{Class, Failure};

/// Whoever may write there may have his code run.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// What libraries say that they are called, as long as they are the same files.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    told: Mutex<BTreeMap<PathBuf, (Stamp, Option<String>)>>,
}

/// By which a file is known to be the same still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        let changed = (file.ctime(), file.ctime_nsec());
        Self { inode: file.ino(), size: file.len(), changed }
    }
}

impl Catalog {
    /// The library that `name` means. Those whose file is called otherwise are loaded, each in a child
    /// of its own, to ask for their names.
    pub(super) async fn find(&self, name: &str, setup: &Setup) -> Result<PathBuf, Failure> {
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
        Err(Failure::fatal(format!("there is no plugin `{name}` in `{dir}`; there is {there}")))
    }

    async fn name_of(&self, path: &Path, stamp: Stamp, setup: &Setup) -> Option<String> {
        let lock = || self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, name)) = lock().get(path)
            && *of == stamp
        {
            return name.clone();
        }
        let name = match Child::start(path, setup).await {
            Ok(child) => Some(child.name().to_owned()),
            Err(failure) => {
                tracing::warn!(library = %path.display(), "not used as a plugin: {failure}");
                // What may go better the next time is asked again then.
                if failure.class == Class::Again {
                    return None;
                }
                None
            }
        };
        lock().insert(path.to_owned(), (stamp, name.clone()));
        name
    }
}

/// The libraries in a folder that only its owner may write to.
fn libraries(dir: &Path) -> Result<BTreeMap<PathBuf, Stamp>, Failure> {
    let shown = dir.display();
    let unreadable = |error| {
        Failure::fatal(format!("the plugins' folder, `runners.plugins`, is `{shown}`: {error}"))
    };
    let home = fs::canonicalize(dir).map_err(unreadable)?;
    refuse_others(&home, &fs::metadata(&home).map_err(unreadable)?)?;
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&home).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // A link may stay within the folder, and nowhere else.
        let Ok(real) = fs::canonicalize(&path) else { continue };
        let is_ours = path.extension().is_some_and(|end| end == "so") && real.starts_with(&home);
        let Ok(file) = fs::metadata(&real) else { continue };
        if is_ours && file.is_file() && refuse_others(&path, &file).is_ok() {
            found.insert(path, Stamp::of(&file));
        }
    }
    Ok(found)
}

fn refuse_others(path: &Path, of: &Metadata) -> Result<(), Failure> {
    if of.permissions().mode() & OTHERS_MAY_WRITE == 0 {
        return Ok(());
    }
    let path = path.display();
    tracing::warn!("others than its owner may write to `{path}`: nothing there is used");
    let message = format!("others than its owner may write to `{path}`; `chmod go-w` mends it");
    Err(Failure::fatal(message))
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
    fn a_folder_that_is_not_there_is_told_with_its_key() {
        let failure = libraries(Path::new("/no/such")).expect_err("it is not there");
        assert!(failure.error.contains("`runners.plugins`, is `/no/such`"), "{failure}");
    }

    #[test]
    fn only_libraries_of_the_folder_itself_that_others_cannot_change_are_found() {
        let (dir, other) = (tempfile::tempdir().expect("a"), tempfile::tempdir().expect("b"));
        let (dir, other) = (dir.path(), other.path());
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
        };
        fs::create_dir(dir.join("below")).expect("made");
        for path in ["a.so", "text", "open.so", "below/b.so"] {
            fs::write(dir.join(path), "").expect("written");
        }
        fs::write(other.join("far.so"), "").expect("written");
        fs::create_dir(dir.join("folder.so")).expect("made");
        mode(&dir.join("open.so"), 0o666);
        symlink(other.join("far.so"), dir.join("out.so")).expect("linked");
        symlink(dir.join("a.so"), dir.join("in.so")).expect("linked");
        assert_eq!(names(dir), ["a", "in"]);
        for open in [0o777, 0o775] {
            mode(dir, open);
            let refused = libraries(dir).expect_err("others may write");
            assert!(refused.error.contains("chmod go-w"), "{refused}");
        }
    }
}
