//! Fetch: the next jobs, now or as soon as there are any.

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crore_core::{Code, Invalid, Job, Name, Span, Time};
use crore_store::jobs::{Claim, Order};

use crate::bug::planted;
use crate::deliveries::Deliveries;
use crate::dispatch::Ticket;
use crate::doubt::Doubt;
use crate::engine::{Engine, Inner};
use crate::error::Error;
use crate::events::{Event, Happened};
use crate::timers::Sleep;
use crate::upkeep::Duty;

/// How many kinds in all of its queues a fetch may ask for, as many times what it may ask for in one.
const LISTS: usize = 10;

/// How many jobs a store elsewhere is asked for at once, at least.
const FAR: usize = 64;

/// What a fetch asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// From which queues.
    pub queues: Vec<Name>,
    /// Only these kinds; `None`: any.
    pub kinds: Option<Vec<Name>>,
    /// Only jobs are wanted whose kind has a handler, whichever these are at the time, of one of these
    /// runners (of any, if the list is empty); `kinds` is not looked at then.
    pub handled: Option<Vec<Name>>,
    /// At most so many.
    pub n: usize,
    /// How several queues are merged.
    pub order: Order,
    /// Who asks; kept with the delivery.
    pub worker: Name,
    /// How long to wait for the first one.
    pub wait: Span,
}

impl Fetch {
    /// One job of a queue, if there is one now.
    pub fn new(queue: Name, worker: Name) -> Self {
        let (queues, order) = (vec![queue], Order::Merged);
        Self { queues, kinds: None, handled: None, n: 1, order, worker, wait: Span::ZERO }
    }

    fn check(&self, most: usize) -> Result<(), Invalid> {
        let wrong = |field: &str, n: usize| {
            let message = format!("`{n}` lies outside 1 to {most}");
            Err(Invalid::new(Code::CountRange, field, message))
        };
        match (self.queues.len(), self.n) {
            (1.., n) if n == 0 || n > most => wrong("n", n),
            (n, _) if n == 0 || n > most => wrong("queues", n),
            _ => match self.kinds.as_ref().map(Vec::len) {
                Some(n) if n == 0 || n > most => wrong("kinds", n),
                // Whoever waits stands in a list for each kind of each queue.
                Some(n) if n * self.queues.len() > most * LISTS => {
                    let queues = self.queues.len();
                    let message = format!("`{n}` of {queues} queues are too many at once");
                    Err(Invalid::new(Code::CountRange, "kinds", message))
                }
                _ => Ok(()),
            },
        }
    }

    /// Which queue a job is of, where the first one comes first.
    fn place(&self, job: &Job) -> Option<usize> {
        match self.order {
            Order::Strict => self.queues.iter().position(|queue| *queue == job.spec.queue),
            Order::Merged => None,
        }
    }

    fn claim(&self, n: usize) -> Claim {
        let Self { queues, kinds, order, worker, .. } = self.clone();
        Claim { queues, kinds, n, order, worker }
    }
}

impl Engine {
    /// Takes the next jobs, each under a lease. If there are none it waits for the first one as long
    /// as asked; an empty answer means that there was none. To drop the future loses no job: one that
    /// was taken for it is handed out again when its lease ends.
    ///
    /// Whoever takes longer than a lease [renews](Engine::renew) it, and whoever is done
    /// [says so](Engine::finish).
    ///
    /// ```
    /// use crore::core::machine::Outcome;
    /// use crore::core::{Name, Span, State};
    /// use crore::fetch::Fetch;
    /// use crore::finish::{Finish, Finished};
    /// use crore::{Engine, block_on};
    ///
    /// # fn main() -> Result<(), crore::Error> {
    /// let engine = Engine::memory();
    /// engine.push("mail", "hello").retain().wait()?;
    ///
    /// let (queue, worker) = (Name::new("queue", "mail")?, Name::new("worker", "w1")?);
    /// let ask = Fetch { n: 10, wait: Span::from_secs(5), ..Fetch::new(queue, worker) };
    /// let jobs = block_on(engine.fetch(ask))?;
    /// assert_eq!(jobs.len(), 1);
    ///
    /// let report = Finish::of(&jobs[0], Outcome::Done { result: None });
    /// let finished = block_on(engine.finish(report.clone()))?;
    /// assert!(matches!(finished, Finished::Yes { state: Some(State::Done), .. }));
    /// // A second report about the same delivery changes nothing.
    /// assert_eq!(block_on(engine.finish(report))?, Finished::Stale);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn fetch(&self, ask: Fetch) -> Result<Vec<Job>, Error> {
        self.inner.fetch(&ask).await
    }
}

