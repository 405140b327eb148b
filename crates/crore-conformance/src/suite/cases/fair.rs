//! Fair share: keys of one queue and priority take turns by weight.
//!
//! Turns may start again when a store is reopened, which can happen between any two calls of a case.

use std::sync::Arc;

use crore_core::fair::{FairField, FairKey, FairShare};
use crore_core::machine::{JobEdit, JobEvent, Outcome};
use crore_core::{Job, JobId, NewJob};
use crore_store::jobs::Claim;
use crore_store::registry::QueueSettings;

use super::super::job_builder::{NewJobBuilder, job, name};
use super::super::subject::{StoreSubject, claim};

/// Shares a queue, with the weights of some keys.
async fn share(s: &StoreSubject, queue: &str, weights: &[(&str, u32)]) {
    let by = FairField::parse("payload.tenant").expect("a field");
    let weights = weights.iter().map(|(key, weight)| ((*key).to_owned(), *weight)).collect();
    let fair = Some(Arc::new(FairShare { by, weights }));
    s.set_queue(queue, QueueSettings { fair, ..QueueSettings::default() }).await;
}

fn keyed(key: &str, n: usize) -> Vec<NewJob> {
    vec![job("q").fair(key); n]
}

fn keys(jobs: &[Job]) -> String {
    let key = |job: &Job| job.spec.fair.as_ref().map_or("-", FairKey::as_str).to_owned();
    jobs.iter().map(key).collect()
}

/// The keys of the next `n` jobs of the queue, in order.
async fn next(s: &StoreSubject, n: usize) -> String {
    keys(&s.claim(&["q"], n).await)
}

pub(in super::super) async fn keys_of_a_shared_queue_take_turns(s: &StoreSubject) {
    share(s, "q", &[]).await;
    s.push_all([keyed("a", 6), keyed("b", 3), keyed("c", 1)].concat()).await;
    assert_eq!(next(s, 10).await, "abcababaaa");
}

pub(in super::super) async fn a_key_with_a_larger_weight_gets_more_turns(s: &StoreSubject) {
    share(s, "q", &[("a", 3)]).await;
    s.push_all([keyed("b", 50), keyed("a", 50)].concat()).await;
    let order = next(s, 40).await;
    assert_eq!(order.matches('a').count(), 30, "{order}");
    assert!(!order.contains("bb") && !order.contains("aaaaa"), "{order}");
}

pub(in super::super) async fn jobs_of_one_key_keep_their_order(s: &StoreSubject) {
    share(s, "q", &[]).await;
    let a = s.push_all(keyed("a", 4)).await;
    let b = s.push_all(keyed("b", 4)).await;
    let first = s.claim_one("q").await;
    assert_eq!(first.id, a[0]);
    s.finish(&first, Outcome::Interrupted).await;
    let order = s.claim_ids(&["q"], 9).await;
    let of =
        |ids: &[JobId]| order.iter().filter(|id| ids.contains(id)).copied().collect::<Vec<_>>();
    assert_eq!((of(&a), of(&b)), (a.clone(), b.clone()), "{order:?}");
}

pub(in super::super) async fn a_better_priority_precedes_any_turn(s: &StoreSubject) {
    share(s, "q", &[]).await;
    let urgent = vec![job("q").fair("a").priority(-1); 5];
    s.push_all([keyed("a", 3), keyed("b", 3), urgent].concat()).await;
    assert_eq!(next(s, 5).await, "aaaaa");
    assert_eq!(next(s, 9).await, "bababa", "what is urgent does not count for more than one turn");
}

pub(in super::super) async fn an_idle_key_does_not_save_its_turns(s: &StoreSubject) {
    share(s, "q", &[]).await;
    s.push_all([keyed("b", 1), keyed("a", 30)].concat()).await;
    assert_eq!(next(s, 12).await, "baaaaaaaaaaa");
    s.push_all(keyed("b", 9)).await;
    let order = next(s, 8).await;
    assert_eq!(order.matches('a').count(), 4, "{order}");
}

