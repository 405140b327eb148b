//! Invalid calls and their answers.

use crore_api::access;
use crore_core::State;
use crore_wire::api::tokens::{NewToken, Preset};
use crore_wire::grpc::lakh::job::ExecutionTime;
use crore_wire::grpc::lakh::{Job, JobResult};
use crore_wire::grpc::{RpcStatus, v1};
use prost::Message;
use prost_types::Timestamp;
use tonic::{Code, Request, Status};

use super::{Worker, about, becomes, job, lakh, seconds, send, stored, work};
use crate::server::Server;

/// gRPC code, crore code and field of a refusal.
fn problem(status: &Status) -> (Code, String, String) {
    let details = RpcStatus::decode(status.details()).expect("details");
    let problem = v1::Problem::decode(&*details.details[0].value).expect("a problem");
    (status.code(), problem.code, problem.field)
}

#[tokio::test]
async fn job_names_are_required_and_ascii() {
    let server = Server::start().await;
    let mut client = lakh(&server).await;
    let (missing, strange) =
        ("missing `job_names` field in metadata map", "invalid ASCII in `job_names` field");
    let jobs = || futures_util::stream::iter(vec![job("one", "mail")]);
    let reports = || futures_util::stream::iter(Vec::<JobResult>::new());
    let work = client.work(Request::new(jobs())).await.expect_err("no names");
    let join = client.join(Request::new(reports())).await.expect_err("no names");
    for status in [work, join] {
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, missing));
    }
    let umlaut = || http::HeaderValue::from_bytes("grüße".as_bytes()).expect("a header");
    let mut request = Request::new(jobs());
    request.metadata_mut().as_mut().insert("job_names", umlaut());
    let work = client.work(request).await.expect_err("not ASCII");
    let mut request = Request::new(reports());
    request.metadata_mut().as_mut().insert("job_names", umlaut());
    let join = client.join(request).await.expect_err("not ASCII");
    for status in [work, join] {
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, strange));
    }
    assert_eq!(stored(&server.engine, "mail", "one").await, None);
}

#[tokio::test]
async fn a_job_with_a_name_that_its_call_does_not_serve_is_dropped() {
    let server = Server::start().await;
    let jobs = ["sms", "", "mail ", "mail;", "mail"];
    send(&server, jobs.iter().map(|name| job(name, name)).collect()).await;
    let mut worker = Worker::join(&server, "sms;mail ;mail").await;
    assert_eq!(worker.job().await.name, "mail");
    worker.expect_no_job().await;
}

#[tokio::test]
async fn an_invalid_job_ends_its_call_and_earlier_jobs_stay() {
    let server = Server::start().await;
    let at = |seconds| Some(ExecutionTime::Scheduled(Timestamp { seconds, nanos: 0 }));
    let good = || job("bad", "mail");
    let huge = Some(ExecutionTime::Delayed(seconds(i64::MAX)));
    let rows = [
        ("reservation_time", "lease-range", Job { reservation_time: Some(seconds(-1)), ..good() }),
        (
            "reservation_time",
            "lease-range",
            Job { reservation_time: Some(seconds(86_401)), ..good() },
        ),
        (
            "reservation_time",
            "lease-range",
            Job { reservation_time: Some(seconds(i64::MAX)), ..good() },
        ),
        ("execution_time", "time-range", Job { execution_time: at(253_402_300_800), ..good() }),
        ("execution_time", "time-range", Job { execution_time: at(i64::MAX), ..good() }),
        ("execution_time", "time-range", Job { execution_time: huge, ..good() }),
        ("id", "key-too-long", Job { id: "x".repeat(257), ..good() }),
        ("id", "key-control", Job { id: "a\0b".to_owned(), ..good() }),
    ];
    for (n, (field, code, bad)) in rows.into_iter().enumerate() {
        let before = n.to_string();
        let status = work(&server, vec![job(&before, "mail"), bad]).await.expect_err("refused");
        let expected = (Code::InvalidArgument, code.to_owned(), field.to_owned());
        assert_eq!(problem(&status), expected, "{status:?}");
        assert!(status.message().contains("job `"), "{status:?}");
        becomes(&server, &before, |job| job.live.state == State::Ready).await;
    }
    assert_eq!(stored(&server.engine, "mail", "bad").await, None);
}

#[tokio::test]
async fn names_that_no_queue_can_have_are_refused_when_a_job_has_them() {
    let server = Server::start().await;
    let long = "x".repeat(256);
    for (name, code) in [("", "name-empty"), (long.as_str(), "name-too-long")] {
        let jobs = futures_util::stream::iter(vec![job("one", name)]);
        let status = lakh(&server).await.work(about(name, jobs)).await.expect_err("refused");
        let expected = (Code::InvalidArgument, code.to_owned(), "name".to_owned());
        assert_eq!(problem(&status), expected);
        Worker::join(&server, name).await.expect_no_job().await;
    }
    send(&server, vec![job("one", "mail")]).await;
    assert_eq!(Worker::join(&server, ";mail;;").await.job().await.id, "one");
}

