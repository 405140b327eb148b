//! Each call of the native API, in both encodings.

use crore_core::{Name, NewJob, Payload, Spec};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server};

/// Pushes a job and returns its id.
async fn push(server: &Server, encoding: BodyEncoding, job: Value) -> String {
    let answer = server.post(encoding, "/v1/jobs", &job).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    answer.body["id"].as_str().expect("ids are texts").to_owned()
}

/// Fetches one job of a queue.
async fn fetch(server: &Server, encoding: BodyEncoding, queue: &str) -> Value {
    let ask = json!({"queues": [queue], "worker": "w1"});
    let answer = server.post(encoding, "/v1/fetch", &ask).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    answer.body["jobs"][0].clone()
}

#[tokio::test]
async fn a_job_is_pushed_fetched_renewed_and_finished() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let payload = json!({"to": "ada", "n": [1, 2.5, null, true]});
        let job =
            json!({"kind": "mail", "payload": payload, "keep_result": "1h", "labels": {"a": "b"}});
        let id = push(&server, encoding, job).await;
        let got = server.get(encoding, &format!("/v1/jobs/{id}")).await;
        assert_eq!(got.body["state"], "ready");
        assert_eq!(got.body["payload"], payload);
        assert_eq!(got.headers["content-type"], encoding.media_type());

        let job = fetch(&server, encoding, "mail").await;
        assert_eq!((&job["id"], &job["payload"]), (&json!(id), &payload));
        let held = json!({"id": id, "delivery": job["delivery"]});
        let renewed =
            server.post(encoding, "/v1/renew", &json!({"jobs": [held], "lease": "5m"})).await;
        assert_eq!(renewed.body["jobs"][0]["status"], "renewed", "{renewed:?}");

        let report =
            json!({"id": id, "delivery": job["delivery"], "outcome": "done", "result": [7]});
        let finish = json!({"jobs": [report]});
        let finished = server.post(encoding, "/v1/finish", &finish).await;
        assert_eq!(finished.body["jobs"][0], json!({"status": "finished", "state": "done"}));
        let again = server.post(encoding, "/v1/finish", &finish).await;
        assert_eq!(again.body["jobs"][0], json!({"status": "stale"}));

        let result = server.get(encoding, &format!("/v1/jobs/{id}/result")).await;
        assert_eq!(result.status, StatusCode::OK);
        assert_eq!((&result.body["result"], &result.body["state"]), (&json!([7]), &json!("done")));
    }
}

#[tokio::test]
async fn a_job_without_a_lease_is_done_when_it_is_fetched() {
    let server = Server::start().await;
    let name = || Name::new("queue", "free").expect("a name");
    let leased = Spec::new(name(), name(), Payload::json("7"));
    let free = Spec { lease: None, ..leased.clone() };
    let batch: Vec<NewJob> = [free.clone(), leased, free].map(NewJob::from).into();
    server.engine.push_all(batch.into()).await.expect("pushed");
    let ask = json!({"queues": ["free"], "n": 10});
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &ask).await;
    let ids: Vec<_> = fetched.body["jobs"].as_array().expect("jobs").iter().collect();
    assert_eq!(ids.len(), 3);
    let queue = server.get(BodyEncoding::Json, "/v1/queues/free").await;
    assert_eq!(queue.body["counts"], json!({"done": 2, "running": 1}));
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_problems() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let nowhere = server.get(encoding, "/v1/nowhere").await;
        assert_eq!(nowhere.problem(), (404, "not-found", None));
        let put = server.call(encoding, Method::PUT, "/v1/jobs", None).await;
        assert_eq!(put.problem(), (405, "method-not-allowed", None));
        let allowed = put.headers["allow"].to_str().expect("a text");
        assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
        let missing = server.get(encoding, "/v1/jobs/4711").await;
        assert_eq!(missing.problem(), (404, "not-found", None));
        assert!(missing.headers["content-type"].to_str().expect("a text").contains("problem"));
    }
}

