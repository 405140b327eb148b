//! Tokens that are restricted to queues and kinds, and the tokens to which jobs and groups belong.

use crore::core::{Handler, Name};
use crore_api::{Scope, access};
use crore_wire::api::tokens::NewToken;
use http::Method;
use serde_json::{Value, json};

use crate::server::{BodyEncoding, Server, ServerResponse};

/// A caller with a token.
struct Client<'a> {
    server: &'a Server,
    header: String,
}

impl<'a> Client<'a> {
    async fn new(server: &'a Server, name: &str, scopes: &[Scope]) -> Self {
        Self::restricted(server, name, scopes, &[], &[]).await
    }

    async fn restricted(
        server: &'a Server,
        name: &str,
        scopes: &[Scope],
        queues: &[&str],
        kinds: &[&str],
    ) -> Self {
        let owned = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let (queues, kinds) = (owned(queues), owned(kinds));
        let scopes = scopes.to_vec();
        let new = NewToken { name: name.to_owned(), scopes, queues, kinds, ..NewToken::default() };
        let (_, secret) = access::create(&server.engine, &new).await.expect("made");
        server.doors.api().access().tokens_changed();
        Self { server, header: format!("Bearer {}", secret.reveal()) }
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> ServerResponse {
        let json = BodyEncoding::Json;
        let headers =
            [("authorization", self.header.as_str()), ("content-type", json.media_type())];
        let body = if body.is_null() { Vec::new() } else { json.encode(&body) };
        self.server.send(json, (method, path), &headers, body).await
    }

    async fn get(&self, path: &str) -> ServerResponse {
        self.call(Method::GET, path, Value::Null).await
    }

    async fn post(&self, path: &str, body: Value) -> ServerResponse {
        self.call(Method::POST, path, body).await
    }

    /// Pushes a job whose kind is its queue, and returns its id.
    async fn push(&self, queue: &str) -> String {
        let pushed = self.post("/v1/jobs", job(queue)).await;
        pushed.body["id"].as_str().unwrap_or_else(|| panic!("{pushed:?}")).to_owned()
    }

    /// Fetches a job of a queue, and returns the start of a report about it.
    async fn fetch(&self, queue: &str) -> Value {
        let fetched = self.post("/v1/fetch", json!({"queues": [queue], "worker": "w"})).await;
        let job = &fetched.body["jobs"][0];
        json!({"id": job["id"], "delivery": job["delivery"], "outcome": "done"})
    }
}

fn job(queue: &str) -> Value {
    json!({"queue": queue, "kind": queue, "payload": 1, "keep_result": "1h"})
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

const ALL: [Scope; 5] = [Scope::Push, Scope::Work, Scope::Read, Scope::Operate, Scope::Define];

#[tokio::test]
async fn a_batch_is_stored_without_the_jobs_that_its_token_may_not_push() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let pushed =
        tenant.post("/v1/jobs", json!({"jobs": [job("mail"), job("sms"), job("mail-eu")]})).await;
    assert_eq!(pushed.status, 207, "{pushed:?}");
    let statuses: Vec<_> = (0..3).map(|n| pushed.body["jobs"][n]["status"].clone()).collect();
    assert_eq!(statuses, ["new", "refused", "new"]);
    let problem = &pushed.body["jobs"][1]["problem"];
    assert_eq!(problem["code"], "scope-missing");
    assert_eq!(problem["field"], "jobs[1].queue");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("`sms`") && detail.contains("`mail*`"), "{detail}");
    let alone = tenant.post("/v1/jobs", job("sms")).await;
    assert_eq!(alone.problem(), (403, "scope-missing", Some("queue")), "{alone:?}");
}

