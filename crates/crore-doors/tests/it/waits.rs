//! Waiting for jobs, results and events, and clients that disconnect.

use std::time::Duration;

use crore::Engine;
use crore::core::machine::Outcome;
use crore::core::{Encoding, Name, Payload};
use crore::fetch::Fetch;
use crore::finish::Finish;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::server::{BodyEncoding, Server, eventually};

#[tokio::test]
async fn a_long_poll_is_woken_by_a_push() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let ask = json!({"queues": ["woken"], "worker": "w", "wait": "30s"});
        let push = async {
            until_waiting(&server, 1).await;
            server.post(encoding, "/v1/jobs", &json!({"kind": "woken", "payload": 7})).await
        };
        let (fetched, pushed) = tokio::join!(server.post(encoding, "/v1/fetch", &ask), push);
        assert_eq!(fetched.body["jobs"][0]["id"], pushed.body["id"]);
        assert_eq!(fetched.body["jobs"][0]["payload"], 7);
    }
}

async fn until_waiting(server: &Server, n: usize) {
    eventually(async || server.engine.deliveries().waiting() == n).await;
}

#[tokio::test]
async fn a_wait_returns_nothing_at_its_timeout() {
    let server = Server::start().await;
    let ask = json!({"queues": ["empty"], "wait": "20ms"});
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &ask).await;
    assert_eq!(fetched.body, json!({"jobs": []}));
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "slow"})).await;
    let id = pushed.body["id"].as_str().expect("an id");
    let result = server.get(BodyEncoding::Json, &format!("/v1/jobs/{id}/result?wait=20ms")).await;
    assert_eq!(result.status, StatusCode::ACCEPTED);
    assert_eq!(result.body, json!({"id": id, "ended": false, "state": "ready"}));
}

#[tokio::test]
async fn a_client_that_disconnects_takes_no_job() {
    let server = Server::start().await;
    let mut stream = server.connect().await;
    let body = r#"{"queues":["left"],"worker":"gone","wait":"60s"}"#;
    stream.write_all(request("POST", "/v1/fetch", body).as_bytes()).await.expect("written");
    until_waiting(&server, 1).await;
    drop(stream);
    until_waiting(&server, 0).await;
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "left"})).await;
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &json!({"queues": ["left"]})).await;
    assert_eq!(fetched.body["jobs"][0]["id"], pushed.body["id"]);
}

fn request(method: &str, path: &str, body: &str) -> String {
    let n = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {n}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn waiting_calls_get_the_result_and_only_one_gets_a_single_read_result() {
    let server = Server::start().await;
    for encoding in BodyEncoding::BOTH {
        let job = json!({"kind": "sum", "keep_result": "1h", "read_once": true});
        let id = server.post(encoding, "/v1/jobs", &job).await.body["id"]
            .as_str()
            .expect("an id")
            .to_owned();
        let at = format!("/v1/jobs/{id}/result?wait=30s");
        let work = async {
            let fetched = server.post(encoding, "/v1/fetch", &json!({"queues": ["sum"]})).await;
            let delivery = &fetched.body["jobs"][0]["delivery"];
            let report =
                json!({"id": id, "delivery": delivery, "outcome": "done", "result": {"n": 6}});
            server.post(encoding, "/v1/finish", &json!({"jobs": [report]})).await
        };
        let (ended, _) = tokio::join!(server.get(encoding, &at), work);
        let expected = json!({"id": id, "ended": true, "state": "done", "result": {"n": 6}});
        let mut body = ended.body;
        body.as_object_mut().expect("an object").remove("encoding");
        assert_eq!(body, expected);
        let again = server.get(encoding, &at).await.body;
        assert_eq!((again.get("result"), &again["state"]), (None, &json!("done")));
    }
    assert_eq!(server.get(BodyEncoding::Json, "/v1/jobs/4711/result").await.problem().0, 404);
}

#[tokio::test]
async fn a_result_during_shutdown_is_delivered_or_stays_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..10 {
        let engine = Engine::open(dir.path().join(round.to_string())).expect("opened");
        let server = Server::start_on(engine, <_>::default(), <_>::default()).await;
        let job = json!({"kind": "sum", "keep_result": "1h", "read_once": true});
        let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &job).await.body;
        let at = format!("/v1/jobs/{}/result", pushed["id"].as_str().expect("an id"));
        let work = async {
            let [queue, worker] = ["sum", "w"].map(|name| Name::new("name", name).expect("a name"));
            let jobs = server.engine.fetch(Fetch::new(queue, worker)).await.expect("fetched");
            eventually(async || server.engine.results().waiting() == 1).await;
            let result = Some(Payload::new(Encoding::Json, *b"6"));
            let done = Finish::of(&jobs[0], Outcome::Done { result });
            server.engine.finish(done).await.expect("reported");
            // The waiting client is taking the result now.
            server.doors.close();
        };
        let waiting = format!("{at}?wait=30s");
        let (response, ()) = tokio::join!(server.get(BodyEncoding::Json, &waiting), work);
        let left = server.get(BodyEncoding::Json, &at).await.body;
        let results: Vec<_> =
            [&response.body, &left].iter().filter_map(|body| body.get("result")).collect();
        assert_eq!(results, [6], "round {round}: {} and then {left}", response.body);
    }
}

