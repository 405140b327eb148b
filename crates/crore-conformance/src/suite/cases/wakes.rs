//! The wake-up hook is called with the queue in which a job became ready.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crore_core::job::DependencyCondition;
use crore_core::machine::{JobEvent, Outcome};
use crore_core::push::NewDependencyTarget;
use tokio::sync::Notify;

use super::super::job_builder::{NewJobBuilder, SECOND, job};
use super::super::subject::{StoreSubject, expect_ok};

/// Timeout for a wake-up hint.
const WAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The queues for which the hook was called.
#[derive(Default)]
struct WakeRecorder {
    queues: Mutex<Vec<String>>,
    changed: Notify,
}

impl WakeRecorder {
    fn register(s: &StoreSubject) -> Arc<Self> {
        let recorder = Arc::new(Self::default());
        let hook = Arc::clone(&recorder);
        s.store.add_wake_hook(Arc::new(move |queues| {
            let mut all = hook.queues.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(queues.iter().map(ToString::to_string));
            hook.changed.notify_one();
        }));
        recorder
    }

    fn takes(&self, queue: &str) -> bool {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let is_woken = queues.iter().any(|woken| woken == queue);
        if is_woken {
            queues.clear();
        }
        is_woken
    }

    /// Waits until the queue is woken, then clears the recorded queues.
    async fn expect_wake(&self, queue: &str, why: &str) {
        let woken = async {
            while !self.takes(queue) {
                self.changed.notified().await;
            }
        };
        let woken = tokio::time::timeout(WAKE_TIMEOUT, woken).await;
        assert!(woken.is_ok(), "`{queue}` is woken after {why}");
    }
}

pub(in super::super) async fn a_push_wakes_its_queue(s: &StoreSubject) {
    let recorder = WakeRecorder::register(s);
    s.push_all(vec![job("{odd} q"), job("other")]).await;
    recorder.expect_wake("{odd} q", "a push").await;
}

pub(in super::super) async fn every_hook_is_called(s: &StoreSubject) {
    let (first, second) = (WakeRecorder::register(s), WakeRecorder::register(s));
    s.push(job("q")).await;
    first.expect_wake("q", "a push").await;
    second.expect_wake("q", "a push").await;
}

pub(in super::super) async fn a_promotion_wakes_its_queue(s: &StoreSubject) {
    s.push(job("q").later(SECOND)).await;
    s.advance(SECOND);
    let recorder = WakeRecorder::register(s);
    expect_ok(s.store.promote(9)).await;
    recorder.expect_wake("q", "a promotion").await;
}

pub(in super::super) async fn a_hand_back_wakes_its_queue(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    let recorder = WakeRecorder::register(s);
    s.finish_as_decided(&running, Outcome::Interrupted).await;
    recorder.expect_wake("q", "a hand-back").await;
}

pub(in super::super) async fn a_release_wakes_its_queue(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    s.push(job("then").after(NewDependencyTarget::Job(running.id), DependencyCondition::Success))
        .await;
    let recorder = WakeRecorder::register(s);
    s.done(&running).await;
    recorder.expect_wake("then", "a release").await;
}

pub(in super::super) async fn a_retry_by_hand_wakes_its_queue(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    s.fail_for_good(&running).await;
    let recorder = WakeRecorder::register(s);
    s.apply_to_current(running.id, &JobEvent::Retry).await;
    recorder.expect_wake("q", "a retry").await;
}
