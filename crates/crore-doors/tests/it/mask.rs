//! Masked fields (`access.mask`): no read returns their values, whatever the scopes; workers get them.

use crore_doors::{Options, listen};
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use http::Method;
use serde_json::{Value, json};

use crate::access::calls;
use crate::grpc::{connect, jobs};
use crate::raw::{request, send};
use crate::server::{BodyEncoding, Server, eventually};

const JSON: BodyEncoding = BodyEncoding::Json;
/// A value that must not be read.
const SECRET: &str = "4111-1111";

async fn server() -> Server {
    let mut options = Options::default();
    options.api.access.mask = vec!["card".parse().expect("a name")];
    Server::start_with(options, listen::Options::default()).await
}

/// Jobs, a schedule and an event with secrets; job 1 has failed.
async fn with_secrets() -> Server {
    let server = server().await;
    let secret = json!({"to": "ada", "order": {"Card": SECRET, "n": 1}});
    let on_expired = json!({"kind": "late", "payload": {"card": SECRET}});
    let job = json!({
        "kind": "k", "queue": "q", "payload": secret, "retry": {"max_attempts": 1}, "start_within": "1h",
        "on_expired": on_expired, "client_id": "mine",
    });
    assert_eq!(server.post(JSON, "/v1/jobs", &job).await.status, 201);
    let fetched = server.post(JSON, "/v1/fetch", &json!({"queues": ["q"], "worker": "w"})).await;
    let one = &fetched.body["jobs"][0];
    assert_eq!(one["payload"]["order"]["Card"], SECRET, "a worker gets the value");
    let report =
        json!({"id": one["id"], "delivery": one["delivery"], "outcome": "failed", "error": "no"});
    server.post(JSON, "/v1/finish", &json!({"jobs": [report]})).await;
    let packed = json!({"kind": "k", "queue": "q", "payload": {"card": [SECRET]}});
    server.post(BodyEncoding::Msgpack, "/v1/jobs", &packed).await;
    let event = json!({"payload": {"card": SECRET}, "keep": "1h"});
    server.post(JSON, "/v1/events/paid", &event).await;
    let waiting = json!({"kind": "k", "queue": "q", "wait_for": {"event": "paid"}});
    let pushed = server.post(JSON, "/v1/jobs", &waiting).await;
    let path = format!("/v1/jobs/{}", pushed.body["id"].as_str().expect("an id"));
    eventually(async || server.get(JSON, &path).await.body["event"].is_object()).await;
    assert_eq!(server.get(JSON, &path).await.body["event"]["payload"], json!({"card": "***"}));
    let schedule =
        json!({"timing": "every 2h", "job": {"queue": "q", "kind": "k", "payload": secret}});
    let set = server.call(JSON, Method::PUT, "/v1/schedules/nightly", Some(&schedule)).await;
    assert_eq!(set.status, 200, "{set:?}");
    server
}

#[tokio::test]
async fn no_read_returns_the_value_of_a_masked_field() {
    let server = with_secrets().await;
    let reads = calls(&server.doors).into_iter().filter(|call| call.method == "GET");
    // An event stream does not end.
    for call in reads.filter(|call| call.id != "events") {
        for id in ["1", "2", "3", "4"] {
            let path = call.path.replace("{id}", id).replace("{job_id}", id);
            let name = if path.contains("schedules") { "nightly" } else { "paid" };
            let path = path.replace("{name}", name).replace("{queue}", "q").replace("{kind}", "k");
            let path = path.replace("{fingerprint}", "0123456789abcdef");
            for encoding in BodyEncoding::BOTH {
                let accept = format!("accept: {}", encoding.media_type());
                let ask = request("GET", &path, server.address, &[&accept]);
                let heard = send(server.address, 1, &ask).await;
                assert!(!heard.body.contains(SECRET), "{path}: {heard:?}");
            }
        }
    }
    let job = server.get(JSON, "/v1/jobs/1").await.body;
    assert_eq!(job["payload"], json!({"to": "ada", "order": {"Card": "***", "n": 1}}));
    assert_eq!(job["on_expired"]["payload"], json!({"card": "***"}));
    assert_eq!(server.get(JSON, "/v1/jobs/2").await.body["payload"], json!({"card": "***"}));
    assert_eq!(server.get(JSON, "/v1/events/paid").await.body["payload"], json!({"card": "***"}));
    let schedule = server.get(JSON, "/v1/schedules/nightly").await.body;
    assert_eq!(schedule["job"]["payload"]["order"]["Card"], "***");
}