#[tokio::test]
async fn jobs_are_listed_page_by_page_without_their_payloads() {
    let server = Server::start().await;
    for n in 0..5 {
        push(&server, BodyEncoding::Json, json!({"kind": "list", "payload": n, "queue": "q"}))
            .await;
    }
    push(&server, BodyEncoding::Json, json!({"kind": "later", "delay": "1h"})).await;
    for encoding in BodyEncoding::BOTH {
        let mut ids = Vec::new();
        let mut next = String::new();
        loop {
            let page = server.get(encoding, &format!("/v1/jobs?limit=2{next}")).await;
            assert_eq!(page.status, StatusCode::OK, "{page:?}");
            for job in page.body["jobs"].as_array().expect("a list") {
                assert_eq!(job.get("payload"), None);
                ids.push(job["id"].as_str().expect("a text").to_owned());
            }
            match page.body["next"].as_str() {
                Some(cursor) => next = format!("&cursor={cursor}"),
                None => break,
            }
        }
        ids.sort();
        assert_eq!(ids, ["1", "2", "3", "4", "5", "6"]);
        let ready = server.get(encoding, "/v1/jobs?state=ready&queue=q&kind=list").await;
        assert_eq!(ready.body["jobs"].as_array().map(Vec::len), Some(5));
        let none = server.get(encoding, "/v1/jobs?state=dead").await;
        assert_eq!(none.body, json!({"jobs": [], "scanned": 0, "complete": true}));
    }
}

#[tokio::test]
async fn a_job_is_changed_cancelled_retried_and_deleted() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let id = push(&server, encoding, json!({"kind": "edit", "delay": "1h"})).await;
        let at = format!("/v1/jobs/{id}");
        let change = json!({"queue": "other", "priority": -3, "delay": "2h"});
        let changed = server.call(encoding, Method::PATCH, &at, Some(&change)).await;
        assert_eq!(changed.body, json!({"id": id, "state": "scheduled"}));
        let job = server.get(encoding, &at).await.body;
        assert_eq!((&job["queue"], &job["priority"]), (&json!("other"), &json!(-3)));

        let act = async |verb: &str| {
            server.call(encoding, Method::POST, &format!("{at}/{verb}"), None).await
        };
        assert_eq!(act("cancel").await.body["state"], "cancelled");
        assert_eq!(act("cancel").await.problem(), (409, "refused", None));
        assert_eq!(act("retry").await.body["state"], "ready");
        let gone = server.call(encoding, Method::DELETE, &at, None).await;
        assert_eq!((gone.status, gone.body), (StatusCode::OK, json!({"id": id})));
        assert_eq!(server.call(encoding, Method::DELETE, &at, None).await.problem().0, 404);
    }
}

#[tokio::test]
async fn a_running_job_is_asked_to_stop_and_cannot_be_deleted() {
    let server = Server::start().await;
    let encoding = BodyEncoding::Json;
    let id = push(&server, encoding, json!({"kind": "long"})).await;
    let job = fetch(&server, encoding, "long").await;
    let deleted = server.call(encoding, Method::DELETE, &format!("/v1/jobs/{id}"), None).await;
    assert_eq!(deleted.problem(), (409, "refused", None));
    let cancelled =
        server.call(encoding, Method::POST, &format!("/v1/jobs/{id}/cancel"), None).await;
    assert_eq!(cancelled.body["state"], "running");
    let held = json!({"jobs": [{"id": id, "delivery": job["delivery"]}]});
    let renewed = server.post(encoding, "/v1/renew", &held).await;
    assert_eq!(renewed.body["jobs"][0]["stop"], true);
    let report = json!({"jobs": [{"id": id, "delivery": job["delivery"], "outcome": "cancel"}]});
    let finished = server.post(encoding, "/v1/finish", &report).await;
    assert_eq!(finished.body["jobs"][0]["state"], "cancelled");
    let explained = server.get(encoding, &format!("/v1/jobs/{id}/explain")).await;
    assert_eq!(explained.body["reasons"][0]["reason"], "ended");
}

