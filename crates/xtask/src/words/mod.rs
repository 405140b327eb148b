//! `words`: texts avoid the phrases of `phrases.txt`, a type name means one thing in the workspace, and the pages that
//! everybody reads first stay short.

mod names;
mod phrases;

use crate::{command, source};

/// Maximum numbers of lines.
const SHORT_PAGES: [(&str, usize); 3] =
    [("README.md", 120), ("README_ja.md", 120), ("ARCHITECTURE.md", 200)];

/// Checks every Rust file, Markdown file and protocol definition of the repository.
pub(crate) fn run() -> Result<(), String> {
    let root = command::root();
    let sources = source::all(&root)?;
    let mut faults = names::duplicates(&sources);
    let phrases = phrases::Phrases::project();
    let list = command::git(&[
        "ls-files",
        "-co",
        "--exclude-standard",
        "*.md",
        "*.rs",
        "*.proto",
        "*.py",
        "*.lua",
    ])?;
    for file in list.lines() {
        // A deleted file is listed until its deletion is committed.
        let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
        faults.extend(phrases.find(file, &text));
        faults.extend(too_long(file, text.lines().count()));
    }
    if faults.is_empty() {
        println!(
            "words: {} files have none of the phrases, and no type name means two things",
            list.lines().count()
        );
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// The fault of a page that is longer than it may be.
fn too_long(file: &str, lines: usize) -> Option<String> {
    let (_, most) = SHORT_PAGES.iter().find(|(page, _)| *page == file)?;
    (lines > *most).then(|| format!("{file}: {lines} lines, at most {most} are allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_pages_have_a_maximum_length() {
        assert_eq!(
            too_long("README.md", 121).as_deref(),
            Some("README.md: 121 lines, at most 120 are allowed")
        );
        assert_eq!(too_long("README.md", 120).or(too_long("CHANGELOG.md", 999)), None);
    }
}
