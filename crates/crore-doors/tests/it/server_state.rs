//! Groups, runs of schedules, the store, the audit log, and completion of filters.

use crore::Engine;
use crore_api::audit::{self, Audit};
use crore_doors::{Doors, Options, listen};
use http::Method;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

const JSON: BodyEncoding = BodyEncoding::Json;

#[tokio::test]
async fn groups_are_listed_newest_first_and_by_page() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let batch =
            json!({"jobs": [{"kind": "a", "group": {"new": 0}}], "groups": [{"open": true}]});
        let pushed = server.post(JSON, "/v1/jobs", &batch).await;
        ids.push(pushed.body["groups"][0].clone());
    }
    ids.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(JSON, &format!("/v1/groups?limit=2{cursor}")).await.body;
        let groups = page["groups"].as_array().expect("groups");
        assert!(groups.iter().all(|group| group["size"] == 1 && group["changed_at"].is_string()));
        seen.extend(groups.iter().map(|group| group["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, ids);
    assert_eq!(server.get(JSON, "/v1/groups?limit=0").await.problem().2, Some("limit"));
    assert_eq!(server.get(JSON, "/v1/groups?cursor=x").await.problem().2, Some("cursor"));
}

/// The counts of many queues come from a snapshot, which is taken again soon.
#[tokio::test]
async fn many_queues_are_listed_by_page_and_counted_again() {
    let server = Server::start().await;
    let job = |n: usize| json!({"kind": "a", "queue": format!("queue-{n:04}")});
    for start in [0, 600] {
        let jobs: Vec<Value> = (start..start + 600).map(job).collect();
        server.post(JSON, "/v1/jobs", &json!({ "jobs": jobs })).await;
    }
    let (mut names, mut cursor) = (0, String::new());
    loop {
        let page = server.get(JSON, &format!("/v1/queues?limit=100{cursor}")).await.body;
        for queue in page["queues"].as_array().expect("queues") {
            assert_eq!(queue["name"], format!("queue-{names:04}"));
            assert_eq!(queue["counts"]["ready"], 1);
            names += 1;
        }
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(names, 1200);
    server.post(JSON, "/v1/jobs", &job(0)).await;
    loop {
        let page = server.get(JSON, "/v1/queues?limit=1").await.body;
        let ready = page["queues"][0]["counts"]["ready"].as_u64();
        if ready == Some(2) {
            break;
        }
        assert_eq!(ready, Some(1));
    }
}

#[tokio::test]
async fn a_schedule_is_run_by_hand_and_its_runs_are_listed() {
    let server = Server::start().await;
    let schedule = json!({"timing": "every 1h", "job": {"kind": "report", "payload": 1}});
    let path = "/v1/schedules/nightly";
    server.call(JSON, Method::PUT, path, Some(&schedule)).await;
    let before = server.get(JSON, path).await.body;
    // Another job of the queue and kind is not a run.
    server.post(JSON, "/v1/jobs", &json!({"kind": "report"})).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let run = server.post(JSON, &format!("{path}/run"), &json!({})).await;
        assert_eq!((run.status.as_u16(), &run.body["status"]), (201, &json!("new")), "{run:?}");
        ids.insert(0, run.body["id"].clone());
    }
    let runs = server.get(JSON, &format!("{path}/runs")).await.body;
    let runs = runs["jobs"].as_array().expect("jobs");
    assert_eq!(runs.iter().map(|run| run["id"].clone()).collect::<Vec<_>>(), ids);
    assert_eq!(runs[0]["state"], "ready");
    let after = server.get(JSON, path).await.body;
    assert_eq!(after["next_at"], before["next_at"], "its ticks stay");
    let job = server.get(JSON, &format!("/v1/jobs/{}", ids[0].as_str().expect("an id"))).await;
    assert_eq!(job.body["labels"], json!({"crore.schedule": "nightly"}), "{job:?}");
    let missing = server.post(JSON, "/v1/schedules/none/run", &json!({})).await;
    assert_eq!(missing.problem().0, 404);
    assert_eq!(server.get(JSON, "/v1/schedules/none/runs").await.problem().0, 404);
}

#[tokio::test]
async fn the_store_shows_its_size_its_free_space_and_its_last_backup() {
    let memory = Server::start().await;
    let state = memory.get(JSON, "/v1/storage").await.body;
    assert_eq!((&state["durability"], state.get("disk")), (&json!("D0"), None), "{state}");
    assert_eq!(state.get("backups"), None);
    let dir = tempfile::tempdir().expect("a directory");
    let (data, backups) = (dir.path().join("data"), dir.path().join("backups"));
    let engine = Engine::open(&data).expect("opened");
    let mut options = Options::default();
    (options.api.data, options.api.backups) = (Some(data), Some(backups));
    let server = Server::start_on(engine, options, listen::Options::default()).await;
    let state = server.get(JSON, "/v1/storage").await.body;
    assert_eq!(state["backups"], json!({"count": 0}));
    let made = server.post(JSON, "/v1/backups", &json!({"name": "first"})).await;
    assert_eq!(made.status, 201, "{made:?}");
    for encoding in BodyEncoding::BOTH {
        let state = server.get(encoding, "/v1/storage").await.body;
        let disk = &state["disk"];
        for field in ["bytes", "segments", "free_bytes", "written_bytes"] {
            assert!(disk[field].as_u64().is_some_and(|n| n > 0), "{field}: {disk}");
        }
        assert!(disk["live_bytes"].as_u64() <= disk["bytes"].as_u64(), "{disk}");
        let last = &state["backups"]["last"];
        assert_eq!((&last["name"], &state["problems"]), (&json!("first"), &json!([])));
        assert!(last["bytes"].as_u64().is_some_and(|n| n > 0) && last["at"].is_string());
    }
}

#[tokio::test]
async fn the_audit_log_is_read_newest_first_and_a_server_without_one_says_so() {
    let without = Server::start().await;
    let refused = without.get(JSON, "/v1/audit").await;
    assert_eq!(refused.problem().0, 409, "{refused:?}");
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.contains("`audit.file`")));
    let dir = tempfile::tempdir().expect("a directory");
    let file = Some(dir.path().join("audit.jsonl"));
    let audit = Audit::open(&audit::Options { file, ..Default::default() }).expect("opened");
    let doors = Doors::audited(Engine::memory(), Options::default(), audit);
    let server = Server::open(doors, listen::Options::default(), None).await;
    for n in 0..3 {
        server.post(JSON, &format!("/v1/queues/q{n}/pause"), &json!({})).await;
    }
    let first = server.get(JSON, "/v1/audit?limit=2").await.body;
    let calls = |page: &Value| -> Vec<Value> {
        let entries = page["entries"].as_array().expect("entries");
        entries.iter().map(|entry| entry["call"].clone()).collect()
    };
    assert_eq!(calls(&first), ["POST /v1/queues/q2/pause", "POST /v1/queues/q1/pause"]);
    assert_eq!(first["entries"][0]["status"], 200);
    let next = first["next"].as_str().expect("more");
    let second = server.get(JSON, &format!("/v1/audit?before={next}")).await.body;
    assert_eq!(calls(&second), ["POST /v1/queues/q0/pause"]);
    for (query, field) in [("limit=0", "limit"), ("before=x", "before"), ("at=1", "at")] {
        let refused = server.get(JSON, &format!("/v1/audit?{query}")).await;
        assert_eq!((refused.problem().0, refused.problem().2), (400, Some(field)));
    }
}

