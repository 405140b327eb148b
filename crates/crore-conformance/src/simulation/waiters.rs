//! Callers that wait at an engine: checks that no wake-up is missed.

use crore_core::{Clock, Job, Name, Span, Spec, State};
use crore_store::Error;
use crore_store::jobs::Claim;
use crore_store::registry::{Define, RegistryTable, RegistryValue};
use crore_store::views::ListQuery;

use super::context::CallerLink;
use super::engine::EngineWaiter;
use super::event_loop::{CallerId, SimEventLoop};
use super::pusher;
use super::{admin, upkeep, worker};

/// The longest time that any caller waits.
const MAX_WAIT: Span = Span::from_secs(3600);

impl SimEventLoop<'_> {
    /// Sets the limits that an engine always has.
    pub(super) fn set_limits(&mut self) {
        let limits = self.context().limits.clone();
        for (name, limit) in limits {
            let Some(link) = self.link(CallerId::Drain) else { return };
            let define = Define::set(name, RegistryValue::Limit(limit));
            self.run("a limit", async move { admin::define(&link, define).await });
        }
    }

    /// Called when nothing makes progress. Upkeep that is due runs first: it resolves uncertain writes and
    /// wakes the callers that wait for them. A caller that still waits then must have nothing to wake up for.
    /// Time advances until every wait has timed out.
    pub(super) fn time_out_waiters(&mut self) {
        let Some(link) = self.link(CallerId::Drain) else { return };
        if link.engine.is_none() {
            return;
        }
        self.run_due_upkeep(link.clone());
        while self.commit() || self.is_any_woken() {
            self.poll_all();
        }
        self.run("checking waiters", check_missed_wake_ups(link.clone()));
        self.context().advance(MAX_WAIT);
        self.run_due_upkeep(link);
    }

    fn run_due_upkeep(&mut self, link: CallerLink) {
        let now = self.context().clock.now();
        if link.engine.as_ref().is_some_and(|engine| engine.upkeep_at() <= now) {
            self.run("upkeep", upkeep::turn(link));
        }
    }

    /// Checks a wake-up: a caller waits for a job, one is pushed, and the caller receives it at once.
    pub(super) fn check_wake_up(&mut self) {
        let Some(link) = self.link(CallerId::Drain) else { return };
        if link.engine.is_none() {
            return;
        }
        let gone = link.gone();
        self.spawn(CallerId::Drain, Box::pin(worker::fetch_waiting(link.clone())), gone);
        self.run("a push for a waiting fetch", pusher::push_one(link));
        for _ in 0..100 {
            if self.in_flight.is_empty() {
                break;
            }
            self.commit();
            self.poll_all();
        }
        if !self.in_flight.is_empty() {
            self.context()
                .violation("a job was pushed, but the waiting fetch did not wake".to_owned());
        }
        self.in_flight.clear();
        let Some(link) = self.link(CallerId::Drain) else { return };
        self.run("the end of that job", worker::report_all(link));
    }
}

async fn check_missed_wake_ups(link: CallerLink) {
    let waiters: Vec<EngineWaiter> = link.context().knowledge.waiters.values().cloned().collect();
    for waiter in waiters {
        let missed = match &waiter {
            EngineWaiter::Result(id) => has_ended(&link, *id).await,
            EngineWaiter::Fetch(ask) => is_ready(&link, ask).await,
        };
        match missed {
            Ok(true) => link.context().violation(format!("missed wake-up: {waiter:?}")),
            Ok(false) => {}
            Err(error) => link.store_failed(&error),
        }
    }
}

async fn has_ended(link: &CallerLink, id: crore_core::JobId) -> Result<bool, Error> {
    let job = link.store.get(vec![id.into()]).await?.pop().flatten();
    Ok(job.is_none_or(|job| job.live.state.has_ended()))
}

/// Whether there is a job that nothing holds back.
async fn is_ready(link: &CallerLink, ask: &Claim) -> Result<bool, Error> {
    let paused: Vec<Name> = link
        .store
        .entries(RegistryTable::Queues, None, usize::MAX)
        .await?
        .into_iter()
        .filter(|entry| matches!(&entry.value, RegistryValue::Queue(settings) if settings.paused))
        .map(|entry| entry.name)
        .collect();
    for queue in ask.queues.iter().filter(|queue| !paused.contains(queue)) {
        let (state, queue) = (State::Ready, Some(queue.clone()));
        let query = ListQuery { state, queue, kind: None, key: None, after: None, n: usize::MAX };
        let page = link.store.list(query).await?;
        let wanted = |spec: &Spec| {
            ask.kinds.as_ref().is_none_or(|kinds| kinds.contains(&spec.kind))
                && ask.versions.satisfy(&spec.kind, spec.worker_version.as_deref())
        };
        // A job past its deadline is ready until upkeep has decided.
        let may_start = |job: &Job| job.spec.limits.is_empty() && job.live.deadline.is_none();
        if page.jobs.iter().any(|job| may_start(job) && wanted(&job.spec)) {
            return Ok(true);
        }
    }
    Ok(false)
}