#[tokio::test]
async fn every_outcome_has_its_effect() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for (report, state, attempts) in [
            (json!({"outcome": "failed", "error": "no", "after": "1h"}), json!("scheduled"), 1),
            (json!({"outcome": "failed", "retry": false}), json!("dead"), 1),
            (json!({"outcome": "failed", "detail": {"a": 1}}), json!("scheduled"), 1),
            (json!({"outcome": "snooze", "after": "1h"}), json!("scheduled"), 0),
            (json!({"outcome": "cancel"}), json!("cancelled"), 1),
            (json!({"outcome": "interrupted"}), json!("ready"), 0),
        ] {
            let id = push(&server, encoding, json!({"kind": "out", "retry": {"base": "1h"}})).await;
            let job = fetch(&server, encoding, "out").await;
            assert_eq!(job["id"], json!(id));
            let mut one = report.clone();
            one["id"] = json!(id);
            one["delivery"] = job["delivery"].clone();
            let finished = server.post(encoding, "/v1/finish", &json!({"jobs": [one]})).await;
            assert_eq!(finished.body["jobs"][0]["state"], state, "{report} {finished:?}");
            let job = server.get(encoding, &format!("/v1/jobs/{id}")).await.body;
            assert_eq!(job["attempt"], json!(attempts), "{report}");
            server.call(encoding, Method::POST, &format!("/v1/jobs/{id}/cancel"), None).await;
        }
    }
}

#[tokio::test]
async fn costs_are_checked_settled_and_paused() {
    const JSON: BodyEncoding = BodyEncoding::Json;
    let server = Server::start().await;
    let limit = json!({"limit": "where kind = \"llm\" rate 100/1h cost payload.tokens"});
    let set = server.call(JSON, Method::PUT, "/v1/limits/tokens", Some(&limit)).await;
    assert_eq!(set.status, 200, "{set:?}");
    for (payload, what) in [
        (json!({}), "missing"),
        (json!({"tokens": -3}), "`-3` is negative"),
        (json!({"tokens": 101}), "`101` is above the burst"),
    ] {
        let job = json!({"kind": "llm", "payload": payload});
        let refused = server.post(JSON, "/v1/jobs", &job).await;
        let (_, code, field) = refused.problem();
        assert_eq!((code, field), ("cost-range", Some("payload.tokens")), "{refused:?}");
        assert!(refused.body.to_string().contains(what), "{refused:?}");
    }
    let costing = |tokens: u32| json!({"kind": "llm", "payload": {"tokens": tokens}});
    push(&server, JSON, costing(80)).await;
    let second = push(&server, JSON, costing(60)).await;
    let first = fetch(&server, JSON, "llm").await;
    let report = json!({"jobs": [{
        "id": first["id"], "delivery": first["delivery"], "outcome": "done", "costs": {"tokens": 40},
    }]});
    assert_eq!(server.post(JSON, "/v1/finish", &report).await.body["jobs"][0]["state"], "done");
    let job = fetch(&server, JSON, "llm").await;
    assert_eq!(job["id"], json!(second), "40 were given back");
    let report = json!({"jobs": [{
        "id": second, "delivery": job["delivery"], "outcome": "exhausted", "limit": "tokens", "after": "1h",
    }]});
    assert_eq!(server.post(JSON, "/v1/finish", &report).await.body["jobs"][0]["state"], "ready");
    let shown = server.get(JSON, "/v1/limits/tokens").await;
    assert_eq!(shown.body["paused"].as_array().map(Vec::len), Some(1), "{shown:?}");
    let why = server.get(JSON, &format!("/v1/jobs/{second}/explain")).await;
    assert!(why.body["reasons"].to_string().contains("limit-paused"), "{why:?}");
    let set = server.call(JSON, Method::PUT, "/v1/limits/tokens", Some(&limit)).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(fetch(&server, JSON, "llm").await["id"], json!(second), "the pause has ended");
    let unnamed =
        json!({"jobs": [{"id": "1", "delivery": "1", "outcome": "exhausted", "after": "1h"}]});
    assert_eq!(server.post(JSON, "/v1/finish", &unnamed).await.problem().1, "malformed");
}

