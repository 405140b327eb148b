//! Invalid calls: refused with a status, the connection stays open, and nothing is stored.

use std::time::Duration;

use crore_doors::{Options, listen};
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::work_client::WorkClient;
use crore_wire::units::Size;
use http::Version;
use tokio::sync::mpsc;
use tonic::Code;

use super::frames::{RawConnection, frame, framed, request};
use super::{Worker, WorkerMessages, connect, hello, job, jobs, problem, push};
use crate::server::Server;

const PUSH: &str = "/crore.v1.Jobs/Push";
const GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

fn one() -> v1::PushRequest {
    v1::PushRequest { jobs: vec![job("mail")], ..v1::PushRequest::default() }
}

#[tokio::test]
async fn a_message_that_would_expand_too_much_is_refused_undecoded() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    // Empty jobs and empty reports.
    for (path, field) in [(PUSH, "jobs"), ("/crore.v1.Work/Finish", "jobs")] {
        let bytes = frame(0, &[0x0a, 0].repeat(1 << 20));
        let response = connection.send(request(&server, "POST", path, &GRPC, bytes)).await;
        assert_eq!(response.grpc(), Some(Code::ResourceExhausted as i32), "{response:?}");
        let message = response.header("grpc-message").unwrap_or_default();
        assert!(message.starts_with(&format!("{field}:")), "{response:?}");
    }
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    let finish = vec![v1::Report::default(); 1 << 20];
    worker.says.send(v1::WorkerSays { finish, ..v1::WorkerSays::default() }).await.expect("sent");
    let status = worker.hears.message().await.expect_err("it is over");
    assert_eq!(
        (status.code(), problem(&status).field.as_str()),
        (Code::ResourceExhausted, "finish")
    );
    assert_eq!(stored(&server).await, 0);
    push(&server, "mail", 1).await;
}

#[tokio::test]
async fn invalid_fields_are_named_as_in_the_messages() {
    let server = Server::start().await;
    let retry = |retry| v1::NewJob { retry: Some(retry), ..job("mail") };
    let (usual, long) = (v1::Retry::default(), Some(u64::MAX));
    let constant = v1::Backoff::Constant.into();
    let window = v1::Unique { key: "k".to_owned(), window_ms: Some(0), ..v1::Unique::default() };
    let due = v1::new_job::When::DueMs(i64::MAX);
    let delay = v1::new_job::When::DelayMs(u64::MAX);
    let rows = [
        ("kind", job("")),
        ("queue", v1::NewJob { queue: "a\0".to_owned(), ..job("mail") }),
        ("payload", v1::NewJob { payload: Some("{".into()), ..job("mail") }),
        ("lease_ms", v1::NewJob { lease_ms: Some(1), ..job("mail") }),
        ("timeout_ms", v1::NewJob { timeout_ms: long, ..job("mail") }),
        ("when", v1::NewJob { when: Some(due), ..job("mail") }),
        ("when", v1::NewJob { when: Some(delay), ..job("mail") }),
        ("keep_result_ms", v1::NewJob { keep_result_ms: Some(0), ..job("mail") }),
        ("unique.window_ms", v1::NewJob { unique: Some(window), ..job("mail") }),
        ("unique.key", v1::NewJob { unique: Some(v1::Unique::default()), ..job("mail") }),
        ("client_id", v1::NewJob { client_id: "x".repeat(257), ..job("mail") }),
        ("retry.max_attempts", retry(v1::Retry { max_attempts: Some(1001), ..usual })),
        ("retry.max_interval_ms", retry(v1::Retry { max_interval_ms: long, ..usual })),
        ("retry.jitter", retry(v1::Retry { jitter: Some(101), ..usual })),
        ("retry.base_ms", retry(v1::Retry { backoff: constant, base_ms: long, ..usual })),
        ("retry.factor", retry(v1::Retry { factor: Some(0.5), ..usual })),
    ];
    let (fields, jobs_): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let ask = v1::PushRequest { jobs: jobs_, ..v1::PushRequest::default() };
    let answers = jobs(&server).await.push(ask).await.expect("answered").into_inner().jobs;
    for (n, (field, answer)) in fields.iter().zip(answers).enumerate() {
        let problem = answer.problem.expect(field);
        assert_eq!(problem.field, format!("jobs[{n}].{field}"), "{problem:?}");
    }
}

