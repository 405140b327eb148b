//! The examples of README.md and docs/guide. Each page's shell blocks run in order, as they are written, against the
//! built binary; other blocks are parsed. A block that cannot run says why in the source of its page:
//! `<!-- not run: REASON -->` on the line before it.

mod blocks;
mod sandbox;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use blocks::Block;

/// A test for each page: its name, its file, and texts that its shell blocks print.
macro_rules! pages {
    ($($name:ident, $file:literal, $prints:expr;)+) => {
        $(
            #[test]
            fn $name() {
                run_page($file, &$prints);
            }
        )+
        const PAGES: &[&str] = &[$($file),+];
    };
}

pages! {
    readme, "README.md", [r#""state":"done""#, "pushed job"];
    readme_ja, "README_ja.md", [r#""state":"done""#, "pushed job"];
    embedding, "docs/guide/embedding.md", [];
    first_job, "docs/guide/first-job.md", ["pushed job 1\n", "done"];
    groups, "docs/guide/groups.md", [];
    handlers, "docs/guide/handlers.md", ["hello world\n", "gpu-1", "rendered\n"];
    limits, "docs/guide/limits.md", ["tenants"];
    load_tests, "docs/guide/load-tests.md", ["every job was finished once\n"];
    observability, "docs/guide/observability.md", [];
    fair_share, "docs/guide/fair-share.md", [];
    deadlines, "docs/guide/deadlines.md", [];
    events, "docs/guide/events.md", ["\"amount\":120", "order-18-paid"];
    priorities, "docs/guide/priorities.md", [];
    results, "docs/guide/results.md", ["HELLO"];
    replay, "docs/guide/replay.md", [];
    retries, "docs/guide/retries.md", ["exit code 1"];
    runners, "docs/guide/runners.md", [];
    runners_command, "docs/guide/runners/command.md", ["2 -\n"];
    runners_docker, "docs/guide/runners/docker.md", [];
    runners_grpc, "docs/guide/runners/grpc.md", [];
    runners_http, "docs/guide/runners/http.md", [];
    runners_plugin, "docs/guide/runners/plugin.md", ["hello, \"world\""];
    runners_slack, "docs/guide/runners/slack.md", [];
    running_a_server, "docs/guide/running-a-server.md", ["made backup `monday`", "no damage"];
    schedules, "docs/guide/schedules.md", ["nightly"];
    search, "docs/guide/search.md", ["export", "would cancel 1 job", "\"state\":\"running\""];
    unique_jobs, "docs/guide/unique-jobs.md", ["duplicate of job 1\n", "duplicate of job 3\n"];
    versions, "docs/guide/versions.md", [];
    web_ui, "docs/guide/web-ui.md", ["Overview · crore", "no-store"];
    workers, "docs/guide/workers.md", [];
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn run_page(file: &str, prints: &[&str]) {
    let markdown = fs::read_to_string(root().join(file)).expect("the page");
    let blocks = blocks::parse(&markdown).unwrap_or_else(|why| panic!("{file}:{why}"));
    for block in &blocks {
        parse_block(block).unwrap_or_else(|why| panic!("{file}:{}: {why}", block.line));
    }
    let commands: Vec<_> = blocks.iter().filter(|block| block.is_run()).collect();
    if commands.is_empty() {
        return;
    }
    let Some(printed) = sandbox::run(file, &commands) else { return };
    for (block, printed) in commands.iter().zip(&printed) {
        for expected in block.expected_output() {
            let found = blocks::matches(expected, printed);
            assert!(found, "{file}:{}: expected {expected}\nbut printed:\n{printed}", block.line);
        }
    }
    let printed = printed.concat();
    for text in prints {
        assert!(printed.contains(text), "{file} does not print {text:?}:\n{printed}");
    }
}

/// Checks the syntax of a block that is not a shell command.
fn parse_block(block: &Block) -> Result<(), String> {
    match block.language.as_str() {
        "json" => {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(&block.text);
            parsed.map(drop).map_err(|error| error.to_string())
        }
        "python" => compile_python(&block.text),
        // Programs of the library are tests of its documentation; a plugin is one of the examples, which are built.
        "rust" if block.text.contains("crore_plugin") => {
            let example = root().join("crates/crore-plugin/examples/hello.rs");
            let example = fs::read_to_string(example).expect("the example");
            let is_same = example.ends_with(&block.text);
            is_same.then_some(()).ok_or_else(|| "differs from hello.rs".to_owned())
        }
        _ => Ok(()),
    }
}

fn compile_python(text: &str) -> Result<(), String> {
    let program = format!("compile({text:?}, 'the example', 'exec')");
    match Command::new("python3").args(["-c", &program]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => {
            eprintln!("SKIPPED: python3: {error}");
            Ok(())
        }
    }
}

#[test]
fn every_page_has_a_test() {
    let mut found = BTreeSet::from(["README.md".to_owned(), "README_ja.md".to_owned()]);
    let mut left = vec![root().join("docs/guide")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
            } else {
                let file = path.strip_prefix(root()).expect("below the root");
                found.insert(file.to_string_lossy().into_owned());
            }
        }
    }
    let tested: BTreeSet<_> = PAGES.iter().map(|&page| page.to_owned()).collect();
    assert_eq!(tested, found);
}
