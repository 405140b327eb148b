//! `links`: every relative link of a Markdown file leads to a file, and its fragment to a heading. Links of the
//! documentation of code are rustdoc's to check, and those to other hosts are not followed.

use std::path::{Path, PathBuf};

use crate::command;

/// Checks every Markdown file of the repository.
pub(crate) fn run() -> Result<(), String> {
    let list = command::git(&["ls-files", "-co", "--exclude-standard", "*.md"])?;
    let (mut broken, mut files) = (Vec::new(), 0);
    for file in list.lines() {
        let path = command::root().join(file);
        // A file that was removed is listed until that is committed.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        files += 1;
        broken
            .extend(broken_links(&path, &text).map(|link| format!("{file}: broken link `{link}`")));
    }
    if broken.is_empty() {
        println!("links: {files} files have no broken link");
        return Ok(());
    }
    Err(broken.join("\n"))
}

fn broken_links(file: &Path, text: &str) -> impl Iterator<Item = String> {
    links(text).filter(|link| !leads_somewhere(file, text, link)).map(str::to_owned)
}

/// The targets of all inline links outside of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        let starts = line.match_indices("](").filter(|(at, _)| !is_code(line, *at));
        starts.filter_map(|(at, _)| line[at + 2..].split([')', ' ']).next())
    })
}

/// The lines that are not part of a fenced code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Whether a place of a line is between backticks.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

fn leads_somewhere(file: &Path, text: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { file.to_owned() } else { beside(file, path) };
    if !target.exists() {
        return false;
    }
    if fragment.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return true;
    }
    let other = if path.is_empty() { None } else { std::fs::read_to_string(&target).ok() };
    headings(other.as_deref().unwrap_or(text)).any(|heading| heading == fragment)
}

fn beside(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

/// The fragments of the headings of a file, as GitHub makes them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|line| {
        let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> Vec<String> {
        broken_links(&command::root().join("README.md"), text).collect()
    }

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_broken() {
        let text =
            "# Some words, here\n[a](Cargo.toml) [b](gone.md) [c](#some-words-here) [d](#none)";
        assert_eq!(broken(text), ["gone.md", "#none"]);
        assert_eq!(
            broken("[a](CONTRIBUTING.md#no-such-heading)"),
            ["CONTRIBUTING.md#no-such-heading"]
        );
        assert!(broken("[a](CONTRIBUTING.md#build-and-test)").is_empty());
    }

    #[test]
    fn code_and_other_hosts_are_not_followed() {
        assert!(
            broken("[a](https://example.org/x)\n```\n[b](gone.md)\n```\n`[c](gone.md)`").is_empty()
        );
    }
}
