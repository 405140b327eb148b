//! Slow responses on HTTP/1.1 connections, for which the server drops the state of the request.

use std::time::Duration;

use crore_core::Span;
use crore_doors::{Options, listen};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use crate::server::{BodyEncoding, Server, eventually};

/// Three times the slow limit. The drop itself is not visible from outside.
async fn slow_delay() {
    sleep_until(Instant::now() + Duration::from_millis(300)).await;
}

fn fetch(first_line: &str, queue: &str) -> String {
    let body = format!(r#"{{"queues":["{queue}"],"wait":"60s"}}"#);
    let n = body.len();
    let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: ";
    format!("{first_line}\r\n{head}{n}\r\n\r\n{body}")
}

const POST: &str = "POST /v1/fetch HTTP/1.1";
const LIVEZ_REQUEST: &str = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection, and received bytes that are not parsed yet.
struct LongPollConnection {
    stream: TcpStream,
    received: String,
}

impl LongPollConnection {
    async fn open(server: &Server) -> Self {
        Self { stream: server.connect().await, received: String::new() }
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("written");
    }

    /// Sends a fetch, and returns when the server has been waiting for longer than the slow limit.
    async fn poll(&mut self, server: &Server, request: &str) {
        self.say(request).await;
        eventually(async || server.engine.deliveries().waiting() == 1).await;
        slow_delay().await;
        assert_eq!(server.engine.deliveries().waiting(), 1);
    }

    /// Head and body of the next response.
    async fn answer(&mut self) -> (String, String) {
        loop {
            if let Some((head, rest)) = self.received.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length = length.map_or(0, |length| length.parse().expect("a length"));
                if rest.len() >= length {
                    let (body, rest) = rest.split_at(length);
                    let answer = (head.to_owned(), body.to_owned());
                    self.received = rest.to_owned();
                    return answer;
                }
            }
            let mut bytes = vec![0; 4096];
            let reading = timeout(Duration::from_secs(5), self.stream.read(&mut bytes));
            let n = reading.await.expect("in time").expect("read");
            assert!(n > 0, "closed after {}", self.received);
            bytes.truncate(n);
            self.received.push_str(std::str::from_utf8(&bytes).expect("a text"));
        }
    }

    async fn job(&mut self, kind: &str) -> String {
        let (head, body) = self.answer().await;
        let is_job = head.starts_with("HTTP/1.") && body.contains(&format!("\"kind\":\"{kind}\""));
        assert!(is_job && head.contains(" 200 OK"), "{head} {body}");
        head
    }

    async fn is_closed(&mut self) -> bool {
        let mut bytes = Vec::new();
        let reading = timeout(Duration::from_secs(5), self.stream.read_to_end(&mut bytes));
        reading.await.expect("closed in time").is_ok()
            && bytes.is_empty()
            && self.received.is_empty()
    }
}

async fn push(server: &Server, kind: &str) {
    let pushed = server.post(BodyEncoding::Json, "/v1/jobs", &json!({"kind": kind})).await;
    assert_eq!(pushed.status.as_u16(), 201);
}