async fn completed(server: &Server, query: &str) -> Value {
    let answer = server.get(JSON, &format!("/v1/complete?{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn texts(completion: &Value) -> Vec<&str> {
    let suggestions = completion["suggestions"].as_array().expect("suggestions");
    suggestions.iter().filter_map(|one| one["text"].as_str()).collect()
}

#[tokio::test]
async fn filters_are_completed_with_fields_states_names_labels_and_payloads() {
    let server = Server::start().await;
    for (queue, to) in [("mail", "ada"), ("mail two", "bob")] {
        let job = json!({
            "queue": queue, "kind": "send", "payload": {"to": to, "deep": {"n": 5}},
            "labels": {"region": "eu"},
        });
        server.post(JSON, "/v1/jobs", &job).await;
    }
    let fields = completed(&server, "q=").await;
    assert!(texts(&fields).contains(&"state:") && fields["from"] == 0, "{fields}");
    assert_eq!(texts(&completed(&server, "q=sta").await), ["state:", "started>"]);
    let states = completed(&server, "q=kind:send%20state:de").await;
    assert_eq!(
        (texts(&states), &states["from"], &states["to"]),
        (vec!["dead"], &json!(16), &json!(18))
    );
    assert_eq!(states["problem"].as_str().map(str::is_empty), Some(false), "`de` is no state");
    let queues = completed(&server, "q=queue:m").await;
    assert_eq!(texts(&queues), ["mail", "\"mail two\""]);
    assert_eq!(queues["suggestions"][0]["about"], "1 job");
    assert_eq!(texts(&completed(&server, "q=-kind:").await), ["send"]);
    assert_eq!(texts(&completed(&server, "q=label:").await), ["region", "region=eu"]);
    assert_eq!(texts(&completed(&server, "q=payload.").await), ["payload.deep.n=", "payload.to="]);
    assert_eq!(texts(&completed(&server, "q=payload.to%3Db").await), ["bob"]);
    // In the middle of a filter.
    let middle = completed(&server, "q=queue:mail%20state:dead&at=6").await;
    assert_eq!((&middle["from"], &middle["to"]), (&json!(6), &json!(10)));
    let long = server.get(JSON, &format!("/v1/complete?q={}", "x".repeat(5000))).await;
    assert_eq!(long.problem(), (400, "filter-too-long", Some("q")));
}
