//! `WorkerService`: validation, and workers as they read back.

use crore_core::handler::{BUILT_IN_ID, FollowUpPayload, ResultWaiter};
use crore_core::{Code as Ours, Invalid, Span};
use crore_doors::{Options, jobworkerp};
use crore_wire::grpc::jobworkerp::data::{
    QueueType, ResponseType, RetryPolicy, RetryType, RunnerType, Worker, WorkerId,
};
use crore_wire::grpc::jobworkerp::service::{
    CountCondition, CreateWorkerRequest, WorkerNameRequest,
};
use serde_json::{Value, json};
use tonic::Code;

use super::{JobworkerpStage, all, command, direct, name, numbers, object, part, policy, problem};

const NONE: RetryPolicy =
    RetryPolicy { r#type: 0, interval: 0, max_interval: 0, max_retry: 0, basis: 2.0 };

#[tokio::test]
async fn a_minimal_worker_has_the_defaults_and_the_next_number() {
    let stage = JobworkerpStage::start().await;
    assert_eq!(stage.create(command("a")).await, 1);
    assert_eq!(stage.create(command("b")).await, 2);
    let data = stage.worker(1).await.expect("it exists");
    assert_eq!((data.name.as_str(), data.operation.as_str()), ("a", "ls"));
    assert_eq!((data.r#type(), data.queue_type()), (RunnerType::Command, QueueType::Rdb));
    assert_eq!((data.retry_policy, data.periodic_interval), (Some(NONE), 0));
    assert_eq!((data.channel, data.response_type), (None, ResponseType::NoResult as i32));
    assert_eq!((data.store_success, data.store_failure, data.use_static), (false, false, false));
    assert!(data.next_workers.is_empty());
    let known = stage
        .server
        .engine
        .handlers()
        .get(&name("a"))
        .await
        .expect("a response")
        .expect("it exists");
    assert_eq!(known.handler.id, 1);
    assert!(known.handler.retry.is_last(1), "no policy is one attempt");
}

#[tokio::test]
async fn every_field_of_a_worker_reads_back() {
    let stage = JobworkerpStage::start().await;
    let request = CreateWorkerRequest {
        r#type: RunnerType::GrpcUnary.into(),
        operation: r#"{ "url": "http://localhost:9000", "path":"a.B/C" }"#.to_owned(),
        retry_policy: Some(RetryPolicy {
            r#type: RetryType::Linear.into(),
            ..policy().expect("one")
        }),
        periodic_interval: Some(1001),
        channel: Some("gpu".to_owned()),
        queue_type: Some(QueueType::Hybrid.into()),
        response_type: Some(ResponseType::ListenAfter.into()),
        store_success: Some(true),
        store_failure: Some(true),
        next_workers: [7, -1, 8].into_iter().map(|value| WorkerId { value }).collect(),
        use_static: Some(true),
        ..command("all of it")
    };
    let id = stage.create(request.clone()).await;
    let data = stage.worker(id).await.expect("it exists");
    assert_eq!((data.name, data.r#type), (request.name, request.r#type));
    assert_eq!((data.operation, data.retry_policy), (request.operation, request.retry_policy));
    assert_eq!(
        (Some(data.periodic_interval), data.channel),
        (request.periodic_interval, request.channel)
    );
    assert_eq!(
        (Some(data.queue_type), Some(data.response_type)),
        (request.queue_type, request.response_type)
    );
    assert!(data.store_success && data.store_failure && data.use_static);
    assert_eq!(data.next_workers, request.next_workers);
    let known = stage.server.engine.handlers().get(&name("all of it")).await.expect("a response");
    let handler = known.expect("it exists").handler;
    let settings = json!({"url": "http://localhost:9000", "method": "a.B/C", "payload": "bytes"});
    assert_eq!(
        (handler.runner.as_str(), Value::from(handler.settings.clone())),
        ("grpc", settings)
    );
    assert_eq!((handler.queue.as_str(), handler.every), ("gpu", Some(Span::from_millis(1001))));
    assert_eq!((handler.results.answer, handler.pooled), (ResultWaiter::Listen, true));
}

#[tokio::test]
async fn a_default_channel_is_absent_and_an_unknown_queue_type_is_the_default() {
    let stage = JobworkerpStage::start().await;
    for (n, channel) in ["__default_job_channel__", "default", ""].into_iter().enumerate() {
        let channel = Some(channel.to_owned());
        let queue_type = Some(77);
        let worker = CreateWorkerRequest { channel, queue_type, ..command(&n.to_string()) };
        let data = stage.worker(stage.create(worker).await).await.expect("it exists");
        assert_eq!((data.channel, data.queue_type), (None, QueueType::Rdb as i32));
    }
}

#[tokio::test]
async fn every_invalid_worker_is_refused_with_its_field_and_none_is_stored() {
    let stage = JobworkerpStage::start().await;
    let retry =
        |policy: RetryPolicy| CreateWorkerRequest { retry_policy: Some(policy), ..command("a") };
    let good = policy().expect("one");
    let of_type = |runner: RunnerType, operation: &str| CreateWorkerRequest {
        r#type: runner.into(),
        operation: operation.to_owned(),
        ..command("a")
    };
    for (worker, code, field) in [
        (command(""), "name-empty", "name"),
        (command(&"x".repeat(256)), "name-too-long", "name"),
        (command("a\0b"), "name-control", "name"),
        (command("__SLACK_NOTIFICATION_WORKER__"), "malformed", "name"),
        (
            CreateWorkerRequest { periodic_interval: Some(2000), ..direct("a") },
            "malformed",
            "periodic_interval",
        ),
        (
            CreateWorkerRequest { periodic_interval: Some(1000), ..command("a") },
            "malformed",
            "periodic_interval",
        ),
        (
            CreateWorkerRequest { periodic_interval: Some(1), ..command("a") },
            "malformed",
            "periodic_interval",
        ),
        (CreateWorkerRequest { r#type: 9, ..command("a") }, "malformed", "type"),
        (
            CreateWorkerRequest { response_type: Some(9), ..command("a") },
            "malformed",
            "response_type",
        ),
        (
            CreateWorkerRequest { channel: Some("a\nb".to_owned()), ..command("a") },
            "name-control",
            "channel",
        ),
        (retry(RetryPolicy { basis: 0.5, ..good }), "retry-range", "retry_policy.basis"),
        (retry(RetryPolicy { basis: 0.0, r#type: 0, ..good }), "retry-range", "retry_policy.basis"),
        (retry(RetryPolicy { basis: f32::NAN, ..good }), "retry-range", "retry_policy.basis"),
        (retry(RetryPolicy { basis: 1e30, ..good }), "retry-range", "retry_policy.basis"),
        (retry(RetryPolicy { r#type: 4, ..good }), "retry-range", "retry_policy.type"),
        (
            retry(RetryPolicy { max_retry: u32::MAX, ..good }),
            "retry-range",
            "retry_policy.max_retry",
        ),
        (retry(RetryPolicy { interval: u32::MAX, ..good }), "retry-range", "retry_policy.interval"),
        (
            retry(RetryPolicy { max_interval: u32::MAX, ..good }),
            "retry-range",
            "retry_policy.max_interval",
        ),
        (of_type(RunnerType::Command, ""), "malformed", "operation"),
        (of_type(RunnerType::Request, "not a url"), "malformed", "operation"),
        (of_type(RunnerType::GrpcUnary, "{}"), "malformed", "operation"),
        (of_type(RunnerType::Docker, "busybox"), "malformed", "operation"),
        (of_type(RunnerType::Builtin, "x"), "malformed", "type"),
        (
            CreateWorkerRequest { next_workers: vec![WorkerId { value: 1 }; 101], ..command("a") },
            "count-range",
            "next_workers",
        ),
    ] {
        let refused = match stage.try_create(worker.clone()).await {
            Ok(id) => panic!("{field}: {id}"),
            Err(status) => problem(&status),
        };
        assert_eq!(
            refused,
            (Code::InvalidArgument, code.to_owned(), field.to_owned()),
            "{worker:?}"
        );
    }
    assert!(all(stage.workers.clone().find_list(part(None, None)).await).await.is_empty());
}

#[tokio::test]
async fn every_queue_type_allows_every_response_type() {
    let stage = JobworkerpStage::start().await;
    let answers = [ResponseType::NoResult, ResponseType::Direct, ResponseType::ListenAfter];
    for queue in [QueueType::Redis, QueueType::Rdb, QueueType::Hybrid] {
        for answer in answers {
            let worker = CreateWorkerRequest {
                queue_type: Some(queue.into()),
                response_type: Some(answer.into()),
                ..command(&format!("{queue:?} {answer:?}"))
            };
            let data = stage.worker(stage.create(worker).await).await.expect("it exists");
            assert_eq!((data.queue_type(), data.response_type()), (queue, answer));
        }
    }
}

#[tokio::test]
async fn runner_checks_are_reported_with_jobworkerp_fields() {
    let stage = JobworkerpStage::start().await;
    stage.server.doors.api().check_handlers(|handler| match handler.settings["program"].as_str() {
        Some("ls") => Ok(()),
        _ => {
            let why = "`rm` is not allowed: `runners.command.programs`";
            Err(Invalid::new(Ours::RunnerForbidden, "settings.program", why))
        }
    });
    stage.create(command("a")).await;
    let worker = CreateWorkerRequest { operation: "rm".to_owned(), ..command("b") };
    let refused = stage.try_create(worker).await.expect_err("not allowed");
    let expected = (Code::PermissionDenied, "runner-forbidden".to_owned(), "operation".to_owned());
    assert_eq!(problem(&refused), expected);
    let mut data = stage.worker(1).await.expect("it exists");
    data.operation = "rm".to_owned();
    let update = Worker { id: Some(WorkerId { value: 1 }), data: Some(data) };
    let refused = stage.workers.clone().update(update).await.expect_err("not allowed");
    assert_eq!(problem(&refused), expected);
}

#[tokio::test]
async fn a_worker_name_is_unique_and_free_after_removal() {
    let stage = JobworkerpStage::start().await;
    stage.create(command("a")).await;
    let refused = stage.try_create(command("a")).await.expect_err("twice");
    let expected = (Code::AlreadyExists, "refused".to_owned(), "name".to_owned());
    assert_eq!(problem(&refused), expected);
    let delete = async |value| {
        let deleted = stage.workers.clone().delete(WorkerId { value }).await;
        deleted.expect("a response").into_inner().is_success
    };
    assert!(delete(1).await);
    assert!(!delete(1).await && !delete(99).await && !delete(-1).await && !delete(0).await);
    assert_eq!(stage.worker(1).await, None);
    assert_eq!(stage.create(command("a")).await, 2, "numbers are not reused");
}

#[tokio::test]
async fn a_missing_worker_is_found_once_it_is_created() {
    let stage = JobworkerpStage::start().await;
    let by_name = async |name: &str| {
        let ask = WorkerNameRequest { name: name.to_owned() };
        stage.workers.clone().find_by_name(ask).await.expect("a response").into_inner().data
    };
    assert_eq!((stage.worker(1).await, by_name("a").await, by_name("").await), (None, None, None));
    stage.create(command("a")).await;
    let found = by_name("a").await.expect("at once");
    assert_eq!(found.data, stage.worker(1).await);
    // A handler of the native API is a worker too.
    let settings = object(&json!({"program": "date"}));
    let handler = crore_core::Handler::new(name("command"), settings);
    stage.server.engine.handlers().set(name("native"), handler).await.expect("set");
    let data = stage.worker(2).await.expect("at once");
    assert_eq!((data.operation.as_str(), data.retry_policy.expect("one").max_retry), ("date", 19));
}

#[tokio::test]
async fn lists_are_newest_first_and_paged() {
    let stage = JobworkerpStage::start().await;
    for name in ["c", "a", "b"] {
        stage.create(command(name)).await;
    }
    let list = async |limit, offset| {
        numbers(&all(stage.workers.clone().find_list(part(limit, offset)).await).await)
    };
    assert_eq!(list(None, None).await, [3, 2, 1]);
    assert_eq!(list(Some(2), None).await, [3, 2]);
    assert_eq!(list(Some(2), Some(2)).await, [1]);
    assert_eq!(list(Some(0), None).await, [0_i64; 0]);
    assert_eq!(list(None, Some(i64::MAX)).await, [0_i64; 0]);
    let count = stage.workers.clone().count(CountCondition {}).await.expect("counted");
    assert_eq!(count.into_inner().total, 3);
    for (limit, offset, field) in [(Some(-1), None, "limit"), (None, Some(-1), "offset")] {
        let refused = stage.workers.clone().find_list(part(limit, offset)).await;
        let (code, _, named) = problem(&refused.expect_err("below zero"));
        assert_eq!((code, named.as_str()), (Code::InvalidArgument, field));
    }
}

#[tokio::test]
async fn an_update_replaces_all_fields_and_keeps_the_number() {
    let stage = JobworkerpStage::start().await;
    stage.create(command("a")).await;
    stage.create(command("b")).await;
    let update = async |id: Option<i64>, data| {
        let id = id.map(|value| WorkerId { value });
        let updated = stage.workers.clone().update(Worker { id, data }).await;
        updated.map(|updated| updated.into_inner().is_success)
    };
    let mut data = stage.worker(1).await.expect("it exists");
    data.operation = "date".to_owned();
    data.channel = Some("gpu".to_owned());
    assert!(update(Some(1), Some(data.clone())).await.expect("updated"));
    assert_eq!(stage.worker(1).await, Some(data.clone()));
    data.name = "another".to_owned();
    assert!(update(Some(1), Some(data.clone())).await.expect("renamed"));
    assert_eq!(stage.worker(1).await, Some(data.clone()));
    assert_eq!(stage.server.engine.handlers().list().await.expect("a response").len(), 2);
    data.name = "b".to_owned();
    let refused = update(Some(1), Some(data.clone())).await.expect_err("held by another");
    assert_eq!(refused.code(), Code::AlreadyExists);
    let refused = update(None, Some(data.clone())).await.expect_err("an id is required");
    assert_eq!(refused.code(), Code::NotFound);
    assert!(!update(Some(1), None).await.expect("nothing to do"));
    assert!(update(Some(99), Some(data.clone())).await.expect("updated"));
    data.name = String::new();
    let refused = update(Some(1), Some(data)).await.expect_err("no name");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

pub(crate) fn with_slack(on_success: bool, on_failure: bool) -> Options {
    let jobworkerp = jobworkerp::Options {
        slack_token: Some("env:SLACK".parse().expect("a reference")),
        slack_channel: Some("#jobs".to_owned()),
        slack_on_success: on_success,
        slack_on_failure: on_failure,
        ..jobworkerp::Options::default()
    };
    Options { jobworkerp, ..Options::default() }
}

#[tokio::test]
async fn the_built_in_worker_is_found_by_its_number_and_is_in_no_list() {
    for options in [Options::default(), with_slack(true, true)] {
        let stage = JobworkerpStage::with(options).await;
        jobworkerp::prepare(&stage.server.doors).await.expect("prepared");
        let data = stage.worker(-1).await.expect("it is always there");
        assert_eq!(data.name, "__SLACK_NOTIFICATION_WORKER__");
        assert_eq!(data.operation, "SlackResultNotificationRunner");
        assert_eq!((data.r#type(), data.queue_type()), (RunnerType::Builtin, QueueType::Redis));
        let policy = data.retry_policy.expect("one");
        assert_eq!((policy.interval, policy.max_interval, policy.max_retry), (1000, 20_000, 3));
        assert!(all(stage.workers.clone().find_list(part(None, None)).await).await.is_empty());
        let ask = WorkerNameRequest { name: data.name };
        let found = stage.workers.clone().find_by_name(ask).await.expect("a response");
        assert_eq!(found.into_inner().data, None);
        let count = stage.workers.clone().count(CountCondition {}).await.expect("counted");
        assert_eq!(count.into_inner().total, 0);
        assert_eq!(stage.create(command("a")).await, 1, "it uses no number");
    }
}

#[tokio::test]
async fn the_built_in_worker_follows_as_configured() {
    for (on_success, on_failure) in [(true, false), (false, true), (true, true), (false, false)] {
        let stage = JobworkerpStage::with(with_slack(on_success, on_failure)).await;
        jobworkerp::prepare(&stage.server.doors).await.expect("prepared");
        let next_workers = vec![WorkerId { value: -1 }];
        let id = stage.create(CreateWorkerRequest { next_workers, ..command("a") }).await;
        let all = stage.server.engine.handlers().list().await.expect("a response");
        let follows = &all[&name("a")].follows;
        let slack = &all[&name("__SLACK_NOTIFICATION_WORKER__")].handler;
        assert_eq!((slack.runner.as_str(), slack.id), ("slack", BUILT_IN_ID));
        assert_eq!(slack.settings, object(&json!({"channel": "#jobs", "token": "env:SLACK"})));
        assert_eq!(
            (follows.next.len(), follows.on_failure.len()),
            (on_success.into(), on_failure.into())
        );
        assert!(follows.next.iter().all(|follow| follow.gives == FollowUpPayload::Summary));
        let data = stage.worker(id).await.expect("it exists");
        assert_eq!(data.next_workers, [WorkerId { value: -1 }]);
    }
}