/// Number of stored jobs.
async fn stored(server: &Server) -> u64 {
    server.engine.jobs().counts(None).await.expect("counted").iter().map(|count| count.n).sum()
}

#[tokio::test]
async fn malformed_messages_are_refused_and_the_connection_stays_open() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    let unreadable = Code::InvalidArgument as i32;
    let nested = |n: usize| [vec![0x0b; n], vec![0x0c; n]].concat();
    let rows: &[(&str, Vec<u8>, &[i32])] = &[
        ("nothing at all", Vec::new(), &[unreadable]),
        ("half a length", vec![0, 0, 0], &[unreadable]),
        ("fewer bytes than declared", [&frame(0, b"1234567")[..5], b"123"].concat(), &[unreadable]),
        ("a flag that is none", frame(2, &[]), &[unreadable]),
        ("compressed by nothing", frame(1, &[]), &[unreadable]),
        ("4 GiB", vec![0, 0xff, 0xff, 0xff, 0xff], &[Code::OutOfRange as i32]),
        (
            "a varint without end",
            frame(0, &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            &[unreadable],
        ),
        (
            "2^63 bytes",
            frame(0, &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            &[unreadable],
        ),
        ("a field that is cut off", frame(0, &[0x0a, 5, 1]), &[unreadable]),
        ("wire type 7", frame(0, &[0x0f]), &[unreadable]),
        ("field 0", frame(0, &[0x02, 0]), &[unreadable]),
        ("a group without end", frame(0, &[0x7b]), &[unreadable]),
        ("a group's end without its start", frame(0, &[0x7c]), &[unreadable]),
        ("groups 200 deep", frame(0, &nested(200)), &[unreadable]),
        ("a text that is no UTF-8", frame(0, &[0x0a, 4, 0x0a, 2, 0xff, 0xfe]), &[unreadable]),
        ("a number where a message is due", frame(0, &[0x08, 1]), &[unreadable]),
    ];
    for (what, bytes, expected) in rows {
        let response = connection.send(request(&server, "POST", PUSH, &GRPC, bytes.clone())).await;
        assert_eq!(response.status, 200, "{what}");
        assert!(
            response.grpc().is_some_and(|code| expected.contains(&code)),
            "{what}: {response:?}"
        );
        if *expected == [unreadable] {
            let problem = response.problem().expect("details");
            assert_eq!(problem.code, "malformed", "{what}");
            assert!(problem.message.starts_with("the message cannot be read: "), "{problem:?}");
        }
    }
    assert_eq!(stored(&server).await, 0);
    // Unknown fields are ignored, as protobuf requires.
    let mut newer = prost::Message::encode_to_vec(&one());
    newer.extend([0xfa, 0x07, 3, b'n', b'e', b'w']);
    let response = connection.send(request(&server, "POST", PUSH, &GRPC, frame(0, &newer))).await;
    assert_eq!((response.grpc(), stored(&server).await), (Some(0), 1));
}

#[tokio::test]
async fn meaningless_headers_are_refused_or_ignored() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    let kind = |kind| [("content-type", kind), ("te", "trailers")];
    for (method, headers) in [
        ("POST", kind("application/json")),
        ("POST", kind("application/grpc+json")),
        ("POST", kind("application/grpcx")),
        ("POST", kind("application/grpc-web+json")),
        ("GET", kind("application/grpc")),
        ("PUT", kind("application/grpc")),
        ("OPTIONS", kind("application/grpc")),
    ] {
        let response =
            connection.send(request(&server, method, PUSH, &headers, framed(&one()))).await;
        assert_eq!(response.status, 415, "{method} {headers:?}: {response:?}");
        let body = String::from_utf8_lossy(&response.body).into_owned();
        assert!(body.contains("media-type"), "{body}");
    }
    // gRPC requires HTTP/2.
    let mut old = RawConnection::open(&server, Version::HTTP_11).await;
    assert_eq!(old.send(request(&server, "POST", PUSH, &GRPC, framed(&one()))).await.status, 415);
    for encoding in ["zstd", "gzip", "x-no-such"] {
        let headers = [GRPC[0], GRPC[1], ("grpc-encoding", encoding)];
        let response =
            connection.send(request(&server, "POST", PUSH, &headers, frame(1, b"?"))).await;
        assert_eq!(response.grpc(), Some(Code::Unimplemented as i32), "{encoding}");
    }
    assert_eq!(stored(&server).await, 0);
    let timeouts =
        ["99999999H", "0n", "-1S", "S", "", "1", "1S1S", "999999999999999999999S", "\u{7e}"];
    for (n, timeout) in timeouts.into_iter().enumerate() {
        let headers = [GRPC[0], GRPC[1], ("grpc-timeout", timeout)];
        let response =
            connection.send(request(&server, "POST", PUSH, &headers, framed(&one()))).await;
        assert_eq!(response.grpc(), Some(0), "{timeout}: {response:?}");
        assert_eq!(stored(&server).await, n as u64 + 1);
    }
    let response =
        connection.send(request(&server, "POST", PUSH, &[GRPC[0]], framed(&one()))).await;
    assert_eq!(response.grpc(), Some(0), "`te` is for proxies");
}

