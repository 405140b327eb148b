//! The audit log: each change is logged once, with its caller.

use std::path::Path;
use std::time::Duration;

use crore::Engine;
use crore_api::Scope;
use crore_api::audit::{self, Audit};
use crore_doors::{Doors, Options, listen};
use crore_testkit::eventually;
use crore_wire::units::Size;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::access::{bearer, calls, token};
use crate::raw::{connect, request, send};
use crate::server::Server;

async fn server(file: &Path) -> Server {
    let options = audit::Options { file: Some(file.to_owned()), ..audit::Options::default() };
    let audit = Audit::open(&options).expect("opened");
    let doors = Doors::audited(Engine::memory(), Options::default(), audit);
    Server::open(doors, listen::Options::default(), None).await
}

fn entries(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect()
}

#[tokio::test]
async fn only_changes_by_operators_have_audit_entries_one_each() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.jsonl");
    let server = server(&file).await;
    let secret = token(&server.engine, "ada", Scope::ALL).await;
    let mut n = 0;
    for call in calls(&server.doors) {
        n += 1;
        let id = format!("x-request-id: call-{n}");
        let heard = call.make(server.address, 1, &[&bearer(&secret), &id]).await;
        let entries = entries(&file);
        let mine: Vec<_> =
            entries.iter().filter(|entry| entry["request"] == format!("call-{n}")).collect();
        let needs = call.scopes.first();
        let is_change = matches!(needs, Some(Scope::Operate | Scope::Define | Scope::Admin));
        assert_eq!(mine.len(), usize::from(is_change), "{call:?}");
        let Some(entry) = mine.first() else { continue };
        assert_eq!(entry["status"], heard.status, "{entry}");
        assert_eq!(heard.header("x-request-id"), Some(format!("call-{n}").as_str()));
        let who = entry["who"].as_str().expect("a text");
        assert!(who.starts_with("token ada ("), "{who}");
        assert!(entry["from"].as_str().expect("a text").starts_with("127.0.0.1:"));
        assert_eq!(entry["needs"], json!(needs));
    }
    let text = std::fs::read_to_string(&file).expect("a file");
    let (_, hidden) = secret.reveal().rsplit_once('_').expect("parts");
    assert!(!text.contains(hidden), "no secret");
}

#[tokio::test]
async fn an_audit_entry_describes_the_change_and_contains_no_secret() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.jsonl");
    let server = server(&file).await;
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        )
    };
    let act = r#"{"act":"cancel","filter":{"queue":"mail"},"dry_run":true}"#;
    assert_eq!(send(server.address, 1, &post("/v1/jobs/act", act)).await.status, 200);
    let new = r#"{"name":"ada","scopes":["admin"]}"#;
    let made = send(server.address, 1, &post("/v1/tokens", new)).await;
    let made: Value = serde_json::from_str(&made.body).expect("JSON");
    let secret = made["token"].as_str().expect("a text");
    let show = format!("authorization: Bearer {secret}");
    // A caller that uses a token in place of its id.
    let path = format!("/v1/tokens/{secret}?force=yes");
    let wrong = request("DELETE", &path, server.address, &[&show]);
    assert_eq!(send(server.address, 1, &wrong).await.status, 404);
    // A caller without a token, and one without the scope.
    let nobody = request("GET", "/v1/info", server.address, &[]);
    assert_eq!(send(server.address, 1, &nobody).await.status, 401);
    let may_not = request("GET", "/v1/info", server.address, &[&show]);
    assert_eq!(send(server.address, 1, &may_not).await.status, 403);

    let entries = entries(&file);
    let id = made["about"]["id"].as_str().expect("a text");
    let ada = format!("token ada ({id})");
    let said: Vec<_> = entries
        .iter()
        .map(|entry| (&entry["who"], &entry["call"], &entry["status"], &entry["code"]))
        .collect();
    let wrong = format!("DELETE /v1/tokens/crore_{id}_***");
    assert_eq!(
        said,
        [
            (&json!("loopback"), &json!("POST /v1/jobs/act"), &json!(200), &Value::Null),
            (&json!("loopback"), &json!("POST /v1/tokens"), &json!(201), &Value::Null),
            (&json!(ada), &json!(wrong), &json!(404), &json!("not-found")),
            (&json!("nobody"), &json!("GET /v1/info"), &json!(401), &json!("token-needed")),
            (&json!(ada), &json!("GET /v1/info"), &json!(403), &json!("scope-missing")),
        ]
    );
    let about = |n: usize| entries.get(n).and_then(|entry| entry["about"].as_str());
    assert!(about(0).is_some_and(|about| about.contains("cancel") && about.contains("mail")));
    assert_eq!(about(1), Some(format!("token ada ({id}): admin").as_str()));
    let text = std::fs::read_to_string(&file).expect("a file");
    let (_, hidden) = secret.rsplit_once('_').expect("parts");
    assert!(!text.contains(hidden) && !text.contains("force"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_caller_disconnects_has_an_audit_entry() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.jsonl");
    let server = server(&file).await;
    server.engine.push("mail", "{}").await.expect("pushed");
    let queue = crore::core::Name::new("queue", "mail").expect("a name");
    let worker = crore::core::Name::new("worker", "w").expect("a name");
    let ask = crore::fetch::Fetch::new(queue.clone(), worker);
    let held = server.engine.fetch(ask).await.expect("fetched");
    assert_eq!(held.len(), 1);
    // The drain waits for the running job.
    let mut stream = connect(server.address, 1).await;
    let drain = request("POST", "/v1/queues/mail/drain?wait=30s", server.address, &[]);
    stream.write_all(drain.as_bytes()).await.expect("written");
    tokio::task::spawn_blocking({
        let engine = server.engine.clone();
        move || {
            eventually(Duration::from_secs(5), || {
                let queues = crore::block_on(engine.queues().list()).expect("read");
                queues.iter().any(|entry| entry.name == queue)
            });
        }
    })
    .await
    .expect("it is paused");
    drop(stream);
    let read = file.clone();
    let entry = tokio::task::spawn_blocking(move || {
        eventually(Duration::from_secs(5), || entries(&read).pop())
    });
    let entry = entry.await.expect("an entry");
    assert_eq!(
        (&entry["call"], &entry["status"]),
        (&json!("POST /v1/queues/mail/drain"), &Value::Null)
    );
}

#[tokio::test]
async fn a_failed_log_write_is_counted_and_blocks_no_call() {
    let server = server(Path::new("/dev/full")).await;
    for n in 1..=2 {
        let pause = request("POST", "/v1/queues/x/pause", server.address, &[]);
        assert_eq!(send(server.address, 1, &pause).await.status, 200);
        assert_eq!(server.doors.api().audit().lost(), n);
    }
}

#[tokio::test]
async fn a_full_log_is_rotated() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.jsonl");
    let options = audit::Options { file: Some(file.clone()), max_size: Size(500), keep: 2 };
    let audit = Audit::open(&options).expect("opened");
    let doors = Doors::audited(Engine::memory(), Options::default(), audit);
    let server = Server::open(doors, listen::Options::default(), None).await;
    for n in 0..20 {
        let pause = request("POST", &format!("/v1/queues/q{n}/pause"), server.address, &[]);
        assert_eq!(send(server.address, 1, &pause).await.status, 200);
    }
    let files = std::fs::read_dir(dir.path()).expect("a directory");
    let sizes: Vec<u64> =
        files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 500), "{sizes:?}");
    let last = entries(&file).pop().expect("an entry");
    assert_eq!(last["call"], "POST /v1/queues/q19/pause");
}
