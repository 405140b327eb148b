//! The Web UI in a real browser, on the built binary with jobs.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crore_testkit::{DebianPackage, Npm, or_skip};
use serde_json::{Value, json};

use crate::binary::{FinishedCommand, Server, dir};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ui");
const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crore-ui/assets");

/// Dead jobs that one action retries.
const DEAD: usize = 5000;
const BATCH: usize = 1000;

/// The packages, if they and the browser are installed.
fn browser() -> Option<PathBuf> {
    or_skip(DebianPackage::Chromium.require())?;
    or_skip(Npm::Browser.home())
}

/// Jobs whose only attempt failed.
fn push_dead(server: &Server) {
    let job = json!({ "kind": "import", "queue": "imports", "payload": { "rows": 3 }, "retry": { "max_attempts": 1 } });
    for _ in 0..DEAD / BATCH {
        server.post("/v1/jobs", &json!({ "jobs": vec![&job; BATCH] }));
        let fetched = server
            .post("/v1/fetch", &json!({ "queues": ["imports"], "n": BATCH, "worker": "importer" }));
        let jobs = fetched["jobs"].as_array().expect("a list").iter();
        let failed = |job: &Value| json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "failed", "error": "disk quota exceeded" });
        server.post("/v1/finish", &json!({ "jobs": jobs.map(failed).collect::<Vec<_>>() }));
    }
}

/// Jobs that the walks look for.
fn push_samples(server: &Server) {
    let retry = json!({ "max_attempts": 1 });
    server.post("/v1/jobs", &json!({ "kind": "mail", "queue": "mail", "payload": { "to": "ada", "customer": 42 }, "retry": retry }));
    let job =
        &server.post("/v1/fetch", &json!({ "queues": ["mail"], "worker": "postman" }))["jobs"][0];
    let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "failed", "error": "mailbox `ada` is full" });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    for n in 0..20 {
        server
            .post("/v1/jobs", &json!({ "kind": "mail", "queue": "mail", "payload": { "to": n } }));
    }
    let nasty = "<script>document.title='owned'</script>\u{202e}<img src=x onerror=alert(1)>";
    let text = format!("{nasty}\u{0}{}", "x".repeat(1 << 19));
    server.post("/v1/jobs", &json!({ "kind": nasty, "queue": nasty, "payload": { nasty: text } }));
}

/// Runs the walks of a mode. The script asks for a restart of the server, which keeps its address and its data.
fn run_walks(home: &Path, mode: &str) -> Value {
    let dir = dir();
    let mut server = Server::start(dir.path(), &[]);
    push_samples(&server);
    push_dead(&server);
    let mut node = Command::new("node");
    node.arg(format!("{SCRIPTS}/walks.mjs")).arg(home).arg(server.url()).arg(mode);
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = node.spawn().expect("node runs");
    let mut answers = child.stdin.take().expect("piped");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut seen = Value::Null;
    for line in lines.map_while(Result::ok) {
        match line.as_str() {
            "restart" => {
                let address = server.address;
                server.stop_soon();
                server = Server::start_at(dir.path(), address);
                writeln!(answers, "restarted").expect("the script reads");
            }
            line => seen = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")),
        }
    }
    assert!(child.wait().expect("a child").success(), "{seen}");
    server.stop_soon();
    seen
}

#[test]
fn people_find_what_is_wrong_and_put_it_right() {
    let Some(home) = browser() else { return };
    let seen = run_walks(&home, "walks");
    assert_eq!(seen["faults"], json!([]), "console errors and requests to other hosts");
    let walks = json!([
        "pages", "search", "replay", "bulk", "queue", "hostile", "keys", "restart", "viewer"
    ]);
    assert_eq!(seen["walks"], walks);
}

#[test]
fn features_of_pages_work_in_a_browser() {
    let Some(home) = browser() else { return };
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "access.mask=card"]);
    push_samples(&server);
    server.post("/v1/jobs", &json!({ "kind": "import", "queue": "imports" }));
    server.post(
        "/v1/jobs",
        &json!({ "kind": "pay", "queue": "pay", "payload": { "amount": 10, "card": "4111" } }),
    );
    let fetch = json!({ "queues": ["mail"], "worker": "postman" });
    let good = &server.post("/v1/fetch", &fetch)["jobs"][0];
    let report = json!({ "id": good["id"], "delivery": good["delivery"], "outcome": "done" });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    let mut node = Command::new("node");
    node.arg(format!("{SCRIPTS}/walks_features.mjs")).arg(&home).arg(server.url());
    let done = node.output().expect("node runs");
    let seen: Value = serde_json::from_slice(&done.stdout).expect("one line of JSON");
    assert_eq!(seen["faults"], json!([]));
    assert_eq!(seen["walks"], json!(["completion", "diff", "marks", "mask"]));
    server.stop_soon();
}

#[test]
#[ignore = "every page at three widths in both themes, checked by axe-core: run before a release"]
fn pages_have_no_serious_finding_at_any_width() {
    let Some(home) = browser() else { return };
    let seen = run_walks(&home, "looks");
    assert_eq!(
        seen["faults"],
        json!([]),
        "console errors, requests to other hosts, and findings of axe-core"
    );
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
