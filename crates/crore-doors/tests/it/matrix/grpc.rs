//! The calls of the gRPC doors: the native services, Lakh and jobworkerp.

use std::collections::BTreeSet;

use ::http::Version;
use crore_api::Scope::{self, Define, Operate, Push, Read, Work};
use crore_wire::grpc::jobworkerp::{data, service};
use crore_wire::grpc::{DESCRIPTORS, lakh, v1};
use prost::Message;
use tonic::Code;

use super::{Bearer, Place, Rule, Subject, World};
use crate::grpc::frames::{RawConnection, frame, request};

/// The path of a call, its scopes, its rule, and its request.
type Row = (&'static str, &'static [Scope], Rule, fn(&Subject) -> Vec<u8>);

/// Every call of the services that need a token.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("/crore.v1.Jobs/Push",            &[Push],       Rule::Job,        |s| push_request(s)),
    ("/crore.v1.Jobs/PushStream",      &[Push],       Rule::Job,        |s| push_request(s)),
    ("/crore.v1.Jobs/Get",             &[Read],       Rule::Job,        |s| job_ref(s).encode_to_vec()),
    ("/crore.v1.Jobs/List",            &[Read],       Rule::Filtered,   |_| Vec::new()),
    ("/crore.v1.Jobs/Cancel",          &[Operate],    Rule::Job,        |s| job_ref(s).encode_to_vec()),
    ("/crore.v1.Jobs/Retry",           &[Operate],    Rule::Job,        |s| job_ref(s).encode_to_vec()),
    ("/crore.v1.Jobs/Delete",          &[Operate],    Rule::Job,        |s| job_ref(s).encode_to_vec()),
    ("/crore.v1.Jobs/Change",          &[Operate],    Rule::Job,        |s| v1::ChangeRequest { job: Some(job_ref(s)), priority: Some(1), ..v1::ChangeRequest::default() }.encode_to_vec()),
    ("/crore.v1.Jobs/Replay",          &[Push],       Rule::Job,        |s| v1::ReplayRequest { job: Some(job_ref(s)), ..v1::ReplayRequest::default() }.encode_to_vec()),
    ("/crore.v1.Jobs/Wait",            &[Push, Read], Rule::Job,        |s| v1::WaitRequest { id: s.job.0, wait_ms: 0 }.encode_to_vec()),
    ("/crore.v1.Work/Stream",          &[Work],       Rule::Job,        |s| hello(s)),
    ("/crore.v1.Work/Fetch",           &[Work],       Rule::Job,        |s| v1::FetchRequest { queues: vec![s.place.queue.into()], kinds: vec![s.place.kind.into()], ..v1::FetchRequest::default() }.encode_to_vec()),
    ("/crore.v1.Work/Renew",           &[Work],       Rule::Job,        |s| v1::RenewRequest { jobs: vec![held(s)], ..v1::RenewRequest::default() }.encode_to_vec()),
    ("/crore.v1.Work/Finish",          &[Work],       Rule::Job,        |s| v1::FinishRequest { jobs: vec![report(s)] }.encode_to_vec()),
    ("/crore.v1.Admin/Info",           &[Read],       Rule::Open,       |_| Vec::new()),
    ("/crore.v1.Admin/Counts",         &[Read],       Rule::Queue,      |s| queue(s)),
    ("/crore.v1.Admin/Stats",          &[Read],       Rule::Job,        |s| v1::StatsRequest { queue: s.place.queue.into(), kind: s.place.kind.into(), ..v1::StatsRequest::default() }.encode_to_vec()),
    ("/crore.v1.Admin/PauseQueue",     &[Operate],    Rule::WholeQueue, |s| queue(s)),
    ("/crore.v1.Admin/ResumeQueue",    &[Operate],    Rule::WholeQueue, |s| queue(s)),
    ("/crore.v1.Admin/GetQueue",       &[Read],       Rule::Queue,      |s| queue(s)),
    ("/crore.v1.Admin/ChangeQueue",    &[Operate],    Rule::WholeQueue, |s| v1::ChangeQueueRequest { queue: s.place.queue.into(), max_done: Some(5), ..v1::ChangeQueueRequest::default() }.encode_to_vec()),
    ("/crore.v1.Admin/ListSchedules",  &[Read],       Rule::Filtered,   |_| Vec::new()),
    ("/crore.v1.Admin/SetSchedule",    &[Define],     Rule::Job,        |s| schedule(s)),
    // Schedules have the names of their queues.
    ("/crore.v1.Admin/DeleteSchedule", &[Define],     Rule::Job,        |s| named(s.place.queue)),
    ("/crore.v1.Admin/ListLimits",     &[Read],       Rule::Refused,    |_| Vec::new()),
    ("/crore.v1.Admin/SetLimit",       &[Define],     Rule::Refused,    |_| v1::Limit { name: "slow".into(), limit: "rate 5/1m".into() }.encode_to_vec()),
    ("/crore.v1.Admin/DeleteLimit",    &[Define],     Rule::Refused,    |_| named("slow")),
    ("/crore.v1.Admin/ListHandlers",   &[Read],       Rule::Filtered,   |_| Vec::new()),
    ("/crore.v1.Admin/SetHandler",     &[Define],     Rule::WholeKind,  |s| v1::Handler { kind: s.place.kind.into(), handler: r#"{"runner":"command","settings":{"program":"date"}}"#.into() }.encode_to_vec()),
    ("/crore.v1.Admin/DeleteHandler",  &[Define],     Rule::WholeKind,  |s| named(s.place.kind)),
    ("/crore.v1.Admin/ListWorkers",    &[Read],       Rule::Filtered,   |_| Vec::new()),
    ("/crore.v1.Admin/ActOnAll",       &[Operate],    Rule::Job,        |s| act(s)),
    ("/crore.v1.Admin/StartOperation", &[Operate],    Rule::Job,        |s| act(s)),
    ("/crore.v1.Admin/ListOperations", &[Read],       Rule::Open,       |_| Vec::new()),
    ("/crore.v1.Admin/GetOperation",   &[Read],       Rule::Open,       |_| v1::OperationRef { id: "7".into(), wait_ms: 0 }.encode_to_vec()),
    ("/crore.v1.Admin/CancelOperation", &[Operate],   Rule::Open,       |_| v1::OperationRef { id: "7".into(), wait_ms: 0 }.encode_to_vec()),
    ("/crore.v1.Admin/Listen",         &[Read],       Rule::Job,        |s| v1::ListenRequest { queue: s.place.queue.into(), kind: s.place.kind.into() }.encode_to_vec()),
    ("/crore.v1.Admin/SendEvent",      &[Push],       Rule::Refused,    |_| v1::NewEvent { name: "paid".into(), ..v1::NewEvent::default() }.encode_to_vec()),
    ("/crore.v1.Admin/GetEvent",       &[Read],       Rule::Refused,    |_| named("paid")),
    ("/crore.v1.Admin/ListEvents",     &[Read],       Rule::Refused,    |_| Vec::new()),
    ("/crore.v1.Admin/RemoveEvent",    &[Operate],    Rule::Refused,    |_| named("paid")),
    ("/lakh.Lakh/Work",                &[Push],       Rule::Job,        |s| lakh::Job { id: s.n.to_string(), name: s.place.kind.into(), ..lakh::Job::default() }.encode_to_vec()),
    ("/lakh.Lakh/Join",                &[Work],       Rule::Job,        |_| Vec::new()),
    ("/lakh.Lakh/GetDeadJobs",         &[Read],       Rule::Filtered,   |_| Vec::new()),
    ("/jobworkerp.service.WorkerService/Create",                &[Define],     Rule::WholeKind, |s| new_worker(s)),
    ("/jobworkerp.service.WorkerService/Update",                &[Define],     Rule::WholeKind, |s| changed_worker(s)),
    ("/jobworkerp.service.WorkerService/Delete",                &[Define],     Rule::WholeKind, |s| worker_id(s).encode_to_vec()),
    ("/jobworkerp.service.WorkerService/Find",                  &[Read],       Rule::Kind,      |s| worker_id(s).encode_to_vec()),
    ("/jobworkerp.service.WorkerService/FindByName",            &[Read],       Rule::Kind,      |s| service::WorkerNameRequest { name: s.place.kind.into() }.encode_to_vec()),
    ("/jobworkerp.service.WorkerService/FindList",              &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.WorkerService/Count",                 &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.JobService/Enqueue",                  &[Push],       Rule::Job,       |s| enqueue(s)),
    ("/jobworkerp.service.JobService/Delete",                   &[Operate],    Rule::Job,       |s| job_id(s).encode_to_vec()),
    ("/jobworkerp.service.JobService/Find",                     &[Read],       Rule::Job,       |s| job_id(s).encode_to_vec()),
    ("/jobworkerp.service.JobService/FindList",                 &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.JobService/FindListByWorkerId",       &[Read],       Rule::Filtered,  |s| by_worker(s)),
    ("/jobworkerp.service.JobService/Count",                    &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.JobStatusService/Find",               &[Read],       Rule::Job,       |s| job_id(s).encode_to_vec()),
    ("/jobworkerp.service.JobStatusService/FindAll",            &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.JobRestoreService/Restore",           &[Operate],    Rule::Open,      |_| Vec::new()),
    ("/jobworkerp.service.JobRestoreService/FindAll",           &[Read],       Rule::Open,      |_| Vec::new()),
    ("/jobworkerp.service.JobResultService/Delete",             &[Operate],    Rule::Job,       |s| result_id(s)),
    ("/jobworkerp.service.JobResultService/Find",               &[Read],       Rule::Job,       |s| result_id(s)),
    ("/jobworkerp.service.JobResultService/FindList",           &[Read],       Rule::Filtered,  |_| Vec::new()),
    ("/jobworkerp.service.JobResultService/FindListByJobId",    &[Read],       Rule::Job,       |s| service::FindListByJobIdRequest { job_id: Some(job_id(s)) }.encode_to_vec()),
    ("/jobworkerp.service.JobResultService/FindListByWorkerId", &[Read],       Rule::Filtered,  |s| by_worker(s)),
    ("/jobworkerp.service.JobResultService/Listen",             &[Push, Read], Rule::Job,       |s| listen(s)),
    ("/jobworkerp.service.JobResultService/Count",              &[Read],       Rule::Filtered,  |_| Vec::new()),
];

/// Calls whose response has no end.
const ENDLESS: [&str; 2] = ["/crore.v1.Admin/Listen", "/lakh.Lakh/Join"];

fn new_job(subject: &Subject) -> v1::NewJob {
    let (queue, kind) = (subject.place.queue.into(), subject.place.kind.into());
    v1::NewJob { queue, kind, payload: Some("{}".into()), ..v1::NewJob::default() }
}

fn push_request(subject: &Subject) -> Vec<u8> {
    let jobs = vec![new_job(subject)];
    v1::PushRequest { jobs, ..v1::PushRequest::default() }.encode_to_vec()
}

fn job_ref(subject: &Subject) -> v1::JobRef {
    v1::JobRef { which: Some(v1::job_ref::Which::Id(subject.job.0)) }
}

fn held(subject: &Subject) -> v1::Held {
    v1::Held { id: subject.job.0, delivery: 1 }
}

fn report(subject: &Subject) -> v1::Report {
    let outcome = Some(v1::report::Outcome::Done(v1::Done::default()));
    v1::Report { id: subject.job.0, delivery: 1, outcome, ..v1::Report::default() }
}

fn hello(subject: &Subject) -> Vec<u8> {
    let hello = v1::Hello {
        queues: vec![subject.place.queue.into()],
        kinds: vec![subject.place.kind.into()],
        slots: 1,
        incarnation: format!("incarnation {}", subject.n),
        ..v1::Hello::default()
    };
    // It takes no jobs, so that its stream ends with its input.
    v1::WorkerSays { hello: Some(hello), drain: true, ..v1::WorkerSays::default() }.encode_to_vec()
}

fn queue(subject: &Subject) -> Vec<u8> {
    v1::QueueRef { queue: subject.place.queue.into() }.encode_to_vec()
}

fn named(name: &str) -> Vec<u8> {
    v1::Named { name: name.into() }.encode_to_vec()
}

fn schedule(subject: &Subject) -> Vec<u8> {
    let (name, job) = (subject.place.queue.into(), Some(new_job(subject)));
    v1::Schedule { name, timing: "every 1h".into(), job, ..v1::Schedule::default() }.encode_to_vec()
}

fn act(subject: &Subject) -> Vec<u8> {
    v1::ActRequest {
        act: v1::act_request::Act::Cancel.into(),
        queue: subject.place.queue.into(),
        kind: subject.place.kind.into(),
        dry_run: true,
        ..v1::ActRequest::default()
    }
    .encode_to_vec()
}

fn worker_id(subject: &Subject) -> data::WorkerId {
    data::WorkerId { value: subject.handler as i64 }
}

fn job_id(subject: &Subject) -> data::JobId {
    data::JobId { value: subject.job.0 as i64 }
}

fn result_id(subject: &Subject) -> Vec<u8> {
    data::JobResultId { value: (subject.job.0 as i64) << 20 }.encode_to_vec()
}

fn new_worker(subject: &Subject) -> Vec<u8> {
    service::CreateWorkerRequest {
        name: format!("{} {}", subject.place.kind, subject.n),
        r#type: data::RunnerType::Command.into(),
        operation: "date".into(),
        ..service::CreateWorkerRequest::default()
    }
    .encode_to_vec()
}

fn changed_worker(subject: &Subject) -> Vec<u8> {
    let worker = data::WorkerData {
        name: subject.place.kind.into(),
        r#type: data::RunnerType::Command.into(),
        operation: "date".into(),
        ..data::WorkerData::default()
    };
    data::Worker { id: Some(worker_id(subject)), data: Some(worker) }.encode_to_vec()
}

fn enqueue(subject: &Subject) -> Vec<u8> {
    let worker = service::job_request::Worker::WorkerName(subject.place.kind.into());
    service::JobRequest { worker: Some(worker), ..service::JobRequest::default() }.encode_to_vec()
}

fn by_worker(subject: &Subject) -> Vec<u8> {
    let worker_id = Some(worker_id(subject));
    service::FindListByWorkerIdRequest { worker_id, ..Default::default() }.encode_to_vec()
}

fn listen(subject: &Subject) -> Vec<u8> {
    let worker = service::listen_request::Worker::WorkerName(subject.place.kind.into());
    let (job_id, worker) = (Some(job_id(subject)), Some(worker));
    service::ListenRequest { job_id, worker, timeout: Some(1) }.encode_to_vec()
}

/// All calls of the descriptors must have a row.
fn check_rows() {
    let files = prost_types::FileDescriptorSet::decode(DESCRIPTORS).expect("descriptors").file;
    let is_ours = |package: &str| ["crore.v1", "lakh", "jobworkerp.service"].contains(&package);
    let mut calls = BTreeSet::new();
    for file in files.iter().filter(|file| is_ours(file.package())) {
        for service in &file.service {
            let path = |call: &str| format!("/{}.{}/{call}", file.package(), service.name());
            calls.extend(service.method.iter().map(|call| path(call.name())));
        }
    }
    let rows: BTreeSet<_> = ROWS.iter().map(|(path, ..)| (*path).to_owned()).collect();
    assert_eq!(calls, rows, "every call has a row");
}

/// The places to make a call at: covered, and not.
fn places(path: &str) -> [Place; 2] {
    if path.starts_with("/lakh.") {
        // The name of a job is its queue and its kind.
        return [Place { queue: "job", kind: "job" }, Place { queue: "other", kind: "other" }];
    }
    [Place::INSIDE, Place::OUTSIDE]
}

/// Makes a call, and returns whether it was refused, and the response.
async fn is_refused(
    world: &World,
    line: &mut RawConnection,
    (row, bearer): (Row, &Bearer),
    subject: &Subject,
) -> (bool, String) {
    let (path, _, _, message) = row;
    let headers = [
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", bearer.header.as_str()),
        ("job_names", subject.place.kind),
    ];
    // A stream of reports that is empty has no message.
    let body = if path == "/lakh.Lakh/Join" { Vec::new() } else { frame(0, &message(subject)) };
    let ask = request(&world.server, "POST", path, &headers, body);
    let denied = Some(Code::PermissionDenied as i32);
    if ENDLESS.contains(&path) {
        let said = line.begin(ask).await;
        return (said == denied, format!("{said:?}"));
    }
    let heard = line.send(ask).await;
    let text = String::from_utf8_lossy(&heard.body).into_owned();
    assert_ne!(heard.grpc(), Some(Code::Unauthenticated as i32), "{path}");
    (heard.grpc() == denied || text.contains("scope-missing"), format!("{heard:?} {text}"))
}

#[tokio::test]
async fn every_call_needs_one_of_its_scopes() {
    check_rows();
    let world = World::start().await;
    let mut line = RawConnection::open(&world.server, Version::HTTP_2).await;
    let bearers = world.single_scopes().await;
    for (row, bearer) in ROWS.iter().flat_map(|row| bearers.iter().map(move |one| (*row, one))) {
        let (path, scopes, rule, _) = row;
        let [inside, _] = places(path);
        let subject = world.subject(bearer, inside).await;
        let (refused, said) = is_refused(&world, &mut line, (row, bearer), &subject).await;
        assert_eq!(refused, !bearer.may(scopes, rule, inside), "{path} {bearer:?} {said}");
    }
}

#[tokio::test]
async fn every_call_of_a_restricted_token_stays_within_its_queues_and_kinds() {
    let world = World::start().await;
    let mut line = RawConnection::open(&world.server, Version::HTTP_2).await;
    let bearers = world.restricted().await;
    for (row, bearer) in ROWS.iter().flat_map(|row| bearers.iter().map(move |one| (*row, one))) {
        let (path, scopes, rule, _) = row;
        for place in places(path) {
            let subject = world.subject(bearer, place).await;
            let (refused, said) = is_refused(&world, &mut line, (row, bearer), &subject).await;
            let may = bearer.may(scopes, rule, place);
            assert_eq!(refused, !may, "{path} {place:?} {bearer:?} {said}");
            if rule == Rule::Filtered && bearer.by_queue && bearer.by_kind {
                assert!(!said.contains("sms") && !said.contains("resize"), "{path} {said}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_token_no_call_is_let_in_except_health() {
    let world = World::start().await;
    world.single_scopes().await;
    let mut line = RawConnection::open(&world.server, Version::HTTP_2).await;
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    for (path, ..) in ROWS {
        let ask = request(&world.server, "POST", path, &headers, frame(0, &[]));
        let said = line.begin(ask).await;
        // A caller that fails too often is refused with `RESOURCE_EXHAUSTED`.
        let refusals = [Code::Unauthenticated, Code::ResourceExhausted];
        assert!(refusals.iter().any(|code| said == Some(*code as i32)), "{path}: {said:?}");
    }
    for call in ["Check", "Watch"] {
        let path = format!("/grpc.health.v1.Health/{call}");
        let ask = request(&world.server, "POST", &path, &headers, frame(0, &[]));
        assert_eq!(line.begin(ask).await, None, "{path}");
    }
}
