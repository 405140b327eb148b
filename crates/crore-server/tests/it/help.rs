//! What the command line says about itself.

use std::process::{Command, Stdio};

use crate::binary::{crore, dir, run};

/// The help of every command is a page that somebody has read: a change of it is seen.
#[test]
fn the_help_texts_are_as_written() {
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
        let help = run(dir.path(), &[*page, &["--help"]].concat()).good();
        text += &format!(
            "$ crore {}--help\n{help}\n",
            page.iter().map(|w| format!("{w} ")).collect::<String>()
        );
    }
    // A line that is empty but for spaces is none that anybody sees.
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("help", text.join("\n"));
}

#[test]
fn a_word_that_is_not_known_is_answered_with_the_likely_one() {
    let dir = dir();
    let ran = run(dir.path(), &["job", "psuh"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("'push'"), "{}", ran.err);
}

#[test]
fn there_are_completions_for_each_shell() {
    let dir = dir();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dir.path(), &["completions", shell]).good();
        assert!(script.contains("crore") && script.contains("drain"), "{shell}");
    }
}

#[test]
fn whoever_reads_no_further_ends_it_in_peace() {
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