#[tokio::test]
async fn a_connection_stays_open_after_slow_responses() {
    let server = Server::start().await;
    let mut connection = LongPollConnection::open(&server).await;
    for kept in ["", "\r\nconnection: Keep-Alive"] {
        connection.poll(&server, &fetch(&format!("{POST}{kept}"), "one")).await;
        push(&server, "one").await;
        assert!(!connection.job("one").await.contains("connection: close"));
        connection.say(LIVEZ_REQUEST).await;
        assert!(connection.answer().await.0.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_after_a_slow_one() {
    let server = Server::start().await;
    let mut connection = LongPollConnection::open(&server).await;
    // One request is pipelined with the fetch, others follow while it waits.
    connection.poll(&server, &format!("{}{LIVEZ_REQUEST}", fetch(POST, "one"))).await;
    connection.say(LIVEZ_REQUEST).await;
    slow_delay().await;
    connection.say(&fetch(POST, "two")).await;
    slow_delay().await;
    push(&server, "one").await;
    connection.job("one").await;
    for _ in 0..2 {
        assert!(connection.answer().await.0.starts_with("HTTP/1.1 200"));
    }
    push(&server, "two").await;
    connection.job("two").await;
}

#[tokio::test]
async fn a_request_may_arrive_in_pieces() {
    let server = Server::start().await;
    let mut connection = LongPollConnection::open(&server).await;
    let request = fetch(POST, "one");
    let (start, end) = request.split_at(request.len() - 5);
    for _ in 0..2 {
        connection.say(start).await;
        slow_delay().await;
        assert_eq!(server.engine.deliveries().waiting(), 0);
        connection.poll(&server, end).await;
        push(&server, "one").await;
        connection.job("one").await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_slow_fetch_takes_no_job() {
    let server = Server::start().await;
    let mut connection = LongPollConnection::open(&server).await;
    connection.poll(&server, &fetch(POST, "left")).await;
    drop(connection);
    eventually(async || server.engine.deliveries().waiting() == 0).await;
    push(&server, "left").await;
    let fetched = server.post(BodyEncoding::Json, "/v1/fetch", &json!({"queues": ["left"]})).await;
    assert_eq!(fetched.body["jobs"][0]["kind"], "left");
}

#[tokio::test]
async fn no_request_is_served_after_the_last_of_its_connection() {
    let server = Server::start().await;
    let chunked = "POST /v1/fetch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                   transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n\
                   1f\r\n{\"queues\":[\"one\"],\"wait\":\"60s\"}\r\n0\r\n\r\n";
    for request in [
        fetch("POST /v1/fetch HTTP/1.0", "one"),
        fetch(&format!("{POST}\r\nconnection: close"), "one"),
        chunked.to_owned(),
    ] {
        let mut connection = LongPollConnection::open(&server).await;
        connection.poll(&server, &format!("{request}{LIVEZ_REQUEST}")).await;
        push(&server, "one").await;
        connection.job("one").await;
        assert!(connection.is_closed().await, "{request}");
    }
}

#[tokio::test]
async fn a_connection_over_its_maximum_age_closes_after_its_pending_response() {
    let max_age = Span::from_secs(1);
    let listening = listen::Options { max_age, ..listen::Options::default() };
    let server = Server::start_with(Options::default(), listening).await;
    let mut connection = LongPollConnection::open(&server).await;
    connection.say(&fetch(POST, "one")).await;
    eventually(async || server.engine.deliveries().waiting() == 1).await;
    sleep_until(Instant::now() + Duration::from_millis(1100)).await;
    push(&server, "one").await;
    assert!(connection.job("one").await.contains("connection: close"));
    assert!(connection.is_closed().await);
}

#[tokio::test]
async fn a_stop_waits_a_limited_time_for_a_slow_response() {
    let mut server = Server::start().await;
    let mut connection = LongPollConnection::open(&server).await;
    connection.poll(&server, &fetch(POST, "q")).await;
    let stopping = server.stop();
    slow_delay().await;
    server.engine.push("q", "x").await.expect("it is stored");
    let (head, body) = connection.answer().await;
    assert!(head.contains("connection: close") && body.contains("\"jobs\":[{"), "{head} {body}");
    assert!(connection.is_closed().await);
    stopping.await.expect("no panic").expect("a success");

    let drain_time = Span::from_millis(100);
    let listening = listen::Options { drain_time, ..listen::Options::default() };
    let mut server = Server::start_with(Options::default(), listening).await;
    let mut connection = LongPollConnection::open(&server).await;
    connection.poll(&server, &fetch(POST, "q")).await;
    server.stop().await.expect("no panic").expect("a success");
    assert!(connection.is_closed().await);
    eventually(async || server.engine.deliveries().waiting() == 0).await;
}