#[tokio::test]
async fn follow_ups_are_pushed_with_the_report() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let id = push(&server, encoding, json!({"kind": "first"})).await;
        let job = fetch(&server, encoding, "first").await;
        let next = json!([{"kind": "second", "payload": [1]}]);
        let report =
            json!({"id": id, "delivery": job["delivery"], "outcome": "done", "on_done": next});
        let finished = server.post(encoding, "/v1/finish", &json!({"jobs": [report]})).await;
        let second = finished.body["jobs"][0]["pushed"][0]["id"].as_str().expect("an id");
        let second = server.get(encoding, &format!("/v1/jobs/{second}")).await.body;
        assert_eq!((&second["parent"], &second["payload"]), (&json!(id), &json!([1])));
    }
}

#[tokio::test]
async fn notes_are_kept_while_a_delivery_runs() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let id = push(&server, encoding, json!({"kind": "noted"})).await;
        let job = fetch(&server, encoding, "noted").await;
        let delivery = &job["delivery"];
        let notes = json!({"notes": [
            {"id": id, "delivery": delivery, "percent": 40, "text": "nearly"},
            {"id": id, "delivery": delivery, "text": "a line"},
            {"id": id, "delivery": "4711", "text": "of another delivery"},
        ]});
        let noted = server.post(encoding, "/v1/notes", &notes).await;
        assert_eq!(noted.body, json!({"kept": 2}));
        let kept = server.get(encoding, &format!("/v1/jobs/{id}/notes")).await.body;
        assert_eq!(kept["progress"]["percent"], 40);
        assert_eq!(kept["lines"][0]["text"], "a line");
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/jobs/4711/notes").await.problem().0, 404);
}

#[tokio::test]
async fn a_bulk_action_may_be_a_dry_run_and_needs_a_filter() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        for n in 0..3 {
            let job = json!({"kind": "many", "delay": "1h", "labels": {"n": n.to_string()}});
            push(&server, encoding, job).await;
        }
        let filter = json!({"kind": "many", "states": ["scheduled"]});
        let mut act = json!({"act": "cancel", "filter": filter, "dry_run": true});
        let counted = server.post(encoding, "/v1/jobs/act", &act).await;
        assert_eq!(counted.body, json!({"seen": 3, "matched": 3, "done": 3}));
        act["dry_run"] = json!(false);
        act["filter"]["labels"] = json!({"n": "1"});
        let done = server.post(encoding, "/v1/jobs/act", &act).await;
        assert_eq!(done.body, json!({"seen": 3, "matched": 1, "done": 1}));
        let all = json!({"act": "delete", "filter": {}});
        assert_eq!(server.post(encoding, "/v1/jobs/act", &all).await.problem().2, Some("filter"));
        let all = json!({"act": "delete", "filter": {"all": true}});
        assert_eq!(server.post(encoding, "/v1/jobs/act", &all).await.body["done"], 3);
    }
}

#[tokio::test]
async fn queues_are_paused_resumed_drained_and_configured() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        push(&server, encoding, json!({"kind": "k", "queue": "a/b c"})).await;
        let at = "/v1/queues/a%2Fb%20c";
        let act = async |verb: &str| {
            server.call(encoding, Method::POST, &format!("{at}/{verb}"), None).await
        };
        let paused = act("pause").await.body;
        assert_eq!((&paused["name"], &paused["paused"]), (&json!("a/b c"), &json!(true)));
        assert_eq!(fetch(&server, encoding, "a/b c").await, Value::Null);
        assert_eq!(act("resume").await.body["paused"], false);
        assert_eq!(act("drain?wait=1s").await.body, json!({"drained": true}));
        assert_eq!(server.get(encoding, at).await.body["paused"], true);
        let change = json!({"keep_done": "3h", "max_dead": 7});
        let changed = server.call(encoding, Method::PATCH, at, Some(&change)).await.body;
        assert_eq!((&changed["keep_done"], &changed["max_dead"]), (&json!("3h"), &json!(7)));
        assert_eq!(changed["paused"], true);
        let any = json!({"max_dead": null});
        let changed = server.call(encoding, Method::PATCH, at, Some(&any)).await.body;
        assert_eq!(changed.get("max_dead"), None);
        let queues = server.get(encoding, "/v1/queues").await.body;
        assert_eq!(queues["queues"][0]["name"], "a/b c");
        act("resume").await;
        let left = server.get(encoding, "/v1/counts?queue=a%2Fb%20c").await.body;
        assert_eq!(left["counts"][0]["state"], "ready");
        server
            .post(encoding, "/v1/jobs/act", &json!({"act": "delete", "filter": {"all": true}}))
            .await;
    }
}