#[tokio::test]
async fn the_follow_up_of_a_missed_deadline_needs_push_for_its_queue() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let expiring = |queue: &str| {
        let mut expiring = job("mail");
        expiring["start_within"] = json!("1h");
        expiring["on_expired"] = job(queue);
        expiring
    };
    let refused = tenant.post("/v1/jobs", expiring("sms")).await;
    let problem = (&refused.body["code"], &refused.body["field"]);
    assert_eq!(problem, (&json!("scope-missing"), &json!("on_expired.queue")), "{refused:?}");
    let pushed = tenant.post("/v1/jobs", expiring("mail-late")).await;
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let schedule = |queue| json!({"timing": "every 1h", "job": expiring(queue)});
    let refused = tenant.call(Method::PUT, "/v1/schedules/s", schedule("sms")).await;
    assert_eq!(refused.body["code"], "scope-missing", "{refused:?}");
}

#[tokio::test]
async fn the_queue_that_a_handler_supplies_is_checked() {
    let server = Server::start().await;
    let mut handler = Handler::new(name("command"), serde_json::Map::new());
    handler.queue = name("secret");
    server.engine.handlers().set(name("report"), handler).await.expect("set");
    let tenant = Client::restricted(&server, "tenant", &ALL, &["default", "report"], &[]).await;
    let pushed = tenant.post("/v1/jobs", json!({"kind": "report", "payload": 1})).await;
    assert_eq!(pushed.problem(), (403, "scope-missing", Some("queue")), "{pushed:?}");
    let scheduled = json!({"timing": "every 1h", "job": {"kind": "report", "payload": 1}});
    let scheduled = tenant.call(Method::PUT, "/v1/schedules/x", scheduled).await;
    assert_eq!(scheduled.problem(), (403, "scope-missing", Some("job.queue")), "{scheduled:?}");
}

#[tokio::test]
async fn a_restricted_token_waits_only_for_its_own_jobs_and_groups() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let other = Client::new(&server, "other", &ALL).await;
    let (own, foreign) = (tenant.push("mail").await, other.push("sms").await);
    let made = json!({"jobs": [job("mail")], "groups": [{"open": true}]});
    let own_group = tenant.post("/v1/jobs", made.clone()).await.body["groups"][0].clone();
    let foreign_group = other.post("/v1/jobs", made).await.body["groups"][0].clone();
    let pushed = async |field: &str, value: Value| {
        let mut job = job("mail");
        job[field] = value;
        tenant.post("/v1/jobs", job).await
    };
    assert_eq!(pushed("after", json!([{"job": own}])).await.status, 201);
    assert_eq!(pushed("after", json!([{"group": own_group}])).await.status, 201);
    assert_eq!(pushed("group", json!({"id": own_group})).await.status, 201);
    for (field, value, at) in [
        ("after", json!([{"job": foreign}]), "after.queue"),
        ("after", json!([{"group": foreign_group.clone()}]), "after.group"),
        ("group", json!({"id": foreign_group}), "group"),
    ] {
        let refused = pushed(field, value).await;
        assert_eq!(refused.problem(), (403, "scope-missing", Some(at)), "{refused:?}");
    }
}

#[tokio::test]
async fn pages_of_queues_hold_those_within_the_restriction_only() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let other = Client::new(&server, "other", &ALL).await;
    for queue in ["a", "mail", "mail-eu", "mail-us", "mbox", "sms"] {
        other.push(queue).await;
    }
    let (mut path, mut pages) = ("/v1/queues?limit=2".to_owned(), Vec::new());
    loop {
        let Value::Object(page) = tenant.get(&path).await.body else { panic!("{path}") };
        let names = page["queues"].as_array().into_iter().flatten();
        pages.push(names.map(|queue| queue["name"].clone()).collect::<Vec<_>>());
        let Some(next) = page.get("next").and_then(Value::as_str) else { break };
        path = format!("/v1/queues?limit=2&cursor={next}");
    }
    assert_eq!(pages, [vec![json!("mail"), json!("mail-eu")], vec![json!("mail-us")]]);
}

