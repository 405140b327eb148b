//! `sizes`: limits the lengths of files. About 150 lines are the aim; files over 400 lines are listed, and over 800 the
//! check fails.
//!
//! All lines count, including blank ones and comments, except those of tests: modules under `#[cfg(test)]`, and files
//! and folders named `tests`. Ends of functions and modules are found by their indentation, which `cargo fmt`
//! guarantees.

use crate::command;
use crate::source::{self, SourceFile};

const AIM_LINES: usize = 150;
const LISTED_LINES: usize = 400;
const MAX_LINES: usize = 800;
const LISTED_FUNCTION_LINES: usize = 60;

/// Files that may be longer than [`MAX_LINES`], each with its reason: tables and generated code.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Lists long files and functions, and fails if a file is too long.
pub(crate) fn run() -> Result<(), String> {
    let sources = source::all(&command::root())?;
    let report = check(&sources, EXCEPTIONS);
    for note in &report.notes {
        println!("note: {note}");
    }
    println!("{}", report.summary);
    if report.faults.is_empty() { Ok(()) } else { Err(report.faults.join("\n")) }
}

#[derive(Debug, Default)]
struct SizeReport {
    faults: Vec<String>,
    notes: Vec<String>,
    summary: String,
}

fn check(sources: &[SourceFile], exceptions: &[(&str, &str)]) -> SizeReport {
    let mut report = SizeReport::default();
    let mut sizes = Vec::new();
    for source in sources.iter().filter(|source| source.is_product()) {
        let path = &source.path;
        let lines = product_lines(&source.text);
        let size = lines.len();
        let excepted = exceptions.iter().any(|(name, _)| name == path);
        if size > MAX_LINES && !excepted {
            report.faults.push(format!("{path} has {size} lines; the maximum is {MAX_LINES}"));
        } else if size <= MAX_LINES && excepted {
            report.faults.push(format!("{path} has {size} lines and needs no exception"));
        } else if size > LISTED_LINES && !excepted {
            report.notes.push(format!("{path} has {size} lines; consider splitting it"));
        }
        report.notes.extend(long_functions(&lines).iter().map(|found| format!("{path}:{found}")));
        sizes.push(size);
    }
    for (name, _) in exceptions {
        if !sources.iter().any(|source| source.path == *name) {
            report.faults.push(format!("{name} is an exception and does not exist"));
        }
    }
    report.summary = summary(&mut sizes);
    report
}

fn summary(sizes: &mut [usize]) -> String {
    sizes.sort_unstable();
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or_default();
    let longest = sizes.last().copied().unwrap_or_default();
    let over = sizes.iter().filter(|size| **size > AIM_LINES).count();
    let files = sizes.len();
    format!(
        "sizes: {files} files, median {median} lines, longest {longest}, {over} over {AIM_LINES}"
    )
}

/// The numbered lines outside test modules.
fn product_lines(text: &str) -> Vec<(usize, &str)> {
    let mut kept = Vec::new();
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line)).peekable();
    while let Some((number, line)) = lines.next() {
        kept.push((number, line));
        if !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test,") {
            continue;
        }
        let attributes = kept.len() - 1;
        while let Some(next) = lines.next_if(|(_, line)| line.starts_with("#[")) {
            kept.push(next);
        }
        if lines.next_if(|(_, line)| opens_module(line)).is_some() {
            kept.truncate(attributes);
            lines.by_ref().find(|(_, line)| *line == "}");
        }
    }
    kept
}

fn opens_module(line: &str) -> bool {
    line.ends_with('{') && line.split_whitespace().take(2).any(|word| word == "mod")
}

/// The functions that are longer than [`LISTED_FUNCTION_LINES`], as `LINE: NAME has N lines`.
fn long_functions(lines: &[(usize, &str)]) -> Vec<String> {
    let mut found = Vec::new();
    for (i, (number, line)) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let length = function_length(&lines[i..]);
        if length > LISTED_FUNCTION_LINES {
            found.push(format!("{number}: `{name}` has {length} lines"));
        }
    }
    found
}