#[tokio::test]
async fn queues_are_listed_in_pages() {
    let server = Server::start().await;
    let jobs: Vec<_> = (0..5).map(|n| json!({"kind": "k", "queue": format!("q{n}")})).collect();
    server.post(BodyEncoding::Json, "/v1/jobs", &json!({"jobs": jobs})).await;
    for speaks in BodyEncoding::BOTH {
        let whole = server.get(speaks, "/v1/queues").await.body;
        assert_eq!((whole["queues"].as_array().map(Vec::len), whole.get("next")), (Some(5), None));
        let (mut names, mut path) = (Vec::new(), "/v1/queues?limit=2".to_owned());
        let mut pages = Vec::new();
        loop {
            let page = server.get(speaks, &path).await.body;
            let queues = page["queues"].as_array().expect("queues");
            pages.push(queues.len());
            names.extend(queues.iter().map(|queue| queue["name"].clone()));
            let Some(next) = page.get("next") else { break };
            path = format!("/v1/queues?limit=2&cursor={}", next.as_str().expect("text"));
        }
        assert_eq!((names, pages), (vec_of(&["q0", "q1", "q2", "q3", "q4"]), vec![2, 2, 1]));
        for (query, code, field) in [
            ("limit=0", "count-range", "limit"),
            ("limit=1001", "count-range", "limit"),
            ("cursor=cTA", "cursor-invalid", "cursor"),
            ("n=1", "field-unknown", "n"),
        ] {
            let refused = server.get(speaks, &format!("/v1/queues?{query}")).await;
            assert_eq!(refused.problem(), (400, code, Some(field)), "{query}");
        }
    }
}

fn vec_of(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!(text)).collect()
}

#[tokio::test]
async fn a_queue_that_is_drained_while_the_server_drains_is_paused() {
    let server = Server::start().await;
    server.doors.close();
    for n in 0..20 {
        let path = format!("/v1/queues/q{n}/drain?wait=1s");
        let drained = server.call(BodyEncoding::Json, Method::POST, &path, None).await;
        assert_eq!(drained.status, StatusCode::OK);
        let queue = server.get(BodyEncoding::Json, &format!("/v1/queues/q{n}")).await;
        assert_eq!(queue.body["paused"], true, "q{n}: {drained:?}");
    }
}

#[tokio::test]
async fn schedules_are_set_shown_paused_and_removed() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let at = "/v1/schedules/nightly";
        let job = json!({"kind": "report", "payload": {"a": 1}, "labels": {"x": "y"}});
        let set =
            json!({"timing": "cron 0 3 * * * in Europe/Berlin", "missed": "once", "job": job});
        let shown = server.call(encoding, Method::PUT, at, Some(&set)).await;
        assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
        assert_eq!(
            (&shown.body["missed"], &shown.body["job"]["payload"]),
            (&json!("once"), &json!({"a": 1}))
        );
        assert!(shown.body["next_at"].is_string());
        let job = shown.body["job"].clone();
        let again = json!({"timing": shown.body["timing"], "job": job});
        let again = server.call(encoding, Method::PUT, at, Some(&again)).await;
        assert_eq!(again.body["job"], job, "the shown definition can be set again");
        let paused = server.call(encoding, Method::POST, &format!("{at}/pause"), None).await.body;
        assert_eq!((&paused["paused"], paused.get("next_at")), (&json!(true), None));
        let resumed = server.call(encoding, Method::POST, &format!("{at}/resume"), None).await.body;
        assert_eq!(resumed["paused"], false);
        let all = server.get(encoding, "/v1/schedules").await.body;
        assert_eq!(all["schedules"][0]["name"], "nightly");
        let gone = server.call(encoding, Method::DELETE, at, None).await;
        assert_eq!(gone.status, StatusCode::NO_CONTENT);
        assert_eq!(server.get(encoding, at).await.problem().0, 404);
        assert_eq!(
            server.call(encoding, Method::POST, &format!("{at}/pause"), None).await.status,
            404
        );
        let ticks = server.get(encoding, "/v1/preview?timing=every%2015m&n=3").await.body;
        assert_eq!(ticks["ticks"].as_array().map(Vec::len), Some(3));
    }
}