#[tokio::test]
async fn bulk_acts_and_moves_stay_within_the_restriction() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let other = Client::new(&server, "other", &ALL).await;
    let own = tenant.push("mail").await;
    let foreign = other.push("sms").await;
    let cancelled = json!({"act": "cancel", "filter": {"all": true}});
    let cancelled = tenant.post("/v1/jobs/act", cancelled).await;
    assert_eq!(cancelled.body, json!({"seen": 1, "matched": 1, "done": 1}));
    assert_eq!(other.get(&format!("/v1/jobs/{foreign}")).await.body["state"], "ready");
    assert_eq!(other.get(&format!("/v1/jobs/{own}")).await.body["state"], "cancelled");
    let own = tenant.push("mail").await;
    let path = format!("/v1/jobs/{own}");
    let moved = tenant.call(Method::PATCH, &path, json!({"queue": "sms"})).await;
    assert_eq!(moved.problem(), (403, "scope-missing", Some("queue")), "{moved:?}");
    let moved = tenant.call(Method::PATCH, &path, json!({"queue": "mail-eu"})).await;
    assert_eq!(moved.status, 200, "{moved:?}");
}

#[tokio::test]
async fn an_operation_of_a_restricted_token_changes_and_shows_its_own() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail*"], &[]).await;
    let other = Client::new(&server, "other", &ALL).await;
    let (own, foreign) = (tenant.push("mail").await, other.push("sms").await);
    let request = json!({"act": "cancel", "filter": {"q": "state:ready"}});
    let preview = tenant.post("/v1/operations/preview", request.clone()).await;
    assert_eq!((&preview.body["scanned"], &preview.body["matched"]), (&json!(1), &json!(1)));
    let started = tenant.post("/v1/operations", request.clone()).await;
    let path = format!("/v1/operations/{}", started.body["id"].as_str().unwrap_or_default());
    let ended = tenant.get(&format!("{path}?wait=1m")).await;
    assert_eq!((&ended.body["state"], &ended.body["scanned"]), (&json!("done"), &json!(1)));
    assert_eq!(other.get(&format!("/v1/jobs/{own}")).await.body["state"], "cancelled");
    assert_eq!(other.get(&format!("/v1/jobs/{foreign}")).await.body["state"], "ready");
    let outside = json!({"act": "cancel", "filter": {"q": "queue:sms"}});
    let refused = tenant.post("/v1/operations", outside).await;
    assert_eq!(refused.problem(), (403, "scope-missing", Some("filter.q")), "{refused:?}");
    let started = other.post("/v1/operations", request).await;
    let path = format!("/v1/operations/{}", started.body["id"].as_str().unwrap_or_default());
    assert_eq!(other.get(&format!("{path}?wait=1m")).await.body["state"], "done");
    for (method, path) in [(Method::GET, path.clone()), (Method::POST, format!("{path}/cancel"))] {
        let hidden = tenant.call(method, &path, Value::Null).await;
        assert_eq!(hidden.problem(), (404, "not-found", None), "{hidden:?}");
    }
    let count = |listed: ServerResponse| listed.body["operations"].as_array().map(Vec::len);
    assert_eq!(count(tenant.get("/v1/operations").await), Some(1));
    assert_eq!(count(other.get("/v1/operations").await), Some(2));
}

