//! Required versions: a job is delivered only to a claim whose version of its kind satisfies the requirement.

use std::sync::Arc;

use crore_core::fair::{FairField, FairShare};
use crore_core::machine::{JobEdit, JobEvent, Outcome};
use crore_core::version::{KindVersions, VersionRequirement};
use crore_core::{Job, JobId, NewJob, Spec, State};
use crore_store::jobs::{Claim, QueueOrder};
use crore_store::registry::QueueSettings;
use crore_store::views::{JobCount, ListQuery, RequiredVersion};

use super::super::job_builder::{NewJobBuilder, job, jobs, name};
use super::super::subject::{StoreSubject, claim, expect_ok, ids};

/// A claim of any kind by a worker with these versions.
fn with(versions: &[(&str, &str)], n: usize) -> Claim {
    let versions = KindVersions::parse(versions.iter().copied()).expect("versions");
    Claim { versions, ..claim(&["q"], n) }
}

async fn claim_ids(s: &StoreSubject, ask: Claim) -> Vec<JobId> {
    ids(&s.ask(ask).await.jobs)
}

fn needs(text: &str) -> NewJob {
    job("q").for_versions(text)
}

pub(in super::super) async fn a_claim_without_versions_gets_no_job_that_requires_one(
    s: &StoreSubject,
) {
    s.push_all(vec![needs(">=0"), needs(">=2.3")]).await;
    let plain = s.push(job("q")).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [plain]);
    let kinds = Some(vec![name("work")]);
    assert_eq!(claim_ids(s, Claim { kinds, ..claim(&["q"], 9) }).await, []);
}

pub(in super::super) async fn a_claim_gets_the_jobs_whose_requirement_its_version_satisfies(
    s: &StoreSubject,
) {
    let texts = [">=2.3", "<2", "=2.3", ">=2 <3", ">=0"];
    let pushed = s.push_all(texts.iter().map(|text| needs(text)).collect()).await;
    assert_eq!(claim_ids(s, with(&[("work", "1.9.9")], 9)).await, [pushed[1], pushed[4]]);
    assert_eq!(claim_ids(s, with(&[("work", "3")], 1)).await, [pushed[0]]);
    assert_eq!(claim_ids(s, with(&[("work", "2.2.9")], 9)).await, [pushed[3]]);
    assert_eq!(claim_ids(s, with(&[("work", "2.4")], 9)).await, []);
    assert_eq!(claim_ids(s, with(&[("work", "2.3.7")], 9)).await, [pushed[2]]);
}

pub(in super::super) async fn a_version_counts_for_its_kind_only(s: &StoreSubject) {
    let other = s.push(needs(">=2").kind("other")).await;
    let work = s.push(needs(">=2")).await;
    assert_eq!(claim_ids(s, with(&[("work", "2"), ("other", "1")], 9)).await, [work]);
    let kinds = Some(vec![name("work")]);
    let ask = Claim { kinds, ..with(&[("work", "2"), ("other", "2")], 9) };
    assert_eq!(claim_ids(s, ask).await, [], "of a kind that the claim does not name");
    assert_eq!(claim_ids(s, with(&[("other", "2")], 9)).await, [other]);
}

pub(in super::super) async fn jobs_with_and_without_a_requirement_keep_their_order(
    s: &StoreSubject,
) {
    let mixed = vec![
        needs(">=2"),
        job("q"),
        needs(">=2").priority(-1),
        needs("=2.1"),
        job("q").kind("other"),
        job("q").priority(-2),
        needs("<2"),
        needs(">=2").kind("other"),
    ];
    let p = s.push_all(mixed).await;
    let ask = with(&[("work", "2.1"), ("other", "2")], 3);
    assert_eq!(claim_ids(s, ask).await, [p[5], p[2], p[0]]);
    let kinds = Some(vec![name("work"), name("other")]);
    let ask = Claim { kinds, ..with(&[("work", "2.1"), ("other", "2")], 9) };
    assert_eq!(claim_ids(s, ask).await, [p[1], p[3], p[4], p[7]]);
}

pub(in super::super) async fn a_queue_in_strict_order_has_its_versioned_jobs_first(
    s: &StoreSubject,
) {
    let first = s.push(job("b").priority(-1)).await;
    let second = s.push(needs(">=2")).await;
    let third = s.push(job("b").for_versions(">=2")).await;
    let queues = vec![name("q"), name("b")];
    let ask = Claim { queues, order: QueueOrder::Strict, ..with(&[("work", "2")], 9) };
    assert_eq!(claim_ids(s, ask).await, [second, first, third]);
}

pub(in super::super) async fn limits_hold_over_all_required_versions(s: &StoreSubject) {
    s.define_limit("x", "concurrency 2").await;
    let limited = vec![needs(">=2").limit("x"), needs("=2").limit("x"), job("q").limit("x")];
    let p = s.push_all(limited).await;
    let ask = || with(&[("work", "2")], 9);
    let claimed = s.ask(ask()).await.jobs;
    assert_eq!(ids(&claimed), p[..2]);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    s.done(&claimed[0]).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [p[2]], "the permit of a versioned job");
    let again = s.push(needs(">=2").limit("x")).await;
    assert_eq!(claim_ids(s, ask()).await, []);
    s.done(&claimed[1]).await;
    assert_eq!(claim_ids(s, ask()).await, [again]);
}