#[tokio::test]
async fn limits_are_set_hold_and_are_removed() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let at = "/v1/limits/one";
        let limit = json!({"limit": r#"where kind = "held" concurrency 1"#});
        let set = server.call(encoding, Method::PUT, at, Some(&limit)).await;
        assert_eq!(set.body, json!({"name": "one", "limit": limit["limit"], "waiting": 0}));
        assert_eq!(server.get(encoding, at).await.body, set.body);
        assert_eq!(server.get(encoding, "/v1/limits").await.body["limits"][0], set.body);
        let first = push(&server, encoding, json!({"kind": "held"})).await;
        let second = push(&server, encoding, json!({"kind": "held"})).await;
        let job = fetch(&server, encoding, "held").await;
        assert_eq!(job["id"], json!(first));
        assert_eq!(fetch(&server, encoding, "held").await, Value::Null);
        let why = server.get(encoding, &format!("/v1/jobs/{second}/explain")).await.body;
        assert_eq!(why["reasons"][0]["reason"], "limited", "{why}");
        assert_eq!(server.get(encoding, at).await.body["waiting"], 1);
        let done = json!({"jobs": [{"id": first, "delivery": job["delivery"], "outcome": "done"}]});
        server.post(encoding, "/v1/finish", &done).await;
        assert_eq!(server.call(encoding, Method::DELETE, at, None).await.status, 204);
        assert_eq!(server.get(encoding, at).await.problem().0, 404);
        server
            .post(encoding, "/v1/jobs/act", &json!({"act": "delete", "filter": {"all": true}}))
            .await;
    }
}

#[tokio::test]
async fn workers_register_and_leave() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let about = json!({"host": "a", "queues": ["x"]});
        let worker = json!({"about": about, "within": "1m"});
        let set = server.call(encoding, Method::PUT, "/v1/workers/w1", Some(&worker)).await;
        assert_eq!(set.status, StatusCode::NO_CONTENT, "{set:?}");
        let all = server.get(encoding, "/v1/workers").await.body;
        assert_eq!(
            (&all["workers"][0]["name"], &all["workers"][0]["about"]),
            (&json!("w1"), &about)
        );
        assert!(all["workers"][0]["until"].is_string());
        server.call(encoding, Method::DELETE, "/v1/workers/w1", None).await;
        assert_eq!(server.get(encoding, "/v1/workers").await.body, json!({"workers": []}));
    }
}

#[tokio::test]
async fn server_information_and_health_are_served() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let info = server.get(encoding, "/v1/info").await.body;
        assert_eq!((&info["name"], &info["durability"]), (&json!("crore"), &json!("D0")));
        push(&server, encoding, json!({"kind": "counted"})).await;
        let stats = server.get(encoding, "/v1/stats?series=pushed&step=hour").await;
        assert_eq!(
            (&stats.body["series"], &stats.body["step"]),
            (&json!("pushed"), &json!("hour"))
        );
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(server.get(BodyEncoding::Json, path).await.body, json!({"ok": true}));
    }
    server.doors.close();
    assert_eq!(server.get(BodyEncoding::Json, "/readyz").await.status, 503);
    assert_eq!(server.get(BodyEncoding::Json, "/livez").await.status, 200);
}

#[tokio::test]
async fn an_embedded_store_reports_its_durability() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = crore::Engine::open(dir.path()).expect("a store");
    let server = Server::start_on(engine, Default::default(), Default::default()).await;
    assert_eq!(server.get(BodyEncoding::Json, "/v1/info").await.body["durability"], "D2");
    assert_eq!(server.get(BodyEncoding::Json, "/readyz").await.status, 200);
}
