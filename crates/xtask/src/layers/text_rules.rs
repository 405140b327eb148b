//! Texts that are allowed only in some folders, found line by line.
//!
//! A text search is enough: the compiler refuses a type whose crate is not a dependency, and clippy refuses calls that
//! it can resolve. This finds the rest, within a second.

use super::plan::{FolderRule, TextRule};
use crate::source::SourceFile;

/// This crate contains the texts that it searches for.
const THIS_CRATE: &str = "crates/xtask/";

/// Every line outside comments with a text in a folder where it is not allowed.
pub(super) fn check(sources: &[SourceFile], words: &[TextRule]) -> Vec<String> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| !source.path.starts_with(THIS_CRATE)) {
        let here: Vec<&TextRule> =
            words.iter().filter(|word| !word.folders.allows(&source.path)).collect();
        for (i, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in &here {
                for text in word.texts.iter().filter(|text| contains_word(code, text)) {
                    let reason = word.reason;
                    faults.push(format!("{}:{}: `{text}`: {reason}", source.path, i + 1));
                }
            }
        }
    }
    faults
}

impl FolderRule {
    fn allows(&self, path: &str) -> bool {
        let inside = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
        match self {
            Self::Not(folders) => !inside(folders),
            Self::Only(folders) => inside(folders),
        }
    }
}

/// Whether `code` contains `text` as a word of its own: `redis::` is not in `my_redis::`.
fn contains_word(code: &str, text: &str) -> bool {
    let continues = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_name = text.starts_with(char::is_alphanumeric);
    code.match_indices(text).any(|(at, _)| !(is_name && continues(&code[..at])))
}

#[cfg(test)]
mod tests {
    use super::super::plan::TEXT_RULES;
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile { path: path.to_owned(), text: text.to_owned() }], TEXT_RULES)
    }

    #[test]
    fn a_driver_in_a_crate_of_ours_is_found_with_its_line() {
        let found =
            faults("crates/crore-store/src/lib.rs", "\npub fn open(pool: sqlx::PgPool) {}\n");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/crore-store/src/lib.rs:2: `sqlx::`"), "{found:?}");
        assert_eq!(faults("crates/crore/src/push.rs", "use tonic::Status;").len(), 1);
        assert_eq!(faults("crates/crore-core/src/job.rs", "x as prost::Message").len(), 1);
    }

    #[test]
    fn drivers_are_free_elsewhere_in_comments_and_inside_longer_names() {
        let none = Vec::<String>::new();
        assert_eq!(faults("crates/crore-remote/src/lib.rs", "use sqlx::Row;"), none);
        assert_eq!(faults("crates/crore-store/tests/it/main.rs", "use redis::cmd;"), none);
        assert_eq!(faults("crates/crore-core/src/id.rs", "/// As `redis::cmd`."), none);
        assert_eq!(faults("crates/crore-core/src/id.rs", "crore_redis::open()"), none);
    }

    #[test]
    fn only_stores_call_synced() {
        let call = "let answer = Committed::synced(pushed);";
        let typed = "let answer = Committed::<Pushed>::synced(pushed);";
        for text in [call, typed, "answers.map(crore_store::Committed::synced)"] {
            assert_eq!(faults("crates/crore/src/push.rs", text).len(), 1, "{text}");
            assert_eq!(faults("crates/crore-store/tests/it/main.rs", text).len(), 1, "{text}");
            assert_eq!(faults("crates/crore-store/src/memory.rs", text).len(), 0, "{text}");
            assert_eq!(faults("crates/crore-remote/src/postgres.rs", text).len(), 0, "{text}");
        }
    }
}
