//! Configuration through the command line.

use crate::binary::{crore, dir, run};

#[test]
fn an_invalid_configuration_reports_all_errors_and_nothing_starts() {
    let dir = dir();
    let text =
        "[listen]\nadress = \"127.0.0.1:1\"\n\n[caps]\npayload = \"17MiB\"\nfetch = \"many\"\n";
    std::fs::write(dir.path().join("crore.toml"), text).expect("written");
    let expected = "error: the configuration has 4 errors\n  \
        crore.toml:2: listen.adress = `127.0.0.1:1`: unknown key; did you mean `listen.address`?\n  \
        crore.toml:5: caps.payload = `17MiB`: must be at most 16MiB\n  \
        crore.toml:5: caps.payload = `17MiB`: exceeds `caps.batch-bytes`\n  \
        crore.toml:6: caps.fetch = `many`: expected a whole number\n";
    for command in [["config", "check"].as_slice(), &["serve"], &["config", "show"]] {
        let ran = run(dir.path(), command);
        assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (Some(2), expected, ""));
    }
    assert!(!dir.path().join("crore-data").exists());
}

#[test]
fn effective_values_are_shown_with_their_source() {
    let dir = dir();
    std::fs::write(dir.path().join("other.toml"), "[caps]\npage = 7\n").expect("written");
    let arguments = ["config", "show", "--config", "other.toml", "--door", "lightjq=6400"];
    let mut command = crore(dir.path(), &arguments);
    command.env("CRORE_STORE__DURABILITY", "interval");
    let shown = crate::binary::FinishedCommand::of(command.output().expect("it runs")).success();
    let line = |start: &str| {
        let line = shown.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("page"), "page = 7 # other.toml:2");
    assert_eq!(line("durability"), "durability = \"interval\" # CRORE_STORE__DURABILITY");
    assert_eq!(line("lightjq"), "lightjq = 6400 # --door");
    assert_eq!(line("memory"), "memory = false # default");

    let json = run(dir.path(), &["config", "show", "-o", "json", "--memory"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["store"]["memory"], serde_json::json!({ "value": true, "source": "--memory" }));
}

#[test]
fn a_valid_configuration_passes_the_check() {
    let dir = dir();
    assert_eq!(run(dir.path(), &["config", "check"]).success(), "the configuration is valid\n");
}

#[test]
fn a_missing_file_is_an_error() {
    let dir = dir();
    let ran = run(dir.path(), &["config", "check", "--config", "nowhere.toml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("`nowhere.toml`"), "{}", ran.err);
}

#[test]
fn the_schema_is_json_and_has_every_section() {
    let dir = dir();
    let schema = run(dir.path(), &["config", "schema"]).success();
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    let sections = schema["properties"].as_object().expect("sections");
    for name in ["listen", "store", "doors", "log", "caps", "retention"] {
        assert!(sections.contains_key(name), "{name}");
    }
}

#[test]
fn unknown_runners_are_refused_with_a_hint() {
    let dir = dir();
    let refused: &[(&[&str], &str)] = &[
        (&["--allow-runner", "comand"], "did you mean `command`?"),
        (
            &["--allow-runner", "wasm"],
            "unknown runner `wasm`; expected one of command, docker, plugin",
        ),
        (&["--allow-runner", "http"], "the runner `http` is always allowed"),
        (&["--allow-runner", "plugin"], "the runner `plugin` requires `runners.plugins`"),
        (&["--set", "runners.docker=/var/run/docker.sock"], "must begin with `unix://`"),
        (&["--set", "runners.plugins=nowhere"], "`runners.plugins`: `nowhere` is not a directory"),
    ];
    for command in ["serve", "worker"] {
        let more: &[&str] = if command == "serve" { &["--listen", "127.0.0.1:0"] } else { &[] };
        for (flags, expected) in refused {
            let ran = run(dir.path(), &[&[command], more, flags].concat());
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.err.contains(expected), "{}", ran.err);
        }
    }
    // Checks that need the file system are not part of `config check`.
    run(dir.path(), &["config", "check", "--set", "runners.plugins=nowhere"]).success();
    for docker in ["unix:///run/docker.sock", "tcp://docker:2375", "http://docker:2375"] {
        run(dir.path(), &["config", "check", "--set", &format!("runners.docker={docker}")])
            .success();
    }
}
