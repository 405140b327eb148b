//! Explaining why the jobs of a queue wait, at a bounded cost.

use crore::store::registry::RegistryValue;
use crore::store::views::{HeldBack, ListQuery, PausedKey};
use crore_core::limit::{Limit, LimitKey};
use crore_core::{Name, State, Time};
use crore_wire::api::queues::{QueueExplanation, QueueReason};
use crore_wire::units::{Moment, Period};

use super::limits::clears_in;
use super::queue_workers::QueueCapacity;
use crate::{Api, Fault, Grant};

/// Maximum number of keys of limits that are named.
const MAX_KEYS: usize = 5;
/// Maximum number of paused keys that are read.
const MAX_PAUSED: usize = 1000;

/// Number of jobs by state.
#[derive(Debug, Clone, Copy, Default)]
struct JobsByState {
    ready: u64,
    running: u64,
    scheduled: u64,
    waiting: u64,
}

impl Api {
    /// Why the jobs of a queue wait: in words, and as fields.
    pub async fn explain_queue(
        &self,
        grant: &Grant,
        queue: &Name,
    ) -> Result<QueueExplanation, Fault> {
        grant.check_whole_queue(queue)?;
        let mut counts = JobsByState::default();
        for count in self.engine().jobs().counts(Some(queue.clone())).await? {
            match count.state {
                State::Ready => counts.ready += count.n,
                State::Running => counts.running += count.n,
                State::Scheduled => counts.scheduled += count.n,
                State::Waiting => counts.waiting += count.n,
                State::Done | State::Dead | State::Cancelled => {}
            }
        }
        let mut reasons = Vec::new();
        let is_paused = self.engine().queues().get(queue).await?.paused;
        if is_paused {
            reasons.push(QueueReason {
                jobs: Some(counts.ready),
                ..reason(
                    "paused",
                    format!("queue `{queue}` is paused: resume it to deliver its jobs"),
                )
            });
        }
        if counts.ready > 0 {
            self.ready_reasons(queue, counts, is_paused, &mut reasons).await?;
        }
        self.later_reasons(queue, counts, &mut reasons).await?;
        if reasons.is_empty() {
            reasons.push(match counts.running {
                0 => reason("empty", format!("queue `{queue}` has no jobs to run")),
                n => reason("none", format!("all jobs that are due run: {}", jobs(n))),
            });
        }
        let oldest = self.engine().queues().oldest_ready(vec![queue.clone()]).await?;
        let oldest_at = oldest.into_iter().next().flatten().map(Moment);
        Ok(QueueExplanation { queue: queue.to_string(), ready: counts.ready, oldest_at, reasons })
    }

    /// Why ready jobs do not start.
    async fn ready_reasons(
        &self,
        queue: &Name,
        counts: JobsByState,
        is_paused: bool,
        reasons: &mut Vec<QueueReason>,
    ) -> Result<(), Fault> {
        let before = reasons.len();
        for required in self.engine().deliveries().unrunnable().await? {
            if required.queue == *queue && reasons.len() < before + MAX_KEYS {
                let (kind, version) = (&required.kind, &required.version);
                let detail = format!(
                    "{} of kind `{kind}` need version `{version}`, which no connected worker runs",
                    jobs(required.n)
                );
                reasons.push(QueueReason {
                    jobs: Some(required.n),
                    ..reason("no-worker-version", detail)
                });
            }
        }
        let held_back = self.limit_reasons(queue, reasons).await?;
        let has_waiting_fetch = self.engine().deliveries().waits_for_queue(queue);
        let workers = self.queue_workers().of(queue.as_str());
        let rest = counts.ready.saturating_sub(held_back);
        if !is_paused && rest > 0 && reasons.len() == before {
            let has_fetch = has_waiting_fetch || counts.running > 0;
            reasons.push(worker_reason(queue, rest, workers, has_fetch));
        }
        Ok(())
    }

    /// Adds the limits that hold jobs back, and returns how many jobs that concerns.
    async fn limit_reasons(
        &self,
        queue: &Name,
        reasons: &mut Vec<QueueReason>,
    ) -> Result<u64, Fault> {
        let limits = self.engine().limits();
        let held_back = limits.held_back(Some(queue.clone()), MAX_PAUSED).await?;
        if held_back.is_empty() {
            return Ok(0);
        }
        let paused = limits.paused_keys(None, MAX_PAUSED).await?;
        let now = self.engine().status().now();
        for held in held_back.iter().take(MAX_KEYS) {
            let defined = limits.get(&held.key.limit).await?.map(|entry| entry.value);
            let Some(RegistryValue::Limit(limit)) = defined else { continue };
            let pause = paused.iter().find(|paused| paused.key == held.key);
            reasons.push(limit_reason(held, &limit, pause, now));
        }
        Ok(held_back.iter().map(|held| held.jobs).sum())
    }

