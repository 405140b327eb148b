//! Type names: each is defined once in the product code of the workspace, or says in `shared_names.txt` why not.

use std::collections::BTreeMap;

use crate::source::SourceFile;

/// `NAME  reason`, one per line.
const SHARED: &str = include_str!("shared_names.txt");

/// One fault for each name that several top-level types have.
pub(super) fn duplicates(sources: &[SourceFile]) -> Vec<String> {
    let mut locations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_product() && !is_schema(source)) {
        for (index, line) in source.text.lines().enumerate() {
            if let Some(name) = defined(line) {
                locations.entry(name).or_default().push(format!("{}:{}", source.path, index + 1));
            }
        }
    }
    locations.retain(|name, locations| locations.len() > 1 && !is_shared(name));
    let fault = |(name, locations): (&str, Vec<String>)| {
        format!(
            "`{name}` names {} types, give each its own name: {}",
            locations.len(),
            locations.join(", ")
        )
    };
    locations.into_iter().map(fault).collect()
}

/// The structures of the public API keep the names of its schema.
fn is_schema(source: &SourceFile) -> bool {
    source.path.starts_with("crates/crore-wire/src/api/")
}

fn is_shared(name: &str) -> bool {
    SHARED.lines().any(|line| line.split_whitespace().next() == Some(name))
}

/// The name of the type that a line without indentation defines.
fn defined(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        Some(rest) => {
            rest.strip_prefix(' ').or_else(|| rest.split_once(") ").map(|(_, rest)| rest))?
        }
        None => line,
    };
    let (keyword, rest) = rest.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn definitions_are_recognised() {
        assert_eq!(defined("pub struct Lane<T> {"), Some("Lane"));
        assert_eq!(defined("pub(crate) enum Step {"), Some("Step"));
        assert_eq!(defined("pub(in crate::local) type Row = u8;"), Some("Row"));
        assert_eq!(defined("trait Clock: Send {"), Some("Clock"));
        assert_eq!(defined("    struct Inner;"), None);
        assert_eq!(defined("fn struct_of() {}"), None);
    }

    #[test]
    fn a_name_of_two_types_is_a_fault_unless_it_is_shared() {
        let sources = [
            source("crates/a/src/lib.rs", "struct Twice;\npub enum Error {}"),
            source("crates/b/src/lib.rs", "pub struct Twice;\npub enum Error {}\nstruct Once;"),
            source("crates/b/src/tests.rs", "struct Once;"),
            source("crates/crore-wire/src/api/job.rs", "pub struct Once;"),
        ];
        let faults = duplicates(&sources);
        assert_eq!(
            faults,
            [
                "`Twice` names 2 types, give each its own name: crates/a/src/lib.rs:1, crates/b/src/lib.rs:1"
            ]
        );
    }
}
