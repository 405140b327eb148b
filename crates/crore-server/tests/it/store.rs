//! Commands on the directory of a store.

use serde_json::json;

use crate::binary::{Server, dir, run};

fn with_jobs(dir: &std::path::Path) {
    let server = Server::start(dir, &[]);
    for n in 0..3 {
        server.post("/v1/jobs", &json!({ "kind": "a", "payload": n }));
    }
    server.stop();
}

#[test]
fn a_backup_is_a_store_with_the_same_jobs() {
    let dir = dir();
    with_jobs(dir.path());
    let made = run(dir.path(), &["backup", "crore-data", "copy"]).good();
    assert!(made.starts_with("copied crore-data into `copy`: "), "{made}");
    let server = Server::start(dir.path(), &["--data", "copy"]);
    assert_eq!(server.get("/v1/jobs?state=ready")["jobs"].as_array().map(Vec::len), Some(3));
    server.stop();
    let again = run(dir.path(), &["backup", "crore-data", "copy"]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("empty directory"), "{}", again.err);
}

#[test]
fn damage_is_found_named_and_mended() {
    let dir = dir();
    with_jobs(dir.path());
    let good = run(dir.path(), &["verify"]).good();
    assert!(good.contains("no damage"), "{good}");
    assert!(run(dir.path(), &["repair"]).good().contains("nothing was changed"));

    // One of the files of the log has the jobs.
    let files = (1..4).map(|n| dir.path().join(format!("crore-data/log-{n:08}")));
    let found = files.into_iter().find_map(|file| {
        let bytes = std::fs::read(&file).expect("a segment");
        let place = bytes.windows(4).position(|some| some == b"\x01a\x01a")?;
        Some((file, bytes, place))
    });
    let (file, mut bytes, place) = found.expect("the jobs are there");
    bytes[place] ^= 0x40;
    std::fs::write(&file, bytes).expect("written");
    let bad = run(dir.path(), &["verify"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(bad.out.contains("crore repair crore-data"), "{}", bad.out);
    let serve = run(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(serve.code, Some(1), "{serve:?}");
    assert!(serve.err.contains("crore verify crore-data"), "{}", serve.err);

    let repaired = run(dir.path(), &["repair"]);
    assert!(repaired.out.contains("mended"), "{repaired:?}");
    run(dir.path(), &["verify"]).good();
}

#[test]
fn a_store_that_is_open_is_left_alone() {
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
fn a_look_makes_no_store() {
    let dir = dir();
    assert_eq!(run(dir.path(), &["verify", "nowhere"]).code, Some(3));
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}