#[tokio::test]
async fn arguments_that_are_too_large_are_refused() {
    let server = Server::start().await;
    for args in [vec!["x".repeat(1 << 20)], vec![String::new(); 400_000]] {
        let jobs = vec![job("good", "mail"), Job { args, ..job("large", "mail") }];
        let status = work(&server, jobs).await.expect_err("refused");
        let (code, ours, field) = problem(&status);
        assert_eq!((code, field.as_str()), (Code::ResourceExhausted, "args"));
        assert_eq!(ours, "payload-too-large");
        becomes(&server, "good", |job| job.live.state == State::Ready).await;
    }
    let jobs = vec![Job { args: vec!["x".repeat(13 << 20)], ..job("huge", "mail") }];
    let status = work(&server, jobs).await.expect_err("refused");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status:?}");
}

#[tokio::test]
async fn a_reservation_shorter_than_any_lease_is_as_long_as_the_shortest() {
    let server = Server::start().await;
    for (id, nanos) in [("zero", 0), ("short", 1), ("strange", i32::MAX)] {
        let time = Some(prost_types::Duration { seconds: 0, nanos });
        send(&server, vec![Job { reservation_time: time, ..job(id, "mail") }]).await;
    }
    let lease = async |id| {
        let job = stored(&server.engine, "mail", id).await.expect("it exists");
        job.spec.lease.expect("reserved").as_millis()
    };
    assert_eq!(lease("zero").await, 1000);
    assert_eq!(lease("short").await, 1000);
    assert_eq!(lease("strange").await, 2148);
}

#[tokio::test]
async fn a_stream_accepts_more_jobs_than_one_batch() {
    let server = Server::start().await;
    let args = vec!["x".repeat(10_000)];
    let jobs = (0..2500).map(|n| Job { args: args.clone(), ..job(&n.to_string(), "mail") });
    send(&server, jobs.collect()).await;
    let counts = server.engine.jobs().counts(None).await.expect("counted");
    assert_eq!(counts.iter().map(|count| count.n).sum::<u64>(), 2500);
}

#[tokio::test]
async fn a_worker_with_too_many_names_is_refused() {
    let server = Server::start().await;
    let names: Vec<_> = (0..1001).map(|n| n.to_string()).collect();
    let reports = futures_util::stream::iter(Vec::<JobResult>::new());
    let refused = lakh(&server).await.join(about(&names.join(";"), reports)).await;
    let status = refused.expect_err("too many");
    let expected = (Code::InvalidArgument, "count-range".to_owned(), "job_names".to_owned());
    assert_eq!(problem(&status), expected);
    Worker::join(&server, &names[1..].join(";")).await.expect_no_job().await;
}

#[tokio::test]
async fn each_call_needs_its_scope() {
    let server = Server::start().await;
    let token = async |preset| {
        let name = format!("{preset:?}");
        let new = NewToken { name, preset: Some(preset), ..NewToken::default() };
        access::create(&server.engine, &new).await.expect("made").1
    };
    let (producer, worker) = (token(Preset::Producer).await, token(Preset::Worker).await);
    let call = async |token: Option<&str>, call: &str| {
        fn with<T>(token: Option<&str>, message: T) -> Request<T> {
            let mut request = about("mail", message);
            if let Some(token) = token {
                let bearer = format!("Bearer {token}").parse().expect("ASCII");
                request.metadata_mut().insert("authorization", bearer);
            }
            request
        }
        let mut client = lakh(&server).await;
        let jobs = futures_util::stream::iter(vec![job("one", "mail")]);
        let reports = futures_util::stream::iter(Vec::<JobResult>::new());
        let answer = match call {
            "Work" => client.work(with(token, jobs)).await.map(drop),
            "Join" => client.join(with(token, reports)).await.map(drop),
            _ => client.get_dead_jobs(with(token, ())).await.map(drop),
        };
        answer.map_or_else(|status| status.code(), |()| Code::Ok)
    };
    for name in ["Work", "Join", "GetDeadJobs"] {
        assert_eq!(call(None, name).await, Code::Unauthenticated, "{name}");
    }
    assert_eq!(call(Some(producer.reveal()), "Work").await, Code::Ok);
    assert_eq!(call(Some(producer.reveal()), "Join").await, Code::PermissionDenied);
    assert_eq!(call(Some(worker.reveal()), "Work").await, Code::PermissionDenied);
    assert_eq!(call(Some(worker.reveal()), "Join").await, Code::Ok);
    let dead = call(Some(producer.reveal()), "GetDeadJobs").await;
    let reads = crore_api::Scopes::from(Preset::Producer).has(crore_api::Scope::Read);
    assert_eq!(dead, if reads { Code::Ok } else { Code::PermissionDenied });
}