/// The name of the function whose signature starts on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        rest = after;
        match word {
            "fn" => return rest.split(|c: char| !c.is_alphanumeric() && c != '_').next(),
            "async" | "const" | "extern" | "unsafe" => {}
            _ if word.starts_with("pub") || word.starts_with('"') => {}
            _ => return None,
        }
    }
}

/// Number of lines of the function whose signature starts on the first line.
fn function_length(lines: &[(usize, &str)]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (_, first) = lines[0];
    let ends = |line: &str| {
        indent(line) == indent(first) && (line.ends_with(';') || line.trim_start().starts_with('}'))
    };
    if first.ends_with(['}', ';']) {
        return 1;
    }
    let body = lines.iter().skip(1);
    body.take_while(|(_, line)| line.is_empty() || !ends(line)).count() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: String) -> SourceFile {
        SourceFile { path: path.to_owned(), text }
    }

    fn of_lines(n: usize) -> SourceFile {
        source("crates/a/src/lib.rs", "const A: u8 = 0;\n".repeat(n))
    }

    #[test]
    fn a_file_is_listed_over_400_lines_and_fails_over_800() {
        let seen = |n: usize| {
            let report = check(&[of_lines(n)], &[]);
            (report.notes.len(), report.faults.len())
        };
        assert_eq!(seen(400), (0, 0));
        assert_eq!(seen(401), (1, 0));
        assert_eq!(seen(800), (1, 0));
        assert_eq!(seen(801), (0, 1));
    }

    #[test]
    fn an_exception_is_for_a_long_file_that_exists() {
        let exceptions = [("crates/a/src/lib.rs", "a table")];
        assert_eq!(check(&[of_lines(801)], &exceptions).faults, Vec::<String>::new());
        assert_eq!(check(&[of_lines(10)], &exceptions).faults.len(), 1);
        assert_eq!(check(&[], &exceptions).faults.len(), 1);
    }

    #[test]
    fn lines_of_tests_do_not_count_and_lines_after_them_do() {
        let tests = "#[cfg(test)]\n#[expect(unused)]\nmod tests {\n    fn a() {\n    }\n}\n";
        let text = format!("fn one() {{}}\n\n{tests}\nfn two() {{}}\n");
        let numbers: Vec<_> = product_lines(&text).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 9, 10]);
        let declared = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nfn helper() {\n}\n";
        assert_eq!(product_lines(declared).len(), 5);
        let long = source("crates/a/src/tests.rs", "\n".repeat(900));
        assert!(check(&[long], &[]).faults.is_empty());
    }

    /// A method of `n` lines, with the end of another block inside and a function after it.
    fn method(signature: &str, n: usize) -> String {
        let body = "        {\n        }\n".repeat((n - 2) / 2);
        format!("impl A {{\n    {signature} {{\n{body}    }}\n\n    fn next() {{}}\n}}\n")
    }

    #[test]
    fn a_function_is_listed_over_60_lines() {
        for signature in ["fn a()", "pub(crate) async fn a(n: u8) -> u8", "pub const unsafe fn a()"]
        {
            assert_eq!(long_functions(&product_lines(&method(signature, 60))).len(), 0);
            let text = method(signature, 62);
            assert_eq!(long_functions(&product_lines(&text)), ["2: `a` has 62 lines"]);
        }
    }

    #[test]
    fn signatures_over_many_lines_belong_to_their_function() {
        let body = "    a();\n".repeat(60);
        let text = format!("pub fn long<T>(\n    a: T,\n)\nwhere\n    T: Copy,\n{{\n{body}}}\n");
        assert_eq!(long_functions(&product_lines(&text)), ["1: `long` has 67 lines"]);
        let declared = format!("trait A {{\n    fn a(\n        b: u8,\n    );\n{body}}}\n");
        assert_eq!(long_functions(&product_lines(&declared)).len(), 0);
    }

    #[test]
    fn the_summary_counts_files_over_the_aim() {
        let report = check(&[of_lines(10), of_lines(151), of_lines(20)], &[]);
        let expected = "sizes: 3 files, median 20 lines, longest 151, 1 over 150";
        assert_eq!(report.summary, expected);
    }
}
