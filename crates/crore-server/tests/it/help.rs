//! Help texts of the command line.

use std::process::{Command, Stdio};

use crate::binary::{crore, dir, run};

/// Snapshot of all help texts, so that every change is reviewed.
#[test]
fn the_help_texts_equal_their_snapshots() {
    let dir = dir();
    let pages: &[&[&str]] = &[
        &[],
        &["serve"],
        &["dev"],
        &["config"],
        &["config", "show"],
        &["job"],
        &["job", "push"],
        &["job", "ls"],
        &["job", "wait"],
        &["job", "retry"],
        &["job", "edit"],
        &["queue"],
        &["queue", "set"],
        &["schedule"],
        &["schedule", "set"],
        &["limit"],
        &["limit", "set"],
        &["handler"],
        &["handler", "set"],
        &["worker"],
        &["stats"],
        &["info"],
        &["bench"],
        &["backup"],
        &["verify"],
        &["repair"],
        &["completions"],
    ];
    let mut text = String::new();
    for page in pages {
        let help = run(dir.path(), &[*page, &["--help"]].concat()).success();
        text += &format!(
            "$ crore {}--help\n{help}\n",
            page.iter().map(|w| format!("{w} ")).collect::<String>()
        );
    }
    // Lines of spaces are not visible.
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("help", text.join("\n"));
}

#[test]
fn an_unknown_subcommand_suggests_a_similar_one() {
    let dir = dir();
    let ran = run(dir.path(), &["job", "psuh"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("'push'"), "{}", ran.err);
}

#[test]
fn there_are_completions_for_each_shell() {
    let dir = dir();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dir.path(), &["completions", shell]).success();
        assert!(script.contains("crore") && script.contains("drain"), "{shell}");
    }
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    let dir = dir();
    for arguments in [["config", "reference"], ["completions", "bash"], ["config", "schema"]] {
        let mut child = crore(dir.path(), &arguments);
        let mut child =
            child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
    }
}

#[test]
fn the_version_is_that_of_the_workspace() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_crore")).arg("--version").output().expect("it runs");
    assert_eq!(output.stdout, format!("crore {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}
