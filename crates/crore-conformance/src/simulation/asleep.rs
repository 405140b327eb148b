//! Those who wait at a front: whether somebody sleeps beside what he waits for, and that each wakes.

use crore_core::{Clock, Name, Span, State};
use crore_store::Error;
use crore_store::registry::{Define, Table, Value};
use crore_store::views::Query;

use super::front::Sleeper;
use super::pusher;
use super::scene::Link;
use super::world::{Caller, World};
use super::{admin, upkeep, worker};

/// Nobody waits longer than this.
const LONGEST: Span = Span::from_secs(3600);

impl World<'_> {
    /// Sets the limits that a front always has.
    pub(super) fn set_limits(&mut self) {
        let limits = self.scene().limits.clone();
        for (name, limit) in limits {
            let Some(link) = self.link(Caller::Drain) else { return };
            let define = Define::set(name, Value::Limit(limit));
            self.run("a limit", async move { admin::define(&link, define).await });
        }
    }

    /// Nothing moves any more. Upkeep that is due goes first: it looks at what is in doubt, and tells those
    /// who wait for it. A caller that is asleep then must have nothing to wake up for; time passes until all have
    /// waited long enough.
    pub(super) fn let_sleepers_end(&mut self) {
        let Some(link) = self.link(Caller::Drain) else { return };
        if link.front.is_none() {
            return;
        }
        self.keep_up(link.clone());
        while self.commit() || self.is_anybody_woken() {
            self.poll_all();
        }
        self.run("looking at sleepers", look_at_sleepers(link.clone()));
        self.scene().advance(LONGEST);
        self.keep_up(link);
    }

    fn keep_up(&mut self, link: Link) {
        let now = self.scene().clock.now();
        if link.front.as_ref().is_some_and(|front| front.upkeep_at() <= now) {
            self.run("upkeep", upkeep::turn(link));
        }
    }

    /// Somebody waits for a job when there is none; one is pushed, and he gets it at once.
    pub(super) fn wake_somebody(&mut self) {
        let Some(link) = self.link(Caller::Drain) else { return };
        if link.front.is_none() {
            return;
        }
        let gone = link.gone();
        self.set_out(Caller::Drain, Box::pin(worker::fetch_patiently(link.clone())), gone);
        self.run("a push for him who waits", pusher::push_one(link));
        for _ in 0..100 {
            if self.under_way.is_empty() {
                break;
            }
            self.commit();
            self.poll_all();
        }
        if !self.under_way.is_empty() {
            self.scene().wrong("somebody waits, and a job was pushed: he sleeps on".to_owned());
        }
        self.under_way.clear();
        let Some(link) = self.link(Caller::Drain) else { return };
        self.run("the end of that job", worker::report_all(link));
    }
}

async fn look_at_sleepers(link: Link) {
    let sleepers: Vec<Sleeper> = link.scene().known.asleep.values().cloned().collect();
    for sleeper in sleepers {
        let missed = match &sleeper {
            Sleeper::Result(id) => has_ended(&link, *id).await,
            Sleeper::Fetch(queues, kinds) => is_ready(&link, queues, kinds.as_deref()).await,
        };
        match missed {
            Ok(true) => link.scene().wrong(format!("it is there, but he sleeps on: {sleeper:?}")),
            Ok(false) => {}
            Err(error) => link.could_not(&error),
        }
    }
}

async fn has_ended(link: &Link, id: crore_core::JobId) -> Result<bool, Error> {
    let job = link.store.get(vec![id.into()]).await?.pop().flatten();
    Ok(job.is_none_or(|job| job.live.state.has_ended()))
}

/// Whether there is a job that nothing holds back.
async fn is_ready(link: &Link, queues: &[Name], kinds: Option<&[Name]>) -> Result<bool, Error> {
    let paused: Vec<Name> = link
        .store
        .entries(Table::Queues, None, usize::MAX)
        .await?
        .into_iter()
        .filter(|entry| matches!(&entry.value, Value::Queue(settings) if settings.paused))
        .map(|entry| entry.name)
        .collect();
    for queue in queues.iter().filter(|queue| !paused.contains(queue)) {
        let (state, queue) = (State::Ready, Some(queue.clone()));
        let query = Query { state, queue, kind: None, after: None, n: usize::MAX };
        let page = link.store.list(query).await?;
        let wanted = |kind: &Name| kinds.is_none_or(|kinds| kinds.contains(kind));
        if page.jobs.iter().any(|job| job.spec.limits.is_empty() && wanted(&job.spec.kind)) {
            return Ok(true);
        }
    }
    Ok(false)
}