impl Deliveries<'_> {
    /// [`Engine::fetch`] for a caller that may leave: when `leaves` completes the fetch ends, but not before
    /// it has the jobs that are being claimed for it. So no job is left to wait for the end of a lease
    /// whose holder does not know of it.
    pub async fn fetch_unless(
        self,
        ask: Fetch,
        leaves: impl Future<Output = ()>,
    ) -> Result<Vec<Job>, Error> {
        self.inner.fetch_until(&ask, || false, leaves).await
    }
}

/// Why somebody who waits looks up.
enum Woken {
    /// There may be jobs.
    Rung,
    /// It is time.
    Late,
    /// He leaves.
    Left,
}

impl Inner {
    pub(crate) async fn fetch(&self, ask: &Fetch) -> Result<Vec<Job>, Error> {
        self.fetch_until(ask, || false, pending()).await
    }

    /// Fetches, and gives up when woken while there is a reason to, or when it waits and its caller leaves.
    pub(crate) async fn fetch_until(
        &self,
        ask: &Fetch,
        gives_up: impl Fn() -> bool,
        leaves: impl Future<Output = ()>,
    ) -> Result<Vec<Job>, Error> {
        ask.check(self.caps.fetch)?;
        let (mut leaves, has_left) = (pin!(leaves), AtomicBool::new(false));
        let mut leaves = poll_fn(|context| {
            if has_left.load(Ordering::Relaxed) || leaves.as_mut().poll(context).is_ready() {
                has_left.store(true, Ordering::Relaxed);
                return Poll::Ready(());
            }
            Poll::Pending
        });
        let Some(runners) = &ask.handled else {
            return self.fetch_these(ask, gives_up, &mut leaves).await;
        };
        let sleep = self.timers.sleep(ask.wait);
        loop {
            self.sure_handlers().await?;
            let book = self.handlers.book();
            let is_run = |runner: &Name| runners.is_empty() || runners.contains(runner);
            let kinds = Some(book.kinds(is_run));
            let ask = Fetch { kinds, wait: sleep.left(), ..ask.clone() };
            let are_same = || Arc::ptr_eq(&book, &self.handlers.book()) && self.handlers.are_sure();
            let is_changed = || !are_same();
            let stops = || gives_up() || is_changed();
            let jobs = self.fetch_these(&ask, stops, &mut leaves).await?;
            let has_left = has_left.load(Ordering::Relaxed);
            let is_over = ask.wait.is_zero() || has_left || self.is_quiet() || gives_up();
            if !jobs.is_empty() || is_over || !is_changed() {
                return Ok(jobs);
            }
        }
    }

