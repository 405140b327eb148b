//! `links`: every relative link of a Markdown file leads to a file, and its fragment to a heading; file names in
//! backticks exist; `docs/README.md` leads to every page of `docs` in two clicks. Links in doc comments are left to
//! rustdoc, and links to other hosts are not checked.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::command;

/// Checks every Markdown file of the repository.
pub(crate) fn run() -> Result<(), String> {
    let list = command::git(&["ls-files", "-co", "--exclude-standard", "*.md"])?;
    let (mut broken, mut files) = (unreachable_pages(list.lines()), 0);
    for file in list.lines() {
        let path = command::root().join(file);
        // git lists a deleted file until the deletion is committed.
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        files += 1;
        broken
            .extend(broken_links(&path, &text).map(|link| format!("{file}: broken link `{link}`")));
        let missing = missing_files(&text);
        broken.extend(missing.map(|name| format!("{file}: there is no file `{name}`")));
    }
    if broken.is_empty() {
        println!("links: {files} files have no broken link");
        return Ok(());
    }
    Err(broken.join("\n"))
}

fn broken_links(file: &Path, text: &str) -> impl Iterator<Item = String> {
    links(text).filter(|link| !is_valid(file, text, link)).map(str::to_owned)
}

/// The file names in backticks, from the root of the repository, that do not exist.
fn missing_files(text: &str) -> impl Iterator<Item = String> {
    let quoted = prose(text).flat_map(|line| line.split('`').skip(1).step_by(2));
    let names = quoted.filter(|name| name.starts_with("crates/") && !name.contains(' '));
    names.flat_map(alternatives).filter(|name| !command::root().join(name).exists())
}

/// `src/{a,b}` stands for `src/a` and `src/b`.
fn alternatives(name: &str) -> Vec<String> {
    let braces =
        name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match braces {
        Some((before, (parts, after))) => {
            parts.split(',').map(|part| format!("{before}{part}{after}")).collect()
        }
        None => vec![name.to_owned()],
    }
}

/// One fault for each page of `docs` that takes more than two clicks from `docs/README.md`.
fn unreachable_pages<'a>(pages: impl Iterator<Item = &'a str>) -> Vec<String> {
    let index = PathBuf::from("docs/README.md");
    let mut reached = BTreeSet::from([index.clone()]);
    for page in linked_pages(&index) {
        reached.extend(linked_pages(&page));
        reached.insert(page);
    }
    let far = pages.filter(|page| page.starts_with("docs/") && !reached.contains(Path::new(page)));
    far.map(|page| format!("{page}: not within two clicks of docs/README.md")).collect()
}

/// The files that a page links to, from the root of the repository.
fn linked_pages(page: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(command::root().join(page)).unwrap_or_default();
    let targets = links(&text).map(|link| link.split('#').next().unwrap_or(link));
    targets.map(|target| normal(&relative_to(page, target))).collect()
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts
}

/// The targets of all inline links outside code.
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

/// Whether this position of a line is between backticks.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

fn is_valid(file: &Path, text: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { file.to_owned() } else { relative_to(file, path) };
    if !target.exists() {
        return false;
    }
    if fragment.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return true;
    }
    let other = if path.is_empty() { None } else { std::fs::read_to_string(&target).ok() };
    headings(other.as_deref().unwrap_or(text)).any(|heading| heading == fragment)
}

fn relative_to(file: &Path, path: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(path)
}

/// The fragments of the headings of a file, as GitHub generates them.
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
    fn a_file_name_in_backticks_has_to_exist() {
        let missing: Vec<String> =
            missing_files("`crates/xtask/src/{links,gone}.rs` and `crates/xtask`").collect();
        assert_eq!(missing, ["crates/xtask/src/gone.rs"]);
    }

    #[test]
    fn a_page_that_nothing_leads_to_is_reported() {
        let faults = unreachable_pages(["docs/README.md", "docs/lost.md", "README.md"].into_iter());
        assert_eq!(faults, ["docs/lost.md: not within two clicks of docs/README.md"]);
        let second_click = unreachable_pages(["docs/guide/runners/command.md"].into_iter());
        assert_eq!(second_click, [""; 0]);
    }

    #[test]
    fn code_and_other_hosts_are_not_followed() {
        assert!(
            broken("[a](https://example.org/x)\n```\n[b](gone.md)\n```\n`[c](gone.md)`").is_empty()
        );
    }
}