#[tokio::test]
async fn messages_have_the_size_limit_of_bodies() {
    let options = Options {
        api: crore_api::Options { max_body: Size(64 << 10), ..Default::default() },
        ..Options::default()
    };
    let server = Server::start_with(options, listen::Options::default()).await;
    let mut client = jobs(&server).await;
    let sized = |n: usize| v1::PushRequest {
        jobs: vec![v1::NewJob {
            payload: Some(vec![b'x'; n].into()),
            encoding: v1::Encoding::Bytes.into(),
            ..job("mail")
        }],
        ..v1::PushRequest::default()
    };
    client.push(sized(60 << 10)).await.expect("it fits");
    let status = client.push(sized(70 << 10)).await.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange);
    client.push(sized(1)).await.expect("the connection goes on");
    assert_eq!(stored(&server).await, 2);
}

#[tokio::test]
async fn unknown_enum_values_are_refused_with_their_field() {
    let server = Server::start().await;
    let bad = [
        ("encoding", v1::NewJob { encoding: 77, ..job("mail") }),
        ("encoding", v1::NewJob { encoding: -1, ..job("mail") }),
        ("retain", v1::NewJob { retain: 9, ..job("mail") }),
        ("retry.backoff", {
            let retry = v1::Retry { backoff: 99, ..v1::Retry::default() };
            v1::NewJob { retry: Some(retry), ..job("mail") }
        }),
        ("unique.hold", {
            let unique = v1::Unique { key: "k".into(), hold: 55, window_ms: None };
            v1::NewJob { unique: Some(unique), ..job("mail") }
        }),
        ("lease", v1::NewJob { lease_ms: Some(0), ..job("mail") }),
        ("lease", v1::NewJob { lease_ms: Some(u64::MAX), ..job("mail") }),
        ("when", v1::NewJob { when: Some(v1::new_job::When::DueMs(i64::MAX)), ..job("mail") }),
        ("when", v1::NewJob { when: Some(v1::new_job::When::DelayMs(u64::MAX)), ..job("mail") }),
        ("retry.max", {
            let retry = v1::Retry { max_attempts: Some(u32::MAX), ..v1::Retry::default() };
            v1::NewJob { retry: Some(retry), ..job("mail") }
        }),
        ("kind", v1::NewJob { kind: "x".repeat(256), ..job("mail") }),
        ("queue", v1::NewJob { queue: "a\r\nb".into(), ..job("mail") }),
    ];
    let fields: Vec<_> = bad.iter().map(|(field, _)| *field).collect();
    let ask = v1::PushRequest {
        jobs: bad.into_iter().map(|(_, job)| job).collect(),
        ..v1::PushRequest::default()
    };
    let response = jobs(&server).await.push(ask).await.expect("answered").into_inner();
    for (n, (field, pushed)) in fields.iter().zip(&response.jobs).enumerate() {
        let problem = pushed.problem.as_ref().expect("refused");
        assert!(problem.field.starts_with(&format!("jobs[{n}].{field}")), "{field}: {problem:?}");
        assert!(!problem.code.is_empty() && problem.message.len() < 300, "{problem:?}");
    }
    assert_eq!((response.refused as usize, stored(&server).await), (fields.len(), 0));
    let ask = v1::ListRequest { state: 99, ..v1::ListRequest::default() };
    let status = jobs(&server).await.list(ask).await.expect_err("no state");
    assert_eq!((status.code(), problem(&status).field.as_str()), (Code::InvalidArgument, "state"));
}