pub(in super::super) async fn a_key_has_one_turn_over_all_its_kinds(s: &StoreSubject) {
    share(s, "q", &[]).await;
    let of = |key: &str, kind: &str, n| vec![job("q").fair(key).kind(kind); n];
    s.push_all([of("a", "x", 4), of("a", "y", 4), of("b", "y", 6)].concat()).await;
    let kinds = Some(vec![name("x"), name("y")]);
    let claimed = s.ask(Claim { kinds, ..claim(&["q"], 6) }).await.jobs;
    assert_eq!(keys(&claimed), "ababab");
    assert_eq!(keys(&s.claim(&["q"], 4).await).matches('a').count(), 2, "of any kind");
    let kinds = Some(vec![name("y")]);
    let claimed = s.ask(Claim { kinds, ..claim(&["q"], 2) }).await.jobs;
    assert_eq!(keys(&claimed).matches('a').count(), 1);
}

pub(in super::super) async fn a_limited_key_does_not_hold_up_the_others(s: &StoreSubject) {
    share(s, "q", &[]).await;
    s.define_limit("x", "concurrency 1").await;
    let of = |key: &str, n| vec![job("q").fair(key).limit_for("x", key); n];
    s.push_all([of("a", 3), of("b", 3), keyed("c", 3)].concat()).await;
    let claimed = s.claim(&["q"], 9).await;
    assert_eq!(keys(&claimed), "abccc");
    s.done(&claimed[1]).await;
    assert_eq!(next(s, 9).await, "b");
    s.done(&claimed[0]).await;
    assert_eq!(next(s, 9).await, "a");
}

pub(in super::super) async fn keys_behind_one_limit_take_turns(s: &StoreSubject) {
    share(s, "q", &[("b", 2)]).await;
    s.define_limit("x", "concurrency 4").await;
    let of = |key: &str, n| vec![job("q").fair(key).limit("x"); n];
    s.push_all([of("a", 9), of("b", 9), of("c", 9)].concat()).await;
    for _ in 0..3 {
        let claimed = s.claim(&["q"], 9).await;
        let order = keys(&claimed);
        assert_eq!((claimed.len(), order.matches('b').count()), (4, 2), "{order}");
        for job in &claimed {
            s.done(job).await;
        }
    }
}

pub(in super::super) async fn turns_do_not_compare_between_queues(s: &StoreSubject) {
    share(s, "q", &[]).await;
    share(s, "r", &[]).await;
    s.push_all(keyed("a", 9)).await;
    assert_eq!(next(s, 8).await.len(), 8);
    s.push_all(vec![job("r").fair("b"); 2]).await;
    assert_eq!(keys(&s.claim(&["q", "r"], 9).await), "abb", "by due time and id");
}

pub(in super::super) async fn changed_weights_apply_from_the_next_claims(s: &StoreSubject) {
    share(s, "q", &[]).await;
    s.push_all([keyed("a", 50), keyed("b", 50)].concat()).await;
    assert_eq!(next(s, 4).await, "abab");
    share(s, "q", &[("b", 3)]).await;
    next(s, 4).await;
    let order = next(s, 20).await;
    assert_eq!(order.matches('b').count(), 15, "{order}");
}

pub(in super::super) async fn a_job_with_another_key_takes_the_turns_of_that_key(s: &StoreSubject) {
    share(s, "q", &[]).await;
    let ids = s.push_all([keyed("a", 3), keyed("b", 1)].concat()).await;
    let mut spec = (*s.job(ids[0]).await.spec).clone();
    spec.fair = Some(FairKey::new(Some("b".into())));
    let edit = JobEvent::Edit(JobEdit { spec: Some(spec.into()), due: None });
    s.apply_to_current(ids[0], &edit).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, ids, "b takes the first turn and not the second");
}
