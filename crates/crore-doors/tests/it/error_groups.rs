//! `/v1/errors`: groups of errors.

use crore::Engine;
use crore_api::{Scope, access};
use crore_doors::{Options, listen};
use crore_wire::api::tokens::NewToken;
use http::Method;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server, ServerResponse};

const JSON: BodyEncoding = BodyEncoding::Json;

/// Pushes a job and lets it fail once.
async fn fail(server: &Server, (queue, kind): (&str, &str), error: &str, never: bool) -> String {
    let job = json!({"queue": queue, "kind": kind, "payload": {"secret": 1}});
    let pushed = server.post(JSON, "/v1/jobs", &job).await;
    let fetch = json!({"queues": [queue], "worker": "w"});
    let fetched = server.post(JSON, "/v1/fetch", &fetch).await;
    let job = &fetched.body["jobs"][0];
    let report = json!({"jobs": [{
        "id": job["id"], "delivery": job["delivery"], "outcome": "failed", "error": error, "retry": !never
    }]});
    let finished = server.post(JSON, "/v1/finish", &report).await;
    assert!(finished.status.is_success(), "{finished:?}");
    assert_eq!(pushed.body["id"], job["id"], "{fetched:?}");
    job["id"].as_str().expect("an id").to_owned()
}

async fn groups(server: &Server, query: &str) -> Vec<Value> {
    let listed = server.get(JSON, &format!("/v1/errors{query}")).await;
    assert_eq!(listed.status, 200, "{listed:?}");
    assert_eq!(listed.body["filling"], json!(false));
    listed.body["groups"].as_array().expect("groups").clone()
}

#[tokio::test]
async fn errors_are_grouped_by_fingerprint_with_counts_and_an_example() {
    let server = Server::start().await;
    assert!(groups(&server, "").await.is_empty());
    fail(&server, ("mail", "send"), "timeout after 30s", false).await;
    let last = fail(&server, ("mail", "send"), "timeout after 5s", true).await;
    let sms = fail(&server, ("sms", "text"), "timeout after 1s", true).await;
    fail(&server, ("mail", "send"), "refused by \"a\"", true).await;
    let all = groups(&server, "").await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[0]["message"], "refused by \"a\"", "the newest first");
    let group = &all[1];
    assert_eq!((&group["count"], &group["job"]), (&json!(3), &json!(sms)));
    assert_eq!(group["place_count"], 2);
    let sum = |name: &str| -> u64 {
        group[name].as_array().expect("counts").iter().filter_map(Value::as_u64).sum()
    };
    assert_eq!((sum("per_minute"), sum("per_hour")), (3, 3));
    assert_eq!(group["per_minute"].as_array().map(Vec::len), Some(60));
    let of_mail = groups(&server, "?queue=mail&kind=send").await;
    assert_eq!((&of_mail[1]["count"], &of_mail[1]["job"]), (&json!(2), &json!(last)));
    assert_eq!(groups(&server, "?queue=other").await.len(), 0);
    assert_eq!(groups(&server, "?limit=1").await.len(), 1);
    assert_eq!(groups(&server, "?since=2999-01-01T00:00:00Z").await.len(), 0);
    // The fingerprint selects the jobs of the group.
    let fingerprint = group["fingerprint"].as_str().expect("a text");
    let jobs = server.get(JSON, &format!("/v1/jobs?q=error%3D{fingerprint}")).await;
    assert_eq!(jobs.body["jobs"].as_array().map(Vec::len), Some(3), "{jobs:?}");
    for encoding in BodyEncoding::BOTH {
        let one = server.get(encoding, &format!("/v1/errors/{fingerprint}")).await;
        assert_eq!(one.body["count"], 3, "{one:?}");
    }
}

#[tokio::test]
async fn a_wrong_query_is_explained_and_an_unknown_group_is_missing() {
    let server = Server::start().await;
    for (query, field) in
        [("?limit=0", "limit"), ("?limit=1001", "limit"), ("?since=now", "since"), ("?x=1", "x")]
    {
        let refused = server.get(JSON, &format!("/v1/errors{query}")).await;
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.problem().2, Some(field));
    }
    for path in ["0123456789abcdef", "x", "..%2f"] {
        assert_eq!(server.get(JSON, &format!("/v1/errors/{path}")).await.status, 404);
    }
}

#[tokio::test]
async fn a_restricted_token_sees_errors_of_its_own_jobs_only() {
    let server = Server::start().await;
    fail(&server, ("mail", "send"), "timeout after 30s", true).await;
    fail(&server, ("sms", "text"), "timeout after 30s: secret", true).await;
    fail(&server, ("sms", "text"), "timeout after 31s", true).await;
    let new = NewToken {
        name: "mail".to_owned(),
        preset: None,
        scopes: vec![Scope::Read],
        expires_in: None,
        queues: vec!["mail".to_owned()],
        kinds: Vec::new(),
    };
    let (_, secret) = access::create(&server.engine, &new).await.expect("made");
    let header = format!("Bearer {}", secret.reveal());
    server.doors.api().access().tokens_changed();
    let get = async |path: &str| -> ServerResponse {
        let headers = [("authorization", header.as_str())];
        server.send(JSON, (Method::GET, path), &headers, Vec::new()).await
    };
    let listed = get("/v1/errors").await;
    assert_eq!(listed.body["total"], 1, "{listed:?}");
    assert_eq!(listed.body["groups"][0]["count"], 1, "{listed:?}");
    let text = listed.body.to_string();
    assert!(!text.contains("sms") && !text.contains("secret"), "{text}");
    let hidden = crore_core::filter::Fingerprint::of("timeout after 30s: secret");
    assert_eq!(get(&format!("/v1/errors/{hidden}")).await.status, 404);
    assert_eq!(get("/v1/errors?queue=sms").await.status, 403);
}

#[tokio::test]
async fn after_a_restart_the_errors_of_dead_and_retrying_jobs_are_counted_again() {
    let server = Server::start().await;
    for n in 0..3 {
        fail(&server, ("mail", "send"), &format!("timeout after {n}s"), n > 0).await;
    }
    let engine: Engine = server.engine.clone();
    let options = (Options::default(), listen::Options::default());
    let again = Server::start_on(engine, options.0, options.1).await;
    assert!(groups(&again, "").await.is_empty(), "its own table is empty");
    again.doors.api().fill_errors().await;
    let filled = groups(&again, "").await;
    assert_eq!((filled.len(), &filled[0]["count"]), (1, &json!(3)), "{filled:?}");
    assert_eq!(filled[0]["message"], "timeout after 2s");
}
