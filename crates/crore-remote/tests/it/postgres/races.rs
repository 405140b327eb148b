//! Races of many nodes on real connections.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crore_core::job::{ClientId, DependencyCondition};
use crore_core::machine::{JobEvent, Outcome, decide};
use crore_core::push::{NewDependency, NewDependencyTarget};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{Job, NewJob, Span, State};
use crore_remote::sql::Postgres;
use crore_store::Jobs;
use crore_store::jobs::{Applied, Pushed, StoreWrite};

use super::limits::{limit, limited};
use super::{DONE, PostgresSubject, ask, job, name, spec, subject};

/// Several nodes, each with its own connections.
async fn nodes(it: &PostgresSubject, n: usize) -> Vec<Postgres> {
    let mut nodes = vec![it.store.clone()];
    while nodes.len() < n {
        nodes.push(it.node().await);
    }
    nodes
}

/// Runs `task` `n` times concurrently, spread over the nodes.
async fn at_once<T, F>(nodes: &[Postgres], n: usize, task: impl Fn(Postgres, usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let tasks: Vec<_> =
        (0..n).map(|i| tokio::spawn(task(nodes[i % nodes.len()].clone(), i))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("does not panic"));
    }
    answers
}

fn report(job: &Job, outcome: Outcome) -> StoreWrite {
    let delivery = Some(job.live.delivery);
    let event = JobEvent::Finished { delivery, report: outcome.into() };
    StoreWrite::Job(decide(job, &event, 0).expect("decided"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_job_is_claimed_twice_and_all_are_claimed() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 3).await;
    let mut jobs = vec![job("a"); 150];
    jobs.extend(vec![job("b"); 150]);
    it.push(jobs).await;
    let claimed = at_once(&nodes, 16, |node, i| async move {
        let mut got = Vec::new();
        loop {
            let jobs = node.claim(ask(&["a", "b"], 1 + i % 5)).await.expect("claims").jobs;
            if jobs.is_empty() {
                return got;
            }
            got.extend(jobs.into_iter().map(|job| (job.id, job.live.delivery)));
        }
    })
    .await;
    let all: Vec<_> = claimed.into_iter().flatten().collect();
    let ids: BTreeSet<_> = all.iter().map(|(id, _)| *id).collect();
    let deliveries: BTreeSet<_> = all.iter().map(|(_, delivery)| *delivery).collect();
    assert_eq!((all.len(), ids.len(), deliveries.len()), (300, 300, 300));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_never_exceed_a_concurrency_limit() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 3).await;
    it.define("c", limit("concurrency 3 per payload.t")).await;
    it.define("all", limit("concurrency 4")).await;
    let keyed = |t| limited(&[("all", None), ("c", Some(t))]);
    it.push([vec![keyed("a"); 60], vec![keyed("b"); 60]].concat()).await;
    let running = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
    let ended = Arc::new(AtomicUsize::new(0));
    at_once(&nodes, 12, |node, i| {
        let (running, ended) = (Arc::clone(&running), Arc::clone(&ended));
        async move {
            while ended.load(Ordering::SeqCst) < 120 {
                let jobs = node.claim(ask(&["q"], 1 + i % 4)).await.expect("claims").jobs;
                for job in &jobs {
                    let nth = usize::from(job.spec.limits[1].value.as_deref() == Some("b"));
                    let here = running[nth].fetch_add(1, Ordering::SeqCst) + 1;
                    let both: i64 = running.iter().map(|n| n.load(Ordering::SeqCst)).sum();
                    assert!(here <= 3 && both <= 4, "{here} of {both}");
                }
                let writes: Vec<_> = jobs.iter().map(|job| report(job, DONE)).collect();
                for job in &jobs {
                    let nth = usize::from(job.spec.limits[1].value.as_deref() == Some("b"));
                    running[nth].fetch_sub(1, Ordering::SeqCst);
                }
                let applied = node.apply(writes).await.expect("applies").into_inner();
                assert!(applied.iter().all(|applied| *applied == Applied::Yes(vec![])));
                ended.fetch_add(jobs.len(), Ordering::SeqCst);
            }
        }
    })
    .await;
    it.push(vec![keyed("a"); 9]).await;
    assert_eq!(it.claim(ask(&["q"], 9)).await.len(), 3, "every permit is returned once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_never_exceed_a_rate_limit() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 3).await;
    it.define("r", limit("rate 10/1s burst 7")).await;
    it.push(vec![limited(&[("r", None)]); 100]).await;
    for granted in [7, 5] {
        let claimed = at_once(&nodes, 16, |node, i| async move {
            node.claim(ask(&["q"], 1 + i % 3)).await.expect("claims").jobs.len()
        })
        .await;
        assert_eq!(claimed.iter().sum::<usize>(), granted);
        it.clock.advance(Span::from_millis(500));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_pushes_of_one_key_store_one_job() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 4).await;
    for round in 0..5 {
        let answers = at_once(&nodes, 16, |node, i| async move {
            let unique = |key: String| {
                let mut spec = spec("q", "k");
                spec.unique = Some(Box::new(Unique {
                    key: key.into(),
                    hold: UniqueHold::UntilEnd,
                    window: None,
                }));
                NewJob::from(spec)
            };
            let mut client = spec("q", "k");
            client.client_id =
                Some(Box::new(ClientId { door: name("d"), id: format!("{round}").into() }));
            let mut jobs = vec![unique(format!("{round} a")), unique(format!("{round} b"))];
            jobs.push(client.into());
            jobs.rotate_left(i % 3);
            let mut answers = node.push(jobs.into()).await.expect("pushes").into_inner().jobs;
            answers.rotate_right(i % 3);
            answers
        })
        .await;
        for nth in 0..3 {
            let of: Vec<_> = answers.iter().map(|answers| answers[nth]).collect();
            let new = of.iter().filter(|pushed| matches!(pushed, Pushed::New(_))).count();
            let ids: BTreeSet<_> = of.iter().map(|pushed| pushed.id()).collect();
            assert_eq!((new, ids.len()), (1, 1), "{of:?}");
        }
    }
    assert_eq!(it.claim(ask(&["q"], 99)).await.len(), 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_many_concurrent_reports_applies() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 4).await;
    it.push(vec![job("q"); 5]).await;
    let running = it.claim(ask(&["q"], 5)).await;
    let answers = at_once(&nodes, 16, |node, i| {
        let mut jobs = running.clone();
        jobs.rotate_left(i % 5);
        async move {
            let writes = jobs.iter().map(|job| report(job, DONE)).collect();
            let answers = node.apply(writes).await.expect("applies").into_inner();
            answers.into_iter().filter(|applied| *applied != Applied::Stale).count()
        }
    })
    .await;
    assert_eq!(answers.into_iter().sum::<usize>(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dependant_pushed_while_its_job_ends_is_released() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 2).await;
    for _ in 0..20 {
        let first = it.push(vec![job("first")]).await[0];
        let running = it.claim(ask(&["first"], 1)).await.remove(0);
        let answers = at_once(&nodes, 4, |node, i| {
            let running = running.clone();
            async move {
                if i == 3 {
                    _ = node.apply(vec![report(&running, DONE)]).await.expect("applies");
                    return None;
                }
                let after = vec![NewDependency {
                    on: NewDependencyTarget::Job(first),
                    needs: DependencyCondition::Success,
                }];
                let held = NewJob { after, ..job("q") };
                node.push(held.into()).await.expect("pushes").into_inner().jobs[0].id()
            }
        })
        .await;
        for id in answers.into_iter().flatten() {
            assert_eq!(it.get(id).await.expect("stored").live.state, State::Ready);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_on_the_same_jobs_all_return() {
    let Some(it) = subject().await else { return };
    let nodes = nodes(&it, 3).await;
    it.define("c", limit("concurrency 5 per payload.t")).await;
    let ended = at_once(&nodes, 9, |node, i| async move {
        let mut ended = 0;
        for round in 0..12_usize {
            let mut jobs = vec![limited(&[("c", Some("t"))]), job("q")];
            if let Some(unique) = (round % 3 == 0).then(|| format!("{}", (i + round) % 4)) {
                let hold = [UniqueHold::UntilStart, UniqueHold::UntilEnd][i % 2];
                jobs[0].spec.unique =
                    Some(Box::new(Unique { key: unique.into(), hold, window: None }));
                let on = NewDependencyTarget::Earlier(0);
                jobs[1].after.push(NewDependency { on, needs: DependencyCondition::End });
            }
            _ = node.push(jobs.into()).await.expect("pushes");
            let mine = node.claim(ask(&["q"], 3)).await.expect("claims").jobs;
            let writes = mine.iter().map(|job| report(job, DONE)).collect();
            let applied = node.apply(writes).await.expect("applies").into_inner();
            ended += applied.iter().filter(|applied| **applied != Applied::Stale).count();
            assert_eq!(applied.len(), mine.len());
        }
        ended
    })
    .await;
    assert!(ended.into_iter().sum::<usize>() > 100);
}
