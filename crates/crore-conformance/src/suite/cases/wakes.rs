//! Whoever waits for jobs is told of the queue in which one has become ready.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crore_core::job::Needs;
use crore_core::machine::{Event, Outcome};
use crore_core::push::AfterRef;
use tokio::sync::Notify;

use super::super::draft::{Draft, SECOND, job};
use super::super::subject::{Whole, got};

/// How long a hint may be under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// The queues that were told of.
#[derive(Default)]
struct Told {
    queues: Mutex<Vec<String>>,
    news: Notify,
}

impl Told {
    fn by(s: &Whole) -> Arc<Self> {
        let told = Arc::new(Self::default());
        let hook = Arc::clone(&told);
        s.store.wakes(Arc::new(move |queues| {
            let mut all = hook.queues.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(queues.iter().map(ToString::to_string));
            hook.news.notify_one();
        }));
        told
    }

    fn takes(&self, queue: &str) -> bool {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let there = queues.iter().any(|told| told == queue);
        if there {
            queues.clear();
        }
        there
    }

    /// The queue is told of, now or soon; then all is forgotten.
    async fn hears_of(&self, queue: &str, why: &str) {
        let heard = async {
            while !self.takes(queue) {
                self.news.notified().await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        assert!(heard.is_ok(), "`{queue}` is told of after {why}");
    }
}

pub(in super::super) async fn a_push_wakes_its_queue(s: &Whole) {
    let told = Told::by(s);
    s.push_all(vec![job("{odd} q"), job("other")]).await;
    told.hears_of("{odd} q", "a push").await;
}

pub(in super::super) async fn every_hook_is_called(s: &Whole) {
    let (first, second) = (Told::by(s), Told::by(s));
    s.push(job("q")).await;
    first.hears_of("q", "a push").await;
    second.hears_of("q", "a push").await;
}

pub(in super::super) async fn a_promotion_wakes_its_queue(s: &Whole) {
    s.push(job("q").later(SECOND)).await;
    s.pass(SECOND);
    let told = Told::by(s);
    got(s.store.promote(9)).await;
    told.hears_of("q", "a promotion").await;
}

pub(in super::super) async fn a_hand_back_wakes_its_queue(s: &Whole) {
    let running = s.start(job("q")).await;
    let told = Told::by(s);
    s.ends(&running, Outcome::Interrupted).await;
    told.hears_of("q", "a hand-back").await;
}

pub(in super::super) async fn a_release_wakes_its_queue(s: &Whole) {
    let running = s.start(job("q")).await;
    s.push(job("then").after(AfterRef::Job(running.id), Needs::Success)).await;
    let told = Told::by(s);
    s.done(&running).await;
    told.hears_of("then", "a release").await;
}

pub(in super::super) async fn a_retry_by_hand_wakes_its_queue(s: &Whole) {
    let running = s.start(job("q")).await;
    s.dies(&running).await;
    let told = Told::by(s);
    s.happens_to(running.id, &Event::Retry).await;
    told.hears_of("q", "a retry").await;
}
