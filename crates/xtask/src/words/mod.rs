//! `words`: texts avoid the phrases of `phrases.txt`, and a type name means one thing in the workspace.

mod names;
mod phrases;

use crate::{command, source};

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