    /// Jobs that are not due yet, or wait for others.
    async fn later_reasons(
        &self,
        queue: &Name,
        counts: JobsByState,
        reasons: &mut Vec<QueueReason>,
    ) -> Result<(), Fault> {
        if counts.scheduled > 0 {
            let (state, queue) = (State::Scheduled, Some(queue.clone()));
            let query = ListQuery { state, queue, kind: None, key: None, after: None, n: 1 };
            let next = self.engine().list(query).await?.jobs.first().map(|job| job.live.due);
            let now = self.engine().status().now();
            let detail = next.map_or(String::new(), |at| {
                format!(", the next one in {}", at.since(now).roughly())
            });
            reasons.push(QueueReason {
                jobs: Some(counts.scheduled),
                until: next.map(Moment),
                ..reason("scheduled", format!("{} due later{detail}", are(counts.scheduled)))
            });
        }
        if counts.waiting > 0 {
            let detail =
                format!("{} waiting for other jobs, groups or events", are(counts.waiting));
            reasons.push(QueueReason { jobs: Some(counts.waiting), ..reason("waits-for", detail) });
        }
        Ok(())
    }
}

/// Why jobs that no limit holds back do not start.
fn worker_reason(queue: &Name, ready: u64, workers: QueueCapacity, has_fetch: bool) -> QueueReason {
    let QueueCapacity { workers: n, quiet, slots, busy } = workers;
    let (code, detail) = if n == 0 && !has_fetch {
        let detail = format!(
            "no worker serves queue `{queue}`: start one, or a host with `--channel {queue}=1` if its kinds have handlers"
        );
        ("no-worker", detail)
    } else if n > 0 && quiet == n {
        ("workers-quiet", format!("all {n} workers of the queue are quiet: resume one"))
    } else if n > 0 && busy >= slots {
        let detail = format!(
            "workers are busy: {busy} of {slots} slots of {n} workers run jobs; {} behind them",
            waits(ready)
        );
        ("workers-busy", detail)
    } else {
        ("none", format!("workers are taking the jobs: {}", waits(ready)))
    };
    QueueReason {
        jobs: Some(ready),
        busy_slots: (n > 0).then_some(busy),
        slots: (n > 0).then_some(slots),
        ..reason(code, detail)
    }
}

fn limit_reason(
    held: &HeldBack,
    limit: &Limit,
    paused: Option<&PausedKey>,
    now: Time,
) -> QueueReason {
    let (name, clears) = (key_text(&held.key), clears_in(limit, held.jobs));
    let who = waits(held.jobs);
    let (code, detail) = match (paused, limit.rate, limit.concurrency) {
        (Some(paused), ..) => {
            let span = paused.until.since(now).roughly();
            ("limit-paused", format!("{who} for limit {name}, which a report paused for {span}"))
        }
        // A concurrency limit has no time at which it admits the next job.
        (None, _, Some(most)) if held.until.is_none() && held.running >= most => {
            let running = held.running;
            ("limited", format!("{who} for limit {name}: {running} of at most {most} jobs run"))
        }
        (None, Some(rate), _) => {
            let at_rate = clears.map_or(String::new(), |span| {
                format!("; at this rate the last starts in {}", span.roughly())
            });
            let (count, every) = (rate.count, Period(rate.every));
            ("limited", format!("{who} for limit {name} ({count}/{every}){at_rate}"))
        }
        (None, None, _) => ("limited", format!("{who} for limit {name}")),
    };
    QueueReason {
        jobs: Some(held.jobs),
        limit: Some(held.key.limit.to_string()),
        value: held.key.value.as_ref().map(ToString::to_string),
        clears_in: clears.filter(|_| code == "limited" && held.until.is_some()).map(Period),
        until: paused.map(|paused| Moment(paused.until)),
        ..reason(code, detail)
    }
}

fn key_text(key: &LimitKey) -> String {
    let value = key.value.as_ref().map_or(String::new(), |value| format!(" for `{value}`"));
    format!("`{}`{value}", key.limit)
}

fn reason(code: &str, detail: String) -> QueueReason {
    QueueReason {
        reason: code.to_owned(),
        detail,
        jobs: None,
        limit: None,
        value: None,
        clears_in: None,
        until: None,
        busy_slots: None,
        slots: None,
    }
}

fn jobs(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

fn waits(n: u64) -> String {
    if n == 1 { "1 job waits".to_owned() } else { format!("{n} jobs wait") }
}

fn are(n: u64) -> String {
    if n == 1 { "1 job is".to_owned() } else { format!("{n} jobs are") }
}