/// A stream of events.
struct EventStream(BufReader<TcpStream>);

impl EventStream {
    async fn open(server: &Server, request: &str) -> Self {
        let mut stream = server.connect().await;
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut events = Self(BufReader::new(stream));
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            events.0.read_line(&mut line).await.expect("a head");
        }
        events
    }

    /// The next event: name and data; `None`: the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await.expect("a line") == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).expect("JSON")));
            }
        }
    }
}

fn listening(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: text/event-stream\r\n\r\n"
    )
}

#[tokio::test]
async fn listeners_get_events_at_once_and_slow_ones_the_number_missed() {
    let server = Server::start().await;
    let mut events = EventStream::open(&server, &listening("/v1/events?queue=heard")).await;
    server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "other"})).await;
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "heard"})).await;
    let id = pushed.body["id"].as_str().expect("an id");
    let (name, event) = events.next().await.expect("an event");
    assert_eq!(
        (name.as_str(), &event["id"], &event["what"]),
        ("job", &json!(id), &json!("pushed"))
    );
    server.call(BodyEncoding::Json, Method::POST, &format!("/v1/jobs/{id}/cancel"), None).await;
    let (_, event) = events.next().await.expect("an event");
    assert_eq!((&event["what"], &event["state"]), (&json!("became"), &json!("cancelled")));

    // A client that does not read while thousands of events occur receives the number it has missed.
    let mut slow = EventStream::open(&server, &listening("/v1/events?queue=many")).await;
    let batch =
        json!({"jobs": vec![json!({"kind": "many", "labels": {"x": "y".repeat(200)}}); 1000]});
    for _ in 0..60 {
        server.post(BodyEncoding::Msgpack, "/v1/jobs", &batch).await;
    }
    let mut received = 0;
    let missed = loop {
        let (name, event) = slow.next().await.expect("an event");
        match name.as_str() {
            "missed" => break event["n"].as_u64().expect("a number"),
            _ => received += 1,
        }
    };
    assert!(missed > 0 && received < 60_000, "{missed} {received}");
}

#[tokio::test]
async fn listeners_are_limited_and_a_closed_one_frees_its_place() {
    let options = crore_doors::Options {
        api: crore_api::Options { max_listeners: 1, ..Default::default() },
        ..Default::default()
    };
    let server = Server::start_with(options, Default::default()).await;
    let events = EventStream::open(&server, &listening("/v1/events")).await;
    let headers = [("accept", "text/event-stream")];
    let refused =
        server.send(BodyEncoding::Json, (Method::GET, "/v1/events"), &headers, Vec::new()).await;
    assert_eq!(refused.problem(), (429, "too-many", None));
    drop(events);
    // The server notices the disconnect at the next event.
    eventually(async || {
        server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "x"})).await;
        let mut stream = server.connect().await;
        stream.write_all(listening("/v1/events").as_bytes()).await.expect("written");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("a head");
        &head == b"HTTP/1.1 200"
    })
    .await;
}