#[tokio::test]
async fn grpc_masks_too() {
    let server = with_secrets().await;
    let which = v1::JobRef { which: Some(v1::job_ref::Which::Id(1)) };
    let job = jobs(&server).await.get(which).await.expect("a job").into_inner();
    assert!(!format!("{job:?}").contains(SECRET), "{job:?}");
    let payload: Value = serde_json::from_slice(&job.payload.expect("a payload")).expect("JSON");
    assert_eq!(payload["order"]["Card"], "***");
    let mut admin = AdminClient::new(connect(&server).await);
    let schedules = admin.list_schedules(v1::Nothing {}).await.expect("schedules").into_inner();
    let payload =
        schedules.schedules[0].job.clone().and_then(|job| job.payload).expect("a payload");
    assert!(String::from_utf8_lossy(&payload).contains("***"));
    let named = v1::Named { name: "paid".to_owned() };
    let event = admin.get_event(named).await.expect("an event").into_inner();
    assert_eq!(event.payload.as_deref(), Some(&b"{\"card\":\"***\"}"[..]));
}

#[tokio::test]
async fn filters_indexes_and_keys_do_not_tell_the_value() {
    let server = with_secrets().await;
    let masked = |field| (400, "field-masked", Some(field));
    for q in ["payload.order.Card=4111-1111", "-payload.card~4", "payload.order.card>1"] {
        let q = q.replace('=', "%3D").replace('>', "%3E");
        let listed = server.get(JSON, &format!("/v1/jobs?q={q}")).await;
        assert_eq!(listed.problem(), masked("q"), "{listed:?}");
    }
    let act = json!({"act": "cancel", "filter": {"q": "payload.card=1"}});
    for path in ["/v1/jobs/act", "/v1/operations", "/v1/operations/preview"] {
        let refused = server.post(JSON, path, &act).await;
        assert_eq!(refused.problem(), masked("filter.q"), "{path}: {refused:?}");
    }
    for (path, method, body, field) in [
        ("/v1/queues/q", Method::PATCH, json!({"index": ["payload.order.card"]}), "index"),
        ("/v1/queues/q", Method::PATCH, json!({"fair": {"by": "payload.card"}}), "fair.by"),
        ("/v1/limits/l", Method::PUT, json!({"limit": "rate 5/1m per payload.card"}), "limit"),
        (
            "/v1/limits/l",
            Method::PUT,
            json!({"limit": "where payload.card = 1 rate 5/1m"}),
            "limit",
        ),
    ] {
        let refused = server.call(JSON, method, path, Some(&body)).await;
        assert_eq!(refused.problem(), masked(field), "{body}: {refused:?}");
    }
    for q in ["payload.", "payload.order.", "payload.order.Card%3D"] {
        let found = server.get(JSON, &format!("/v1/complete?q={q}")).await;
        let text = found.body.to_string();
        assert!(!text.contains("Card=") && !text.contains(SECRET), "{text}");
    }
}

#[tokio::test]
async fn a_mask_that_is_sent_back_stands_for_the_value() {
    let server = with_secrets().await;
    let edited =
        json!({"payload": {"to": "eve", "order": {"Card": "***", "n": 2}}, "queue": "other"});
    let replayed = server.post(JSON, "/v1/jobs/1/replay", &edited).await;
    assert_eq!(replayed.status, 201, "{replayed:?}");
    let fetch = json!({"queues": ["other"], "worker": "w"});
    let fetched = server.post(JSON, "/v1/fetch", &fetch).await;
    let payload = &fetched.body["jobs"][0]["payload"];
    assert_eq!(*payload, json!({"to": "eve", "order": {"Card": SECRET, "n": 2}}));
    // In another queue it is masked as well, so that moving a job reveals nothing.
    let id = fetched.body["jobs"][0]["id"].as_str().expect("an id");
    let shown = server.get(JSON, &format!("/v1/jobs/{id}")).await.body;
    assert_eq!(shown["payload"]["order"]["Card"], "***");
    let mut schedule = server.get(JSON, "/v1/schedules/nightly").await.body;
    let job = schedule["job"].take();
    let body = json!({"timing": "every 3h", "job": job});
    let set = server.call(JSON, Method::PUT, "/v1/schedules/nightly", Some(&body)).await;
    assert_eq!(set.status, 200, "{set:?}");
    let ran = server.post(JSON, "/v1/schedules/nightly/run", &json!({})).await;
    assert_eq!(ran.status, 201, "{ran:?}");
    let fetch = json!({"queues": ["q"], "n": 10, "worker": "w"});
    let fetched = server.post(JSON, "/v1/fetch", &fetch).await;
    let jobs = fetched.body["jobs"].as_array().cloned().unwrap_or_default();
    let run = jobs.iter().find(|job| job["id"] == ran.body["id"]).expect("the run");
    assert_eq!(run["payload"]["order"]["Card"], SECRET);
}