pub(in super::super) async fn a_key_has_one_turn_over_all_its_required_versions(s: &StoreSubject) {
    let by = FairField::parse("payload.tenant").expect("a field");
    let fair = Some(Arc::new(FairShare { by, weights: [].into() }));
    s.set_queue("q", QueueSettings { fair, ..QueueSettings::default() }).await;
    let of = |job: NewJob, key: &str, n| vec![job.fair(key); n];
    let all = [
        of(needs(">=2"), "a", 2),
        of(job("q"), "a", 2),
        of(needs("=2"), "b", 4),
        of(needs(">=3"), "c", 4),
    ];
    s.push_all(all.concat()).await;
    let keys = |jobs: &[Job]| -> String {
        jobs.iter().filter_map(|job| Some(job.spec.fair.as_ref()?.as_str().to_owned())).collect()
    };
    assert_eq!(keys(&s.claim(&["q"], 1).await), "a", "only one needs no version");
    let claimed = s.ask(with(&[("work", "2")], 4)).await.jobs;
    let (a, b) = (keys(&claimed).matches('a').count(), keys(&claimed).matches('b').count());
    assert!(a + b == 4 && (1..=2).contains(&a), "{a} and {b}");
    let claimed = s.ask(with(&[("work", "3")], 9)).await.jobs;
    assert_eq!(keys(&claimed).matches('c').count(), 4);
    assert_eq!(s.claim(&["q"], 9).await, []);
}

pub(in super::super) async fn a_paused_queue_delivers_no_version(s: &StoreSubject) {
    let needed = s.push(needs(">=2")).await;
    s.set_queue("q", QueueSettings { paused: true, ..QueueSettings::default() }).await;
    assert_eq!(claim_ids(s, with(&[("work", "2")], 9)).await, []);
    s.set_queue("q", QueueSettings::default()).await;
    assert_eq!(claim_ids(s, with(&[("work", "2")], 9)).await, [needed]);
}

pub(in super::super) async fn a_returned_job_keeps_its_requirement(s: &StoreSubject) {
    let needed = s.push(needs(">=2")).await;
    let claimed = s.ask(with(&[("work", "2")], 9)).await.jobs;
    assert_eq!(
        claimed[0].spec.worker_version.as_deref().map(ToString::to_string).as_deref(),
        Some(">=2")
    );
    s.finish(&claimed[0], Outcome::Interrupted).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
    assert_eq!(claim_ids(s, with(&[("work", "2")], 9)).await, [needed]);
}

pub(in super::super) async fn an_edited_requirement_applies(s: &StoreSubject) {
    let first = s.push(needs(">=2")).await;
    let second = s.push(job("q")).await;
    let required = VersionRequirement::parse("worker_version", ">=3").expect("a requirement");
    for (id, worker_version) in [(first, None), (second, Some(Box::new(required)))] {
        let spec = Spec { worker_version, ..Spec::clone(&s.job(id).await.spec) };
        let edit = JobEdit { spec: Some(Arc::new(spec)), due: None };
        s.apply_to_current(id, &JobEvent::Edit(edit)).await;
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, [first]);
    assert_eq!(claim_ids(s, with(&[("work", "2")], 9)).await, []);
    assert_eq!(claim_ids(s, with(&[("work", "3")], 9)).await, [second]);
}

pub(in super::super) async fn lists_and_counts_include_jobs_that_require_versions(
    s: &StoreSubject,
) {
    let p = s.push_all(vec![needs(">=2"), job("q"), needs("=2"), job("q").kind("other")]).await;
    let list = |kind: Option<&str>| ListQuery {
        state: State::Ready,
        queue: Some(name("q")),
        kind: kind.map(name),
        key: None,
        after: None,
        n: 9,
    };
    assert_eq!(ids(&expect_ok(s.store.list(list(None))).await.jobs), p);
    assert_eq!(ids(&expect_ok(s.store.list(list(Some("work")))).await.jobs), p[..3]);
    let count =
        |kind: &str, n| JobCount { queue: name("q"), kind: name(kind), state: State::Ready, n };
    assert_eq!(expect_ok(s.store.counts(None)).await, [count("other", 1), count("work", 3)]);
}

pub(in super::super) async fn required_versions_are_counted_while_jobs_are_ready(s: &StoreSubject) {
    let required = |queue: &str, text: &str, n| RequiredVersion {
        queue: name(queue),
        kind: name("work"),
        version: VersionRequirement::parse("worker_version", text).expect("a requirement"),
        n,
    };
    s.push_all([jobs("q", 2), vec![needs(">=2"), needs("> 1"), needs("<2")]].concat()).await;
    s.push(job("b").for_versions("=1")).await;
    let expected = [required("b", "=1", 1), required("q", "<2", 1), required("q", ">=2", 2)];
    assert_eq!(expect_ok(s.store.required_versions(None)).await, expected);
    assert_eq!(expect_ok(s.store.required_versions(Some(name("q")))).await, expected[1..]);
    let claimed = s.ask(with(&[("work", "2")], 9)).await.jobs;
    assert_eq!(claimed.len(), 4);
    let left = expect_ok(s.store.required_versions(Some(name("q")))).await;
    assert_eq!(left, [required("q", "<2", 1)]);
}