    /// Fetches jobs of the kinds that are named.
    async fn fetch_these(
        &self,
        ask: &Fetch,
        gives_up: impl Fn() -> bool,
        leaves: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Vec<Job>, Error> {
        let (jobs, _) = self.claim(ask).await?;
        if !jobs.is_empty() || ask.wait.is_zero() {
            return Ok(jobs);
        }
        // Whoever waits keeps no room for jobs that are not there.
        drop(jobs);
        let mut sleep = pin!(self.timers.sleep(ask.wait));
        let ticket = self.dispatch.enter(&ask.queues, ask.kinds.as_deref());
        loop {
            ticket.line_up();
            let (jobs, may_be_more) = self.claim(ask).await?;
            ticket.has_looked();
            if may_be_more {
                ticket.pass_on();
            }
            if !jobs.is_empty() || self.is_quiet() || gives_up() {
                return Ok(jobs);
            }
            drop(jobs);
            match woken(&ticket, sleep.as_mut(), leaves).await {
                Woken::Rung => {}
                Woken::Late | Woken::Left => return Ok(Vec::new()),
            }
        }
    }

    /// What is there now and fits into one answer, and whether there may be more. Nobody knows how large a
    /// job is before it is taken, so no more are taken at once than fit if each is as large as it may be;
    /// but one always is.
    async fn claim(&self, ask: &Fetch) -> Result<(Vec<Job>, bool), Error> {
        let first = self.fitting(0).min(ask.n);
        let mut took = self.claim_some(ask, first).await?;
        let (mut n, mut came) = (first, took.len());
        while came == n && took.len() < ask.n {
            let bytes = took.iter().map(|job| job.spec.payload.bytes.len()).sum();
            if bytes >= self.caps.fetch_bytes {
                break;
            }
            n = self.fitting(bytes).min(ask.n - took.len());
            // What was taken is handed out; who asks next is told of what went wrong.
            let Ok(jobs) = self.claim_some(ask, n).await else { break };
            came = jobs.len();
            took.extend(jobs);
        }
        if took.len() > first {
            // What became due between two of them belongs before what came later.
            took.sort_by_key(|job| (ask.place(job), job.spec.priority, job.live.due, job.id));
        }
        Ok((took, came == n))
    }

    /// How many jobs fit where there are so many bytes already. A store elsewhere is asked for some at a
    /// time in any case: to ask it often takes longer than to send a little more.
    fn fitting(&self, bytes: usize) -> usize {
        let fit = self.caps.fetch_bytes.saturating_sub(bytes) / self.caps.payload_bytes.max(1);
        fit.max(if self.store.is_near() { 1 } else { FAR })
    }

    /// Some of what is there now. If a limit lets more through later, one of those who wait is woken then.
    async fn claim_some(&self, ask: &Fetch, n: usize) -> Result<Vec<Job>, Error> {
        if self.is_quiet() || ask.kinds.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        // Whoever leaves now may have been given jobs, and their leases have to end.
        let doubt = Doubt::new(|| {
            if !planted!("bug-21") {
                self.want(Duty::Rescue, self.now());
            }
        });
        let claimed = self.store.claim(ask.claim(n)).await?;
        doubt.over();
        if let Some(first) = claimed.jobs.iter().map(|job| job.live.lease_until).min() {
            self.want(Duty::Rescue, first);
            let overdue_at = self.running.add(&claimed.jobs);
            self.want(Duty::Overdue, overdue_at);
            self.tell_started(&claimed.jobs, claimed.now);
        }
        if let Some(next_at) = claimed.next_at
            && self.dispatch.waiting() > 0
        {
            self.ring_at(&ask.queues, next_at);
        }
        Ok(claimed.jobs)
    }

    fn tell_started(&self, jobs: &[Job], at: Time) {
        if let Some(watch) = self.watch.get() {
            watch.started(jobs, at);
        }
        if self.events.is_heard() {
            let started = jobs.iter().map(|job| Event {
                id: job.id,
                queue: job.spec.queue.clone(),
                kind: job.spec.kind.clone(),
                what: Happened::Started,
                at,
            });
            self.events.tell(&started.collect::<Vec<_>>());
        }
    }
}

/// Waits for a wake-up, the end of the wait, or that its caller leaves.
async fn woken(
    ticket: &Ticket<'_>,
    mut sleep: Pin<&mut Sleep<'_>>,
    leaves: &mut (impl Future<Output = ()> + Unpin),
) -> Woken {
    poll_fn(|context| {
        if Pin::new(&mut *leaves).poll(context).is_ready() {
            return Poll::Ready(Woken::Left);
        }
        if ticket.poll_woken(context).is_ready() {
            return Poll::Ready(Woken::Rung);
        }
        sleep.as_mut().poll(context).map(|()| Woken::Late)
    })
    .await
}
