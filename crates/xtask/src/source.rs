//! The Rust files of the workspace, for the checks.

use std::fs;
use std::path::Path;

/// One Rust file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path from the workspace root, with `/` as separator.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// Whether this is product code: under `src` of a crate, and not named as a module of tests.
    pub(crate) fn is_product(&self) -> bool {
        let mut parts = self.path.split('/').skip(2);
        parts.next() == Some("src") && parts.all(|part| part != "tests" && part != "tests.rs")
    }
}

/// The folders that contain crates.
const FOLDERS: [&str; 2] = ["bench", "crates"];

/// Every Rust file of the workspace's crates, sorted by path.
pub(crate) fn all(root: &Path) -> Result<Vec<SourceFile>, String> {
    let mut found = Vec::new();
    FOLDERS.iter().try_for_each(|folder| collect(root, folder, &mut found))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, folder: &str, found: &mut Vec<SourceFile>) -> Result<(), String> {
    let failed = |error| format!("cannot read `{folder}`: {error}");
    for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name =
            name.to_str().ok_or_else(|| format!("`{folder}` has a name that is no UTF-8"))?;
        let path = format!("{folder}/{name}");
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(root, &path, found)?;
        } else if Path::new(name).extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(entry.path())
                .map_err(|error| format!("cannot read `{path}`: {error}"))?;
            found.push(SourceFile { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_sources_contains_this_file() {
        let sources = all(&crate::command::root()).expect("readable");
        let this = sources.iter().find(|source| source.path == "crates/xtask/src/source.rs");
        assert!(
            this.is_some_and(|source| source
                .text
                .contains("the_list_of_sources_contains_this_file"))
        );
        assert!(sources.iter().any(|source| source.path == "bench/peers/src/main.rs"));
    }

    #[test]
    fn tests_and_examples_are_not_product_code() {
        let product =
            |path: &str| SourceFile { path: path.to_owned(), text: String::new() }.is_product();
        assert!(product("crates/a/src/lib.rs"));
        assert!(product("crates/a/src/deep/tests_of_time.rs"));
        for path in ["src/deep/tests.rs", "src/tests/clock.rs", "tests/it/main.rs", "examples/x.rs"]
        {
            assert!(!product(&format!("crates/a/{path}")), "{path}");
        }
    }
}