#[tokio::test]
async fn a_bulk_action_reports_its_progress() {
    let server = Server::start().await;
    let batch = json!({"jobs": vec![json!({"kind": "many", "delay": "1h"}); 1000]});
    for _ in 0..3 {
        server.post(BodyEncoding::Json, "/v1/jobs", &batch).await;
    }
    let body = r#"{"act":"cancel","filter":{"kind":"many","states":["scheduled"]}}"#;
    let request = request("POST", "/v1/jobs/act", body)
        .replace("host: localhost", "host: localhost\r\naccept: text/event-stream");
    let mut events = EventStream::open(&server, &request).await;
    let mut names = Vec::new();
    let last = loop {
        let (name, event) = events.next().await.expect("an event");
        names.push(name.clone());
        if name == "done" {
            break event;
        }
    };
    assert_eq!(last, json!({"seen": 3000, "matched": 3000, "done": 3000}));
    assert!(names.len() >= 4 && names.starts_with(&["progress".to_owned()]), "{names:?}");
}

#[tokio::test]
async fn a_draining_server_ends_waits_and_accepts_reports() {
    let mut server = Server::start().await;
    server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "last"})).await;
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &json!({"queues": ["last"]})).await;
    let (id, delivery) = (&fetched.body["jobs"][0]["id"], &fetched.body["jobs"][0]["delivery"]);
    let mut events = EventStream::open(&server, &listening("/v1/events")).await;
    let ask = json!({"queues": ["nothing"], "wait": "60s"});
    let result = format!("/v1/jobs/{}/result?wait=60s", id.as_str().expect("an id"));
    let close = async {
        until_waiting(&server, 1).await;
        server.doors.close();
    };
    let (fetch, result, ()) = tokio::join!(
        server.post(BodyEncoding::Json, "/v1/fetch", &ask),
        server.get(BodyEncoding::Json, &result),
        close
    );
    assert_eq!(fetch.body, json!({"jobs": []}));
    assert_eq!(result.status, StatusCode::ACCEPTED);
    while events.next().await.is_some() {}

    // No new jobs are handed out, but running jobs can finish.
    server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": "more"})).await;
    let none = server.post(BodyEncoding::Json, "/v1/fetch", &json!({"queues": ["more"]})).await;
    assert_eq!(none.body, json!({"jobs": []}));
    let report = json!({"jobs": [{"id": id, "delivery": delivery, "outcome": "done"}]});
    let finished = server.post(BodyEncoding::Json, "/v1/finish", &report).await;
    assert_eq!(finished.body["jobs"][0]["state"], "done");

    let idle = server.connect().await;
    let stopping = server.stop();
    let ended = tokio::time::timeout(Duration::from_secs(5), stopping).await;
    ended.expect("in time").expect("no panic").expect("a success");
    drop(idle);
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_head_request_does_not_consume_the_result() {
    let server = Server::start().await;
    let job = json!({"kind": "sum", "keep_result": "1h", "read_once": true});
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &job).await;
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &json!({"queues": ["sum"]})).await;
    let (id, delivery) = (&pushed.body["id"], &fetched.body["jobs"][0]["delivery"]);
    let at = format!("/v1/jobs/{}/result?wait=30s", id.as_str().expect("an id"));
    assert_eq!(server.head_status(&at).await, StatusCode::ACCEPTED);
    let report = json!({"id": id, "delivery": delivery, "outcome": "done", "result": 6});
    server.post(BodyEncoding::Json, "/v1/finish", &json!({"jobs": [report]})).await;
    assert_eq!(server.head_status(&at).await, StatusCode::OK);
    assert_eq!(server.get(BodyEncoding::Json, &at).await.body["result"], 6);
}