#[tokio::test]
async fn zero_or_too_many_slots_end_a_stream_and_return_its_jobs() {
    let server = Server::start().await;
    for n in [0, 1 << 31, u32::MAX] {
        let mut worker = Worker::start(&server, hello("mail", 1, &format!("worker {n}"))).await;
        let id = push(&server, "mail", 1).await[0];
        worker.jobs().await;
        let says = v1::WorkerSays { slots: Some(n), ..v1::WorkerSays::default() };
        worker.says.send(says).await.expect("sent");
        let status = worker.hears.message().await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(problem(&status).field, "slots");
        let mut other = Worker::start(&server, hello("mail", 1, &format!("other {n}"))).await;
        let jobs = other.jobs().await;
        assert_eq!((jobs[0].id, jobs[0].attempt), (id, 1));
        other.done(&jobs).await;
    }
}

#[tokio::test]
async fn a_stream_that_never_says_hello_is_ended() {
    let server = Server::start().await;
    let (_says, to_say) = mpsc::channel(1);
    let mut client = WorkClient::new(connect(&server).await);
    let mut responses = client.stream(WorkerMessages(to_say)).await.expect("a stream").into_inner();
    // From here on, tokio advances the clock when all tasks are idle.
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let status = responses.message().await.expect_err("ended");
    assert_eq!(
        (status.code(), problem(&status).code.as_str()),
        (Code::DeadlineExceeded, "too-slow")
    );
    assert!(begun.elapsed() <= Duration::from_secs(11), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_second_hello_and_a_missing_hello_end_a_stream() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    let again = hello("mail", 1, "one");
    let says = v1::WorkerSays { hello: Some(again), ..v1::WorkerSays::default() };
    worker.says.send(says).await.expect("sent");
    let status = worker.hears.message().await.expect_err("refused");
    assert_eq!(
        (status.code(), problem(&status).code.as_str()),
        (Code::FailedPrecondition, "refused")
    );
    let mut client = WorkClient::new(connect(&server).await);
    let stream = futures_util::stream::iter([v1::WorkerSays::default()]);
    let mut responses = client.stream(stream).await.expect("a stream").into_inner();
    let status = responses.message().await.expect_err("refused");
    assert_eq!((status.code(), problem(&status).field.as_str()), (Code::InvalidArgument, "hello"));
}

#[tokio::test]
async fn reports_about_deliveries_of_other_workers_change_nothing() {
    let server = Server::start().await;
    let mut worker = Worker::start(&server, hello("mail", 1, "one")).await;
    push(&server, "mail", 1).await;
    let mine = worker.jobs().await.remove(0);
    let mut work = WorkClient::new(connect(&server).await);
    let done = |id, delivery| v1::Report {
        id,
        delivery,
        outcome: Some(v1::report::Outcome::Done(v1::Done::default())),
        ..v1::Report::default()
    };
    let unknown = [
        done(mine.id, mine.delivery + 1),
        done(mine.id, 0),
        done(mine.id, u64::MAX),
        done(mine.id + 1, mine.delivery),
        done(0, 0),
        done(u64::MAX, u64::MAX),
    ];
    let ask = v1::FinishRequest { jobs: unknown.to_vec() };
    let finished = work.finish(ask).await.expect("answered").into_inner().jobs;
    let verdicts: Vec<_> = finished.iter().map(v1::Finished::verdict).collect();
    use v1::Verdict::{NotFound, Stale};
    assert_eq!(verdicts, [Stale, Stale, Stale, NotFound, NotFound, NotFound]);
    // The same on a stream, which stays open.
    let finished = worker.finish(unknown.to_vec()).await;
    assert!(finished.iter().all(|one| matches!(one.verdict(), Stale | NotFound)), "{finished:?}");
    let finished = worker.done(&[mine]).await;
    assert_eq!(finished[0].verdict(), v1::Verdict::Finished);
}
