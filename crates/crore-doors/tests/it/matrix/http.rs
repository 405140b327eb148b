//! The calls of the HTTP doors: the native API, LightJQ and Jobber.

use std::collections::BTreeSet;

use crore_api::Scope::{self, Admin, Define, Operate, Push, Read, Work};

use super::{Bearer, Place, Rule, Subject, World};
use crate::access::calls;
use crate::raw::{RawReply, send};

/// The id of a call, its scopes, its rule, and its body or query.
type Row = (&'static str, &'static [Scope], Rule, &'static str);

/// Every call in the API description that needs a token.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("push",            &[Push],          Rule::Job,        r#"{"queue":"QUEUE","kind":"KIND","payload":1}"#),
    ("listJobs",        &[Read],          Rule::Filtered,   ""),
    ("actOnAll",        &[Operate],       Rule::Job,        r#"{"act":"cancel","filter":{"queue":"QUEUE","kind":"KIND"},"dry_run":true}"#),
    ("previewOperation", &[Operate],      Rule::Job,        r#"{"act":"cancel","filter":{"q":"queue:QUEUE kind:KIND"}}"#),
    ("startOperation",  &[Operate],       Rule::Job,        r#"{"act":"cancel","filter":{"q":"queue:QUEUE kind:KIND"},"dry_run":true}"#),
    ("listOperations",  &[Read],          Rule::Open,       ""),
    ("getOperation",    &[Read],          Rule::Open,       ""),
    ("cancelOperation", &[Operate],       Rule::Open,       ""),
    ("getJob",          &[Read],          Rule::Job,        ""),
    ("changeJob",       &[Operate],       Rule::Job,        r#"{"priority":1}"#),
    ("deleteJob",       &[Operate],       Rule::Job,        ""),
    ("cancelJob",       &[Operate],       Rule::Job,        ""),
    ("retryJob",        &[Operate],       Rule::Job,        ""),
    ("replayJob",       &[Push],          Rule::Job,        "{}"),
    ("getResult",       &[Push, Read],    Rule::Job,        ""),
    ("diffJob",         &[Read],          Rule::Job,        ""),
    ("explainJob",      &[Read],          Rule::Job,        ""),
    ("completeFilter",  &[Read],          Rule::Filtered,   "?q=queue:"),
    ("listErrors",      &[Read],          Rule::Job,        "?queue=QUEUE&kind=KIND"),
    ("getError",        &[Read],          Rule::Open,       ""),
    ("getNotes",        &[Read],          Rule::Job,        ""),
    ("addNotes",        &[Work],          Rule::Job,        r#"{"notes":[{"id":"JOB","delivery":"1","percent":1}]}"#),
    ("fetch",           &[Work],          Rule::Job,        r#"{"queues":["QUEUE"],"kinds":["KIND"],"worker":"w"}"#),
    ("renew",           &[Work],          Rule::Job,        r#"{"jobs":[{"id":"JOB","delivery":"1"}]}"#),
    ("finish",          &[Work],          Rule::Job,        r#"{"jobs":[{"id":"JOB","delivery":"1","outcome":"done"}]}"#),
    ("listQueues",      &[Read],          Rule::Filtered,   ""),
    ("getQueue",        &[Read],          Rule::Queue,      ""),
    ("changeQueue",     &[Operate],       Rule::WholeQueue, r#"{"max_done":9}"#),
    ("pauseQueue",      &[Operate],       Rule::WholeQueue, ""),
    ("resumeQueue",     &[Operate],       Rule::WholeQueue, ""),
    ("drainQueue",      &[Operate],       Rule::WholeQueue, ""),
    ("explainQueue",    &[Read],          Rule::WholeQueue, ""),
    ("listSchedules",   &[Read],          Rule::Filtered,   ""),
    ("getSchedule",     &[Read],          Rule::Job,        ""),
    ("setSchedule",     &[Define],        Rule::Job,        r#"{"timing":"every 2h","job":{"queue":"QUEUE","kind":"KIND","payload":1}}"#),
    ("deleteSchedule",  &[Define],        Rule::Job,        ""),
    ("pauseSchedule",   &[Operate],       Rule::Job,        ""),
    ("resumeSchedule",  &[Operate],       Rule::Job,        ""),
    ("runSchedule",     &[Operate],       Rule::Job,        ""),
    ("scheduleRuns",    &[Read],          Rule::Job,        ""),
    ("previewTiming",   &[Read],          Rule::Open,       "?timing=every%201h"),
    ("listLimits",      &[Read],          Rule::Refused,    ""),
    ("getLimit",        &[Read],          Rule::Refused,    ""),
    ("setLimit",        &[Define],        Rule::Refused,    r#"{"limit":"rate 5/1m"}"#),
    ("deleteLimit",     &[Define],        Rule::Refused,    ""),
    ("listHandlers",    &[Read],          Rule::Filtered,   ""),
    ("getHandler",      &[Read],          Rule::Kind,       ""),
    ("setHandler",      &[Define],        Rule::WholeKind,  r#"{"runner":"command","settings":{"program":"date"}}"#),
    ("deleteHandler",   &[Define],        Rule::WholeKind,  ""),
    ("listGroups",      &[Read],          Rule::Open,       ""),
    ("getGroup",        &[Read],          Rule::Group,      ""),
    ("sealGroup",       &[Push, Operate], Rule::Group,      ""),
    ("listWorkers",     &[Read],          Rule::Filtered,   ""),
    ("setWorker",       &[Work],          Rule::Refused,    "{}"),
    ("deleteWorker",    &[Work],          Rule::Refused,    ""),
    ("quietWorker",     &[Operate],       Rule::Open,       ""),
    ("resumeWorker",    &[Operate],       Rule::Open,       ""),
    ("stopWorker",      &[Operate],       Rule::Open,       ""),
    ("listTokens",      &[Admin],         Rule::Refused,    ""),
    ("createToken",     &[Admin],         Rule::Refused,    r#"{"name":"new N","scopes":["push"]}"#),
    ("deleteToken",     &[Admin],         Rule::Refused,    ""),
    ("createBackup",    &[Admin],         Rule::Refused,    r#"{"name":"b"}"#),
    ("readAudit",       &[Admin],         Rule::Refused,    ""),
    ("storage",         &[Read],          Rule::Open,       ""),
    ("counts",          &[Read],          Rule::Filtered,   ""),
    ("stats",           &[Read],          Rule::Job,        "?queue=QUEUE&kind=KIND"),
    ("listMarks",       &[Read],          Rule::Open,       ""),
    ("events",          &[Read],          Rule::Filtered,   ""),
    ("sendEvent",       &[Push],          Rule::Refused,    r#"{"payload":1}"#),
    ("getEvent",        &[Read],          Rule::Refused,    ""),
    ("removeEvent",     &[Operate],       Rule::Refused,    ""),
    ("listEvents",      &[Read],          Rule::Refused,    ""),
    ("info",            &[Read],          Rule::Open,       ""),
    ("metrics",         &[Read],          Rule::Refused,    ""),
    ("lightjqPush",     &[Push],          Rule::Job,        r#"{"name":"KIND","argument":{}}"#),
    ("lightjqStatus",   &[Push, Read],    Rule::Job,        ""),
    ("lightjqPolling",  &[Push, Read],    Rule::Job,        "?timeout=0"),
    ("lightjqCancel",   &[Operate],       Rule::Job,        ""),
    ("lightjqJoin",     &[Work],          Rule::WholeQueue, r#"{"name":"w","max_jobs":1,"url":"http://192.0.2.1"}"#),
    ("lightjqLeave",    &[Work],          Rule::WholeQueue, ""),
    ("lightjqDone",     &[Work],          Rule::Job,        r#"{"job_id":"JOB","type":"success"}"#),
];

/// Calls without a token.
const PUBLIC: [&str; 2] = ["livez", "readyz"];

/// A call: its row, its method and its path.
struct Call {
    row: Row,
    method: String,
    path: String,
}

/// All calls, from the description and the table; they must be the same.
fn every_call(world: &World) -> Vec<Call> {
    let described = calls(&world.server.doors);
    let known: BTreeSet<_> = described.iter().map(|call| call.id.as_str()).collect();
    let rows: BTreeSet<_> = ROWS.iter().map(|(id, ..)| *id).chain(PUBLIC).collect();
    assert_eq!(known, rows, "every call has a row");
    let row = |id: &str| ROWS.iter().find(|(known, ..)| *known == id).copied();
    let all = described.into_iter();
    all.filter_map(|call| {
        let row = row(&call.id)?;
        assert_eq!(call.scopes, row.1, "{}: the scopes in the description", call.id);
        Some(Call { row, method: call.method, path: call.path })
    })
    .collect()
}

impl Call {
    /// The places to call it at: covered, and not.
    fn places(&self) -> [Place; 2] {
        if self.row.0.starts_with("lightjq") {
            return [
                Place { queue: "lightjq", kind: "send" },
                Place { queue: "lightjq", kind: "resize" },
            ];
        }
        [Place::INSIDE, Place::OUTSIDE]
    }

    async fn make(&self, world: &World, bearer: &Bearer, subject: Subject) -> RawReply {
        let Subject { place, job, group, n, .. } = subject;
        let fill = |text: &str| {
            text.replace("QUEUE", place.queue)
                .replace("KIND", place.kind)
                .replace("JOB", &job.to_string())
                .replace("new N", &format!("new {n}"))
        };
        let id = if self.path.contains("/groups/") { group.to_string() } else { job.to_string() };
        let path = self.path.replace("{id}", &id).replace("{job_id}", &id);
        let path = path.replace("{fingerprint}", "0123456789abcdef");
        let path = path.replace("{queue}", place.queue).replace("{kind}", place.kind);
        // Schedules have the names of their queues.
        let path = path.replace("{name}", place.queue);
        assert!(!path.contains('{'), "{path}");
        let (query, body) = match self.row.3 {
            query if query.starts_with('?') => (fill(query), String::new()),
            body => (String::new(), fill(body)),
        };
        request(world, &self.method, &format!("{path}{query}"), bearer, &body).await
    }
}

async fn request(world: &World, method: &str, path: &str, bearer: &Bearer, body: &str) -> RawReply {
    let (to, length, token) = (world.server.address, body.len(), &bearer.header);
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\nauthorization: {token}\r\nworker-id: w\r\naccept: \
         */*\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    send(to, 1, &request).await
}

fn is_refused(heard: &RawReply) -> bool {
    assert_ne!(heard.status, 401, "{heard:?}");
    let is_refused = heard.status == 403;
    assert!(!is_refused || heard.body.contains("scope-missing"), "{heard:?}");
    is_refused
}

#[tokio::test]
async fn every_call_needs_one_of_its_scopes() {
    let world = World::start().await;
    let bearers = world.single_scopes().await;
    for call in every_call(&world) {
        let (id, scopes, rule, _) = call.row;
        let [inside, _] = call.places();
        for bearer in &bearers {
            let subject = world.subject(bearer, inside).await;
            let heard = call.make(&world, bearer, subject).await;
            let may = bearer.may(scopes, rule, inside);
            assert_eq!(is_refused(&heard), !may, "{id} {bearer:?} {heard:?}");
        }
    }
}

#[tokio::test]
async fn every_call_of_a_restricted_token_stays_within_its_queues_and_kinds() {
    let world = World::start().await;
    let bearers = world.restricted().await;
    for call in every_call(&world) {
        let (id, scopes, rule, _) = call.row;
        for (bearer, place) in bearers.iter().flat_map(|one| call.places().map(|at| (one, at))) {
            let subject = world.subject(bearer, place).await;
            let heard = call.make(&world, bearer, subject).await;
            // The description of a group's place is whether it is the token's own.
            let may = bearer.may(scopes, rule, place);
            assert_eq!(is_refused(&heard), !may, "{id} {place:?} {bearer:?} {heard:?}");
            if rule == Rule::Filtered && bearer.by_queue && bearer.by_kind {
                let hidden = ["\"sms\"", "\"resize\""];
                assert!(hidden.iter().all(|name| !heard.body.contains(name)), "{id} {heard:?}");
                let shown = ["listWorkers", "events"].contains(&id) || heard.body.contains("mail");
                assert!(shown || heard.body.contains("send"), "{id} {heard:?}");
            }
            if rule == Rule::Job && !may && scopes != [Admin] {
                let named = [place.queue, place.kind].map(|name| format!("`{name}`"));
                assert!(named.iter().any(|name| heard.body.contains(name)), "{id} {heard:?}");
            }
        }
    }
}

#[tokio::test]
async fn jobber_needs_push_for_the_type_of_the_job() {
    let world = World::start().await;
    let bearers = [world.single_scopes().await, world.restricted().await].concat();
    for (path, bearer) in ["/jobber/queue", "/jobs"]
        .iter()
        .flat_map(|path| bearers.iter().map(move |one| (path, one)))
    {
        for kind in ["job", "other"] {
            let place = Place { queue: kind, kind };
            let body = format!(r#"{{"type":"{kind}","payload":1}}"#);
            let heard = request(&world, "POST", path, bearer, &body).await;
            let may = bearer.may(&[Push], Rule::Job, place);
            assert_eq!(is_refused(&heard), !may, "{path} {kind} {bearer:?} {heard:?}");
            assert_eq!(heard.status == 201, may, "{heard:?}");
        }
    }
}

#[tokio::test]
async fn jobber_shows_a_job_to_its_pusher_and_to_readers() {
    let world = World::start().await;
    let (single, restricted) = (world.single_scopes().await, world.restricted().await);
    let inside = single.iter().chain(&restricted).map(|bearer| (bearer, Place::INSIDE));
    let outside = restricted.iter().map(|bearer| (bearer, Place::OUTSIDE));
    for (bearer, place) in inside.chain(outside) {
        let Subject { job, .. } = world.subject(bearer, place).await;
        for path in ["/jobber/queue", "/jobs"] {
            let heard = request(&world, "GET", &format!("{path}/{job}"), bearer, "").await;
            let may = bearer.may(&[Push, Read], Rule::Job, place);
            assert_eq!(is_refused(&heard), !may, "{path} {place:?} {bearer:?} {heard:?}");
            assert_eq!(heard.status == 200, may, "{heard:?}");
        }
    }
}
