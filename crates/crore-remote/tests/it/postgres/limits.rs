use crore_core::limit::{Limit, LimitKey};
use crore_core::machine::Outcome;
use crore_core::{NewJob, Span};
use crore_store::registry::{Define, RegistryTable, RegistryValue};
use crore_store::{Jobs, Registry};

use super::{DONE, ask, job, name, spec, subject};

pub(super) fn limit(text: &str) -> RegistryValue {
    RegistryValue::Limit(Limit::parse(text).expect("a valid limit"))
}

pub(super) fn limited(keys: &[(&str, Option<&str>)]) -> NewJob {
    let mut spec = spec("q", "k");
    let key = |(limit, value): &(&str, Option<&str>)| LimitKey {
        limit: name(limit),
        value: value.map(Into::into),
    };
    spec.limits = keys.iter().map(key).collect();
    spec.into()
}

#[tokio::test]
async fn concurrency_is_limited_per_value_and_the_end_releases_the_permit() {
    let Some(it) = subject().await else { return };
    it.define("c", limit("concurrency 2 per payload.t")).await;
    let jobs = [["a"; 4].as_slice(), &["b"; 1]].concat();
    let ids = it.push(jobs.iter().map(|t| limited(&[("c", Some(t))])).collect()).await;
    let running = it.claim(ask(&["q"], 9)).await;
    let got: Vec<_> = running.iter().map(|job| job.id).collect();
    assert_eq!(got, [ids[0], ids[1], ids[4]]);
    assert_eq!(it.claim(ask(&["q"], 9)).await, []);
    it.finish(&running[0], DONE).await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[2]]);
    it.finish(&running[1], Outcome::Interrupted).await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[1]], "a job handed back keeps its place");
    it.finish(&running[0], DONE).await;
    assert_eq!(it.claim(ask(&["q"], 9)).await, [], "a stale report returns nothing");
}

#[tokio::test]
async fn a_rate_grants_its_permits_and_reports_the_next_time() {
    let Some(it) = subject().await else { return };
    it.define("r", limit("rate 10/1s burst 3")).await;
    let ids = it.push(vec![limited(&[("r", None)]); 6]).await;
    assert_eq!(it.claim_ids(ask(&["q"], 2)).await, ids[..2]);
    let claimed = it.store.claim(ask(&["q"], 9)).await.expect("claims");
    assert_eq!(claimed.jobs.len(), 1);
    assert_eq!(claimed.next_at, Some(it.now().after(Span::from_millis(100))));
    it.clock.advance(Span::from_millis(99));
    assert_eq!(it.claim(ask(&["q"], 9)).await, []);
    it.clock.advance(Span::from_millis(1));
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[3]]);
    it.clock.advance(Span::from_secs(60));
    let rest = it.store.claim(ask(&["q"], 9)).await.expect("claims");
    assert_eq!((rest.jobs.len(), rest.next_at), (2, None));
}

#[tokio::test]
async fn blocked_jobs_are_skipped_and_all_keys_need_a_permit() {
    let Some(it) = subject().await else { return };
    it.define("one", limit("concurrency 1")).await;
    it.define("two", limit("concurrency 2 per payload.t")).await;
    let both = limited(&[("one", None), ("two", Some("t"))]);
    let ids = it
        .push(vec![
            both.clone(),
            both.clone(),
            limited(&[("two", Some("t"))]),
            limited(&[("two", Some("t"))]),
            limited(&[("undefined", Some("t"))]),
            job("q"),
        ])
        .await;
    let running = it.claim(ask(&["q"], 9)).await;
    let got: Vec<_> = running.iter().map(|job| job.id).collect();
    assert_eq!(got, [ids[0], ids[2], ids[4], ids[5]]);
    it.finish(&running[0], DONE).await;
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[1]]);
    assert_eq!(it.claim(ask(&["q"], 9)).await, [], "the permit of `two` was not wasted");
}

#[tokio::test]
async fn a_small_claim_finds_jobs_behind_lanes_that_share_a_permit() {
    let Some(it) = subject().await else { return };
    it.define("x", limit("concurrency 2")).await;
    it.define("y", limit("concurrency 2")).await;
    let both = limited(&[("x", None), ("y", None)]);
    let ids = it
        .push(vec![both.clone(), both, limited(&[("x", None)]), limited(&[("y", None)]), job("q")])
        .await;
    assert_eq!(it.claim_ids(ask(&["q"], 3)).await, [ids[0], ids[1], ids[4]]);
}

#[tokio::test]
async fn running_jobs_are_counted_before_their_limit_is_defined() {
    let Some(it) = subject().await else { return };
    it.push(vec![limited(&[("c", None)]); 3]).await;
    let early = it.claim(ask(&["q"], 1)).await;
    it.define("c", limit("concurrency 1")).await;
    assert_eq!(it.claim(ask(&["q"], 9)).await, []);
    it.finish(&early[0], DONE).await;
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 1);
    let gone = Define::remove(RegistryTable::Limits, name("c"));
    _ = it.store.define(vec![gone]).await.expect("removes");
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 1);
}

#[tokio::test]
async fn overdrawn_bucket_is_corrected_while_others_run() {
    let Some(it) = subject().await else { return };
    it.define("r", limit("rate 1/1h")).await;
    let ids = it.push(vec![limited(&[("r", None)]), limited(&[("r", None)]), job("q")]).await;
    assert_eq!(it.claim_ids(ask(&["q"], 1)).await, [ids[0]]);
    it.define("r", limit("rate 1/1s")).await;
    let claimed = it.store.claim(ask(&["q"], 9)).await.expect("claims");
    assert_eq!(claimed.next_at, Some(it.now().after(Span::from_secs(1))));
    assert_eq!(claimed.jobs.len(), 1);
    it.clock.advance(Span::from_secs(1));
    assert_eq!(it.claim_ids(ask(&["q"], 9)).await, [ids[1]]);
}

#[tokio::test]
async fn an_expired_limit_holds_no_job() {
    let Some(it) = subject().await else { return };
    let mut short = Define::set(name("c"), limit("concurrency 0"));
    short.expires_after = Some(Span::from_secs(5));
    _ = it.store.define(vec![short]).await.expect("defines");
    it.push(vec![limited(&[("c", None)])]).await;
    it.clock.advance(Span::from_millis(4999));
    assert_eq!(it.claim(ask(&["q"], 9)).await, []);
    it.clock.advance(Span::from_millis(1));
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 1);
}
