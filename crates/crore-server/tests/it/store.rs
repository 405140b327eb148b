//! Commands on a data directory.

use serde_json::json;

use crate::binary::{Server, dir, mode, run};

fn with_jobs(dir: &std::path::Path) {
    let server = Server::start(dir, &[]);
    for n in 0..3 {
        server.post("/v1/jobs", &json!({ "kind": "a", "payload": format!("needle {n}") }));
    }
    server.stop();
}

#[test]
fn a_backup_is_a_store_with_the_same_jobs() {
    let dir = dir();
    with_jobs(dir.path());
    let made = run(dir.path(), &["backup", "crore-data", "copy"]).success();
    assert!(made.starts_with("copied crore-data into `copy`: "), "{made}");
    let server = Server::start(dir.path(), &["--data", "copy"]);
    assert_eq!(server.get("/v1/jobs?state=ready")["jobs"].as_array().map(Vec::len), Some(3));
    server.stop();
    let again = run(dir.path(), &["backup", "crore-data", "copy"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("empty directory"), "{}", again.err);
}

#[test]
fn a_running_server_makes_a_backup_below_its_own_directory_and_nowhere_else() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "store.backups=copies"]);
    for n in 0..3 {
        server.post("/v1/jobs", &json!({ "kind": "a", "payload": n }));
    }
    let made = server.run(&["backup", "--name", "first"]).success();
    assert!(made.starts_with("made backup `first`: "), "{made}");
    // Later jobs are not in the backup, and the server keeps running.
    server.post("/v1/jobs", &json!({ "kind": "a", "payload": 3 }));
    let again = server.run(&["backup", "--name", "first"]);
    assert_eq!(again.code, Some(4), "{again:?}");
    assert!(again.err.contains("already exists"), "{}", again.err);
    for name in ["../out", "/tmp/out", ".", "..", "a/b", ".hidden", ""] {
        let (status, problem) = server.call("POST", "/v1/backups", Some(&json!({ "name": name })));
        assert_eq!((status, &problem["field"]), (400, &json!("name")), "{name}: {problem}");
    }
    let names = |path: &str| -> Vec<String> {
        let entries = std::fs::read_dir(dir.path().join(path)).expect("a directory");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("one").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        (names("copies"), names(".")),
        (vec!["first".to_owned()], vec!["copies".to_owned(), "crore-data".to_owned()])
    );
    server.stop();
    run(dir.path(), &["verify", "copies/first"]).success();
    let server = Server::start(dir.path(), &["--data", "copies/first"]);
    assert_eq!(server.get("/v1/jobs?state=ready")["jobs"].as_array().map(Vec::len), Some(3));
    server.stop();
}

#[test]
fn a_server_without_a_backup_directory_makes_no_backup() {
    let dir = dir();
    for (settings, why) in [
        ([].as_slice(), "store.backups"),
        (&["--memory", "--set", "store.backups=copies"], "opened in a directory"),
    ] {
        let server = Server::start(dir.path(), settings);
        let (status, problem) = server.call("POST", "/v1/backups", Some(&json!({ "name": "x" })));
        assert_eq!((status, &problem["code"]), (409, &json!("refused")), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{problem}");
        server.stop();
    }
    assert!(!dir.path().join("copies/x").exists());
}

#[test]
fn damage_is_found_and_repaired() {
    let dir = dir();
    with_jobs(dir.path());
    let good = run(dir.path(), &["verify"]).success();
    assert!(good.contains("no damage"), "{good}");
    assert!(run(dir.path(), &["repair"]).success().contains("nothing was changed"));

    let files = std::fs::read_dir(dir.path().join("crore-data")).expect("a directory");
    let found = files.map(|file| file.expect("a file").path()).find_map(|file| {
        let bytes = std::fs::read(&file).expect("a file");
        let place = bytes.windows(6).position(|some| some == b"needle")?;
        Some((file, bytes, place))
    });
    let (file, mut bytes, place) = found.expect("the payload is somewhere");
    bytes[place] ^= 0x40;
    std::fs::write(&file, bytes).expect("written");
    let bad = run(dir.path(), &["verify"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.out.contains("crore repair crore-data"), "{}", bad.out);
    let serve = run(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(serve.code, Some(1), "{serve:?}");
    assert!(serve.err.contains("crore verify crore-data"), "{}", serve.err);

    let repaired = run(dir.path(), &["repair"]);
    assert!(repaired.out.contains("repaired"), "{repaired:?}");
    run(dir.path(), &["verify"]).success();
}

#[test]
fn an_open_store_is_not_touched() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let pid = format!("process {}", server.pid());
    for command in [["verify"].as_slice(), &["repair"], &["backup", "crore-data", "copy"]] {
        let ran = run(dir.path(), command);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.err.contains(&pid), "{}", ran.err);
    }
    assert!(!dir.path().join("copy").exists());
    server.stop();
}

#[test]
fn commands_do_not_create_a_missing_store() {
    let dir = dir();
    assert_eq!(run(dir.path(), &["verify", "nowhere"]).code, Some(3));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn backups_of_a_running_server_are_for_its_user_only() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "store.backups=all/backups"]);
    server.post("/v1/backups", &json!({ "name": "first" }));
    for path in ["all", "all/backups", "all/backups/first"] {
        assert_eq!(mode(&dir.path().join(path)), 0o700, "{path}");
    }
}
