//! Concurrent operations on a Cluster, with threads and the real clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crore_core::JobId;
use crore_remote::redis::Redis;
use crore_store::Jobs;
use crore_store::jobs::Pushed;
use crore_testkit::unique_name;
use tokio::task::JoinSet;

use crate::redis::{apply, claim, define_limit, done, job, keyed, limited, open_at, push};

const TASKS: usize = 16;

async fn store() -> Arc<Redis> {
    Arc::new(open_at(&unique_name("r"), 8, None).await)
}

/// Runs a task sixteen times concurrently, and returns all answers.
async fn at_once<T, F>(store: &Arc<Redis>, task: impl Fn(usize, Arc<Redis>) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for n in 0..TASKS {
        tasks.spawn(task(n, Arc::clone(store)));
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_job_is_claimed_twice() {
    let store = store().await;
    let keys: Vec<_> = (0..400).map(|n| keyed("q", &format!("{n}"))).collect();
    push(&store, keys).await;
    push(&store, vec![job("q"); 400]).await;
    let claimed = at_once(&store, |n, store| async move {
        let mut mine: Vec<JobId> = Vec::new();
        loop {
            let jobs = claim(&store, "q", 1 + n % 7).await;
            if jobs.is_empty() {
                return mine;
            }
            mine.extend(jobs.iter().map(|job| job.id));
        }
    });
    let all: Vec<_> = claimed.await.concat();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (800, 800));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_limit_is_exceeded_and_no_permit_is_lost() {
    let store = store().await;
    define_limit(&store, "x", "concurrency 3").await;
    define_limit(&store, "y", "concurrency 2").await;
    let new = (0..160).map(|n| {
        let mut job = limited("q", "x");
        if n % 2 == 0 {
            job.spec.limits.push(limited("q", "y").spec.limits.remove(0));
        }
        job.spec.unique = keyed("q", &format!("{n}")).spec.unique;
        job
    });
    push(&store, new.collect()).await;
    let running: [Arc<AtomicUsize>; 2] = Default::default();
    let ended = Arc::new(AtomicUsize::new(0));
    at_once(&store, |n, store| {
        let (running, ended) = (running.clone(), Arc::clone(&ended));
        async move {
            while ended.load(Ordering::SeqCst) < 160 {
                for job in claim(&store, "q", 1 + n % 3).await {
                    let of = job.spec.limits.len();
                    for (count, most) in running.iter().zip([3, 2]).take(of) {
                        let now = count.fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(now <= most, "{now} of {most} run");
                    }
                    tokio::task::yield_now().await;
                    running.iter().take(of).for_each(|count| {
                        count.fetch_sub(1, Ordering::SeqCst);
                    });
                    apply(&store, done(&job, Vec::new())).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    })
    .await;
    push(&store, vec![limited("q", "x"); 9]).await;
    assert_eq!(claim(&store, "q", 9).await.len(), 3, "all permits are returned");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_concurrent_pushes_with_one_key_is_new() {
    let store = store().await;
    let answers =
        at_once(&store, |_, store| async move { push(&store, vec![keyed("q", "key")]).await });
    let answers = answers.await.concat();
    let new = answers.iter().filter(|answer| matches!(answer, Pushed::New(_))).count();
    let ids: BTreeSet<_> = answers.iter().filter_map(|answer| answer.id()).collect();
    assert_eq!((answers.len(), new, ids.len()), (TASKS, 1, 1));
}

/// Batches that need the same locks of several shards, each in another order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_batches_store_each_key_once() {
    let store = store().await;
    let answers = at_once(&store, |n, store| async move {
        let mut keys: Vec<_> = (0..10).map(|k| keyed("q", &format!("key-{k}"))).collect();
        keys.rotate_left(n % 10);
        push(&store, keys).await
    });
    let answers = answers.await.concat();
    let new: Vec<_> = answers.iter().filter(|answer| matches!(answer, Pushed::New(_))).collect();
    let ids: BTreeSet<_> = answers.iter().filter_map(|answer| answer.id()).collect();
    assert_eq!((new.len(), ids.len()), (10, 10));
    assert_eq!(claim(&store, "q", 99).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_concurrent_reports_counts() {
    let store = store().await;
    push(&store, vec![keyed("q", "a")]).await;
    let job = claim(&store, "q", 1).await.remove(0);
    let answers = at_once(&store, |_, store| {
        let then = (0..5).map(|n| keyed("then", &format!("then-{n}"))).collect();
        let write = done(&job, then);
        async move { apply(&store, write).await }
    });
    let yes = answers.await.into_iter().filter(|a| *a != crore_store::jobs::Applied::Stale).count();
    assert_eq!((yes, claim(&store, "then", 99).await.len()), (1, 5));
    assert_eq!(store.get(vec![job.id.into()]).await.expect("an answer").len(), 1);
}