#[tokio::test]
async fn a_page_is_filled_with_covered_jobs_and_leads_to_the_next() {
    let server = Server::start().await;
    let tenant = Client::restricted(&server, "tenant", &ALL, &["mail"], &[]).await;
    let other = Client::new(&server, "other", &ALL).await;
    let mut own = Vec::new();
    for _ in 0..5 {
        other.push("sms").await;
        own.push(tenant.push("mail").await);
        other.push("sms").await;
    }
    let (mut listed, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = tenant.get(&format!("/v1/jobs?limit=2{cursor}")).await;
        let jobs = page.body["jobs"].as_array().cloned().unwrap_or_default();
        listed.extend(jobs.iter().filter_map(|job| job["id"].as_str().map(ToOwned::to_owned)));
        let Some(next) = page.body["next"].as_str() else { break };
        assert!(jobs.len() == 2 || listed.len() == own.len(), "a full page: {page:?}");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(listed, own);
    let refused = tenant.get("/v1/jobs?queue=sms").await;
    assert_eq!(refused.problem(), (403, "scope-missing", Some("queue")));
    let refused = tenant.get("/v1/jobs?q=queue%3Amail,sms").await;
    assert_eq!(refused.problem(), (403, "scope-missing", Some("q")));
    for q in ["", "queue%3A*", "-queue%3Amail-eu", "kind%3Asms*,mail*"] {
        let found = tenant.get(&format!("/v1/jobs?q={q}")).await;
        let listed = found.body["jobs"].as_array().map(Vec::len);
        assert_eq!((listed, &found.body["scanned"]), (Some(5), &json!(5)), "{q}: {found:?}");
    }
}

#[tokio::test]
async fn follow_ups_in_a_report_need_push_for_their_queue() {
    let server = Server::start().await;
    let producer = Client::new(&server, "producer", &[Scope::Push, Scope::Read]).await;
    let worker = Client::new(&server, "worker", &[Scope::Work]).await;
    let both = [Scope::Work, Scope::Push];
    let pusher = Client::restricted(&server, "pusher", &both, &["mail*"], &[]).await;
    producer.push("mail").await;
    let mut report = worker.fetch("mail").await;
    report["on_done"] = json!([job("admin")]);
    let refused = worker.post("/v1/finish", json!({"jobs": [report]})).await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(refused.body["code"], "scope-missing");
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.contains("`push`")));
    let refused = pusher.post("/v1/finish", json!({"jobs": [report]})).await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (403, &json!("scope-missing")));
    report["on_done"] = json!([job("mail")]);
    let done = pusher.post("/v1/finish", json!({"jobs": [report]})).await;
    assert_eq!(done.body["jobs"][0]["pushed"][0]["status"], "new", "{done:?}");
    let counts = producer.get("/v1/counts?queue=admin").await;
    assert_eq!(counts.body["counts"], json!([]), "nothing was pushed");
}

#[tokio::test]
async fn a_result_is_for_readers_and_for_the_token_that_pushed_its_job() {
    let server = Server::start().await;
    let owner = Client::new(&server, "owner", &[Scope::Push]).await;
    let other = Client::new(&server, "other", &[Scope::Push]).await;
    let reader = Client::new(&server, "reader", &[Scope::Read]).await;
    let worker = Client::new(&server, "worker", &[Scope::Work, Scope::Push]).await;
    let id = owner.push("mail").await;
    let mut report = worker.fetch("mail").await;
    report["result"] = json!(42);
    report["on_done"] = json!([job("next")]);
    let done = worker.post("/v1/finish", json!({"jobs": [report]})).await;
    let follow_up = done.body["jobs"][0]["pushed"][0]["id"].as_str().expect("pushed").to_owned();
    for (id, allowed) in
        [(&id, [true, false, true, false]), (&follow_up, [true, false, true, true])]
    {
        for (client, allowed) in [&owner, &other, &reader, &worker].into_iter().zip(allowed) {
            let heard = client.get(&format!("/v1/jobs/{id}/result")).await;
            let code = heard.body["code"].as_str();
            assert_eq!(code != Some("scope-missing"), allowed, "{id} {heard:?}");
        }
    }
    assert_eq!(owner.get(&format!("/v1/jobs/{id}/result")).await.body["result"], 42);
    // A token that replaces another one under the same name owns its jobs.
    access::remove(&server.engine, "owner").await.expect("removed");
    let replaced = Client::new(&server, "owner", &[Scope::Push]).await;
    assert_eq!(replaced.get(&format!("/v1/jobs/{id}/result")).await.body["result"], 42);
}

