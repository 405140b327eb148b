//! The configuration, as it is met from outside.

use crate::binary::{crore, dir, run};

#[test]
fn a_bad_configuration_is_told_whole_and_nothing_starts() {
    let dir = dir();
    let text =
        "[listen]\nadress = \"127.0.0.1:1\"\n\n[caps]\npayload = \"17MiB\"\nfetch = \"many\"\n";
    std::fs::write(dir.path().join("crore.toml"), text).expect("written");
    let told = "error: the configuration has 4 faults\n  \
        crore.toml:2: listen.adress = `127.0.0.1:1`: there is no such key; did you mean `listen.address`?\n  \
        crore.toml:5: caps.payload = `17MiB`: it can be 16MiB at most\n  \
        crore.toml:5: caps.payload = `17MiB`: one payload would be larger than a batch may be: see `caps.batch-bytes`\n  \
        crore.toml:6: caps.fetch = `many`: this is no whole number from 0 on\n";
    for command in [["config", "check"].as_slice(), &["serve"], &["config", "show"]] {
        let ran = run(dir.path(), command);
        assert_eq!((ran.code, ran.err.as_str(), ran.out.as_str()), (Some(2), told, ""));
    }
    assert!(!dir.path().join("crore-data").exists());
}

#[test]
fn what_is_chosen_is_shown_with_where_it_was_chosen() {
    let dir = dir();
    std::fs::write(dir.path().join("other.toml"), "[caps]\npage = 7\n").expect("written");
    let arguments = ["config", "show", "--config", "other.toml", "--door", "lightjq=6400"];
    let mut command = crore(dir.path(), &arguments);
    command.env("CRORE_STORE__DURABILITY", "interval");
    let shown = crate::binary::Ran::of(command.output().expect("it runs")).good();
    let line = |start: &str| {
        let line = shown.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("page"), "page = 7 # other.toml:2");
    assert_eq!(line("durability"), "durability = \"interval\" # CRORE_STORE__DURABILITY");
    assert_eq!(line("lightjq"), "lightjq = 6400 # --door");
    assert_eq!(line("memory"), "memory = false # default");

    let json = run(dir.path(), &["config", "show", "-o", "json", "--memory"]).good();
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["store"]["memory"], serde_json::json!({ "value": true, "source": "--memory" }));
}

#[test]
fn a_good_configuration_is_called_good() {
    let dir = dir();
    assert_eq!(run(dir.path(), &["config", "check"]).good(), "the configuration is good\n");
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let dir = dir();
    let ran = run(dir.path(), &["config", "check", "--config", "nowhere.toml"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("`nowhere.toml`"), "{}", ran.err);
}

#[test]
fn the_schema_is_one_and_knows_every_section() {
    let dir = dir();
    let schema = run(dir.path(), &["config", "schema"]).good();
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
    let sections = schema["properties"].as_object().expect("sections");
    for name in ["listen", "store", "doors", "log", "caps", "retention"] {
        assert!(sections.contains_key(name), "{name}");
    }
}

#[test]
fn runners_that_may_not_be_meant_are_refused_with_what_may_be() {
    let dir = dir();
    let refused: &[(&[&str], &str)] = &[
        (&["--allow-runner", "comand"], "did you mean `command`?"),
        (
            &["--allow-runner", "wasm"],
            "`wasm` is no runner that needs leave, as command, docker, plugin do",
        ),
        (&["--allow-runner", "http"], "the runner `http` needs no leave"),
        (&["--allow-runner", "plugin"], "say where plugins lie: `runners.plugins`"),
        (&["--set", "runners.docker=/var/run/docker.sock"], "it must begin with `unix://`"),
        (&["--set", "runners.plugins=nowhere"], "`runners.plugins`: `nowhere` is no directory"),
    ];
    for command in ["serve", "worker"] {
        let more: &[&str] = if command == "serve" { &["--listen", "127.0.0.1:0"] } else { &[] };
        for (flags, told) in refused {
            let ran = run(dir.path(), &[&[command], more, flags].concat());
            assert_eq!(ran.code, Some(2), "{ran:?}");
            assert!(ran.err.contains(told), "{}", ran.err);
        }
    }
    // What only the disk knows is not looked at here.
    run(dir.path(), &["config", "check", "--set", "runners.plugins=nowhere"]).good();
    for docker in ["unix:///run/docker.sock", "tcp://docker:2375", "http://docker:2375"] {
        run(dir.path(), &["config", "check", "--set", &format!("runners.docker={docker}")]).good();
    }
}
