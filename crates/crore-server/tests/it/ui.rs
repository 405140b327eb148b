//! The Web UI in a real browser, on the built binary with jobs.

mod samples;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crore_testkit::{DebianPackage, Npm, or_skip};
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, Server, dir};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ui");
const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crore-ui/assets");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The packages, if they and the browser are installed.
fn browser() -> Option<PathBuf> {
    or_skip(DebianPackage::Chromium.require())?;
    or_skip(Npm::Browser.home())
}

/// Runs a script against the server at `url`, and returns what it has seen. `answer` does what the script asks for.
fn run_script(home: &Path, script: &str, url: &str, mut answer: impl FnMut(&str)) -> Value {
    let mut node = Command::new("node");
    node.arg(format!("{SCRIPTS}/{script}.mjs")).arg(home).arg(url);
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = node.spawn().expect("node runs");
    let mut answers = child.stdin.take().expect("piped");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut seen = Value::Null;
    for line in lines.map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(value) => seen = value,
            Err(_) => {
                answer(&line);
                writeln!(answers, "done").expect("the script reads");
            }
        }
    }
    assert!(child.wait().expect("a child").success(), "{script}: {seen}");
    seen
}

#[track_caller]
fn assert_seen(seen: &Value, walks: &[&str]) {
    assert_eq!(seen["faults"], json!([]), "failed steps, console errors, requests to other hosts");
    assert_eq!(seen["walks"], json!(walks));
}

#[test]
fn people_find_what_is_wrong_and_put_it_right() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let mut server = Some(Server::start(dir.path(), &[]));
    let running = server.as_ref().expect("a server");
    let (url, address) = (running.url(), running.address);
    samples::push_for_walks(running);
    let seen = run_script(&home, "walks", &url, |request| {
        assert_eq!(request, "restart", "the server keeps its address and its data");
        server.take().expect("a server").stop_soon();
        server = Some(Server::start_at(dir.path(), address));
    });
    let walks = [
        "pages",
        "badInput",
        "search",
        "replay",
        "changedMeanwhile",
        "queue",
        "hostile",
        "keys",
        "restart",
        "viewer",
        "revoked",
    ];
    assert_seen(&seen, &walks);
    server.take().expect("a server").stop_soon();
}

#[test]
fn features_of_pages_work_in_a_browser() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "access.mask=card"]);
    samples::push_for_walks(&server);
    server.post("/v1/jobs", &json!({ "kind": "import", "queue": "imports" }));
    server.post(
        "/v1/jobs",
        &json!({ "kind": "pay", "queue": "pay", "payload": { "amount": 10, "card": "4111" } }),
    );
    let fetch = json!({ "queues": ["mail"], "worker": "postman" });
    let good = &server.post("/v1/fetch", &fetch)["jobs"][0];
    let report = json!({ "id": good["id"], "delivery": good["delivery"], "outcome": "done" });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    let seen = run_script(&home, "walks_features", &server.url(), |_| {});
    assert_seen(&seen, &["completion", "diff", "marks", "mask"]);
    server.stop_soon();
}

#[test]
fn three_questions_are_answered_with_few_clicks() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let hosted = ["--allow-runner", "command", "--channel", "mail=2", "--channel", "sms=2"];
    let server = Server::start(dir.path(), &hosted);
    samples::push_dead(&server);
    samples::push_export(&server);
    samples::push_late_mail(&server);
    let seen = run_script(&home, "three_walks", &server.url(), |_| {});
    assert_seen(&seen, &["mailIsLate", "everythingFails", "whereIsTheExport"]);
    server.stop_soon();
}

#[test]
#[ignore = "every page at three widths in both themes, checked by axe-core: `cargo xtask soak looks`"]
fn pages_have_no_serious_finding_at_any_width() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let mut server = Server::start_with(dir.path(), "dev", &[]);
    samples::add_to_dev(&server);
    samples::push_export(&server);
    let seen = run_script(&home, "looks", &server.url(), |_| {});
    println!("{} pages, screenshots in {}", seen["pages"], seen["folder"]);
    assert_eq!(seen["faults"], json!([]), "findings of axe-core, overflow, console errors");
    server.signal("TERM");
    server.wait();
}

#[test]
#[ignore = "writes the images of the documentation: `cargo xtask screenshots`"]
fn images_of_the_documentation() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let mut server = Server::start_with(dir.path(), "dev", &[]);
    samples::add_to_dev(&server);
    samples::wait_for_charts(&server);
    samples::push_export(&server);
    samples::push_much_mail(&server);
    let seen = run_script(&home, "images", &server.url(), |_| {});
    assert_eq!(seen["faults"], json!([]), "console errors");
    server.signal("TERM");
    server.wait();
}

/// Every image that a page of the documentation shows exists, every image is shown, and together they are small.
#[test]
fn images_are_shown_and_small() {
    let root = Path::new(ROOT);
    let images = std::fs::read_dir(root.join("docs/images")).expect("a directory");
    let images: Vec<_> = images.map(|entry| entry.expect("an entry")).collect();
    let bytes: u64 = images.iter().map(|entry| entry.metadata().expect("a file").len()).sum();
    assert!(!images.is_empty() && bytes < 1_000_000, "{bytes} bytes");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let pages = read("README.md") + &read("docs/guide/web-ui.md");
    for image in images {
        let name = image.file_name().to_string_lossy().into_owned();
        assert!(pages.contains(&format!("images/{name}")), "{name} is not shown");
    }
}

#[test]
fn scripts_have_the_types_that_they_claim() {
    let Some(home) = browser() else { return };
    let mut check = Command::new(home.join("node_modules/.bin/tsc"));
    check.args(["--noEmit", "--checkJs", "--allowJs", "--strict", "--target", "es2023"]);
    check
        .args(["--module", "es2022", "--lib", "es2023,dom,dom.iterable"])
        .arg(format!("{ASSETS}/ui.js"));
    FinishedCommand::of(check.output().expect("it runs")).success();
}