#[tokio::test]
async fn a_group_is_sealed_and_joined_by_its_maker_or_an_operator() {
    let server = Server::start().await;
    let maker = Client::new(&server, "maker", &[Scope::Push]).await;
    let other = Client::new(&server, "other", &[Scope::Push]).await;
    let operator = Client::new(&server, "operator", &[Scope::Operate, Scope::Push]).await;
    for (client, allowed) in [(&maker, true), (&other, false), (&operator, true)] {
        let made = json!({"jobs": [job("mail")], "groups": [{"open": true}]});
        let group = maker.post("/v1/jobs", made).await.body["groups"][0].clone();
        let mut member = job("mail");
        member["group"] = json!({"id": group});
        let joined = client.post("/v1/jobs", member).await;
        assert_eq!(joined.status == 201, allowed, "{joined:?}");
        let path = format!("/v1/groups/{}/seal", group.as_str().expect("an id"));
        let sealed = client.post(&path, Value::Null).await;
        assert_eq!(sealed.status == 200, allowed, "{sealed:?}");
        if !allowed {
            assert_eq!(joined.problem(), (403, "scope-missing", Some("group")));
            assert_eq!(sealed.problem(), (403, "scope-missing", Some("group")));
        }
    }
}

#[tokio::test]
async fn restricted_tokens_are_shown_with_their_patterns_and_cannot_be_admins() {
    let server = Server::start().await;
    let json = BodyEncoding::Json;
    for (new, code, field) in [
        (json!({"name": "x", "preset": "admin", "queues": ["a"]}), "malformed", "scopes"),
        (json!({"name": "x", "scopes": ["push"], "queues": [""]}), "name-empty", "queues[0]"),
        (json!({"name": "x", "scopes": ["push"], "kinds": vec!["a"; 33]}), "count-range", "kinds"),
    ] {
        let answer = server.post(json, "/v1/tokens", &new).await;
        assert_eq!(answer.problem(), (400, code, Some(field)), "{new}");
    }
    let new = json!({"name": "x", "scopes": ["push"], "queues": ["mail*"], "kinds": ["*"]});
    let made = server.post(json, "/v1/tokens", &new).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.body["about"]["queues"], json!(["mail*"]));
    assert_eq!(made.body["about"].get("kinds"), None, "any kind");
}

#[tokio::test]
async fn readers_see_handlers_without_their_inline_secrets() {
    let server = Server::start().await;
    let reader = Client::new(&server, "reader", &[Scope::Read]).await;
    let definer = Client::new(&server, "definer", &[Scope::Read, Scope::Define]).await;
    let settings = json!({
        "url": "https://ada:pass@example.com/x",
        "headers": {"authorization": "Bearer hidden", "x-key": "env:CRORE_SECRET_KEY"},
    });
    let handler = json!({"runner": "http", "settings": settings});
    let path = "/v1/handlers/call";
    let set = definer.call(Method::PUT, path, handler).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(definer.get(path).await.body["settings"], settings);
    let shown = reader.get(path).await.body;
    let masked = json!({
        "url": "https://***@example.com/x",
        "headers": {"authorization": "***", "x-key": "env:CRORE_SECRET_KEY"},
    });
    assert_eq!(shown["settings"], masked);
    assert_eq!(reader.get("/v1/handlers").await.body["handlers"][0]["settings"], masked);
    // The masked settings do not overwrite the secret.
    let back = json!({"runner": "http", "settings": masked});
    let refused = definer.call(Method::PUT, path, back).await;
    let field = Some("settings.headers.authorization");
    assert_eq!(refused.problem(), (400, "malformed", field), "{refused:?}");
}

#[tokio::test]
async fn a_replay_needs_to_read_its_original_and_to_push_to_its_queue() {
    let server = Server::start().await;
    let other = Client::new(&server, "other", &ALL).await;
    let (mail, sms) = (other.push("mail").await, other.push("sms").await);
    let replay = |id: &str| format!("/v1/jobs/{id}/replay");
    let scope_missing = |heard: &ServerResponse| heard.problem().1 == "scope-missing";

    let pusher = Client::new(&server, "pusher", &[Scope::Push]).await;
    let refused = pusher.post(&replay(&mail), json!({})).await;
    assert!(scope_missing(&refused), "{refused:?}");
    let own = pusher.push("mail").await;
    let replayed = pusher.post(&replay(&own), json!({})).await;
    assert_eq!(replayed.status, 201, "{replayed:?}");
    // The replay belongs to its pusher.
    let id = replayed.body["id"].as_str().expect("an id");
    assert_eq!(pusher.get(&format!("/v1/jobs/{id}/result")).await.status, 202);

    let reader = Client::new(&server, "reader", &[Scope::Read, Scope::Operate]).await;
    assert!(scope_missing(&reader.post(&replay(&mail), json!({})).await));
    let all = json!({"act": "replay", "filter": {"q": "queue:mail"}});
    for path in ["/v1/operations", "/v1/operations/preview", "/v1/jobs/act"] {
        assert!(scope_missing(&reader.post(path, all.clone()).await), "{path}");
    }

    let bounded = Client::restricted(&server, "bounded", &ALL, &["mail*"], &[]).await;
    assert_eq!(bounded.post(&replay(&mail), json!({"queue": "mail2"})).await.status, 201);
    let refused = bounded.post(&replay(&mail), json!({"queue": "sms"})).await;
    assert!(scope_missing(&refused), "{refused:?}");
    assert!(scope_missing(&bounded.post(&replay(&sms), json!({"queue": "mail"})).await));
    let away = json!({"act": "replay", "filter": {"q": "queue:mail"}, "replay": {"queue": "sms"}});
    for path in ["/v1/operations", "/v1/operations/preview", "/v1/jobs/act"] {
        let refused = bounded.post(path, away.clone()).await;
        assert_eq!(
            (refused.problem().1, refused.problem().2),
            ("scope-missing", Some("replay.queue"))
        );
    }
    let everything = json!({"act": "replay", "filter": {"all": true}});
    let done = bounded.post("/v1/jobs/act", everything).await;
    assert_eq!(done.body["done"], 4, "the jobs in `mail` and `mail2`: {done:?}");
    let sms = other.get("/v1/queues/sms").await;
    assert_eq!(sms.body["counts"], json!({"ready": 1}));
}

#[tokio::test]
async fn a_job_shows_who_acted_on_it() {
    let server = Server::start().await;
    let ada = Client::new(&server, "ada", &ALL).await;
    let id = ada.push("mail").await;
    let path = format!("/v1/jobs/{id}");
    ada.call(Method::PATCH, &path, json!({"priority": 4})).await;
    let bulk = json!({"act": "cancel", "filter": {"queue": "mail"}});
    let started = ada.post("/v1/operations", bulk).await;
    let operation = started.body["id"].as_str().expect("an id").to_owned();
    ada.get(&format!("/v1/operations/{operation}?wait=1m")).await;
    let bob = Client::new(&server, "bob", &ALL).await;
    let retried = bob.post(&format!("{path}/retry"), Value::Null).await;
    assert_eq!(retried.status, 200, "{retried:?}");
    let shown = ada.get(&path).await.body;
    let actions = shown["actions"].as_array().expect("actions");
    let names: Vec<_> =
        actions.iter().map(|one| one["action"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["retry", "cancel", "edit"], "{shown}");
    let by = |n: usize| actions[n]["by"].as_str().unwrap_or_default();
    assert!(by(0).starts_with("token bob ("), "{shown}");
    assert!(by(1).starts_with(&format!("operation {operation} by token ada (")), "{shown}");
    assert!(by(2).starts_with("token ada ("), "{shown}");
    assert_eq!(actions[2]["detail"], "priority 4");
    let report = ada.fetch("mail").await;
    ada.post("/v1/finish", json!({"jobs": [report]})).await;
    let shown = ada.get(&path).await.body;
    assert!(shown["history"][0]["duration"].is_string(), "{shown}");
    let plain = ada.push("mail").await;
    assert_eq!(ada.get(&format!("/v1/jobs/{plain}")).await.body.get("actions"), None);
}
