//! The callers that claim and report, well and badly.

use crore_core::job::{MAX_HISTORY, Reports};
use crore_core::machine::{self, Again, Event, Report};
use crore_core::{Job, Span, State};
use crore_store::jobs::{Claim, Order, Renew, Renewed};
use crore_store::views::Note;
use crore_testkit::history::answer::{Changed, Granted, Renewed as Extended, Reported};
use crore_testkit::history::op::{self, Lease, Noticed};
use crore_testkit::history::{Answer, Hash, Op};

use super::coverage::{Deed, Sometimes};
use super::pusher::{items, new_job, payload, told};
use super::scene::{Link, Scene, name};
use super::settle::{Verdict, breath, settle};

/// Takes jobs.
pub(super) async fn fetch(link: Link, worker: usize) {
    let (ask, wait) = {
        let mut scene = link.scene();
        (ask(&mut scene, worker), patience(&mut scene))
    };
    let strict = ask.order == Order::Strict;
    let (queues, kinds, n) = (ask.queues.clone(), ask.kinds.clone(), ask.n);
    let call = link.call(Op::Fetch { queues, kinds, n, strict });
    match link.fetch(ask, wait).await {
        Ok((now, jobs)) => {
            if !call.ok(now, Answer::Fetched(jobs.iter().map(Granted::of).collect())) {
                return;
            }
            jobs.iter().for_each(|job| take(&mut link.scene(), job, worker));
            for job in jobs {
                if job.spec.lease.is_none() {
                    hand_over(&link, job).await;
                }
            }
        }
        Err(error) => call.failed(&error),
    }
}

/// Runs jobs as a program does that has the front in itself.
pub(super) async fn run(link: Link) {
    let Some(front) = &link.front else { return };
    let (is_pop, queue, queues, n) = {
        let mut scene = link.scene();
        let n = scene.dice.from(1, 5);
        (scene.dice.one_in(2), scene.queue(), scene.queues(), n)
    };
    let what = if is_pop { format!("pop {queue}") } else { format!("work, {n} jobs") };
    link.scene().say(&link.who, format_args!("{what}"));
    let ran = match is_pop {
        true => front.pop(queue).await,
        false => front.work(queues, n, Span::from_secs(600)).await,
    };
    match ran {
        Ok(()) => link.scene().say(&link.who, format_args!("-> ran")),
        Err(error) => link.could_not(&error),
    }
}

/// How long a caller waits, if there is somebody who lets him.
pub(super) fn patience(scene: &mut Scene) -> Span {
    if !scene.has_front {
        return Span::ZERO;
    }
    let spans = [Span::from_millis(300), Span::from_secs(5), Span::from_secs(3600)];
    if scene.dice.one_in(2) { Span::ZERO } else { scene.dice.choose(spans) }
}

fn ask(scene: &mut Scene, worker: usize) -> Claim {
    let mut queues = scene.queues();
    if scene.dice.one_in(3) {
        queues = vec![scene.queue()];
    }
    let kinds = scene.dice.one_in(5).then(|| vec![scene.kind()]);
    let order = scene.dice.choose([Order::Merged, Order::Merged, Order::Strict]);
    let n = scene.dice.from(1, scene.config.callers.max_claim) as usize;
    Claim { queues, kinds, n, order, worker: name(&format!("w{worker}")) }
}

fn take(scene: &mut Scene, job: &Job, worker: usize) {
    scene.heard_of(job.id);
    scene.did(Deed::Claim, Some(State::Ready));
    let before = scene.known.deliveries.insert(job.id, job.live.delivery);
    let history = &job.live.history;
    let ended = |delivery| history.iter().any(|attempt| attempt.delivery == delivery);
    if before.is_some_and(|before| !ended(before)) && history.len() < MAX_HISTORY {
        scene.happened(Sometimes::ForgottenClaim);
    }
    if job.spec.lease.is_some()
        && let Some(hand) = scene.known.hands.get_mut(worker)
    {
        hand.held.push(job.clone());
    }
}

/// A job without a lease is done when it is handed over.
async fn hand_over(link: &Link, job: Job) {
    let (id, delivery) = (job.id, job.live.delivery);
    let call = link.call(Op::Notice { id, delivery: Some(delivery), what: Noticed::HandedOver });
    match settle(link, id, Some(job), &Event::HandedOver(delivery)).await {
        Ok(verdict) => drop(call.ok(None, Answer::Changed(changed(&verdict)))),
        Err(error) => call.failed(&error),
    }
}

/// What became of something, as the history has it.
pub(super) fn changed(verdict: &Verdict) -> Changed {
    match verdict {
        Verdict::Applied { asked: true, .. } => Changed::Asked,
        Verdict::Applied { .. } => Changed::Yes,
        Verdict::Refused(_) => Changed::Refused,
        Verdict::Unknown => Changed::Unknown,
    }
}

/// Says how a job went, on what the worker kept of it.
pub(super) async fn report(link: Link, job: Job) {
    let report = draw(&mut link.scene());
    let anonymous = job.spec.reports == Reports::Any && link.scene().dice.one_in(3);
    let delivery = (!anonymous).then_some(job.live.delivery);
    let call = link.call(Op::Report {
        id: job.id,
        delivery,
        outcome: outcome(&report.outcome),
        on_done: items(&link, &report.on_done),
        on_dead: items(&link, &report.on_dead),
    });
    breath(&link).await;
    let (id, lease_until) = (job.id, job.live.lease_until);
    match settle(&link, id, Some(job), &Event::Finished { delivery, report }).await {
        Ok(verdict) => {
            note_cover(&mut link.scene(), &verdict, lease_until);
            let told = reported(&link, verdict);
            call.ok(None, Answer::Reported(told));
        }
        Err(error) => call.failed(&error),
    }
}

fn note_cover(scene: &mut Scene, verdict: &Verdict, lease_until: crore_core::Time) {
    match verdict {
        Verdict::Applied { before, was_asked, .. } => {
            scene.did(Deed::Report, *before);
            if *was_asked {
                scene.happened(Sometimes::ReportedAfterCancel);
            }
            if scene.known.now > lease_until {
                scene.happened(Sometimes::ReportedAfterItsLease);
            }
        }
        Verdict::Refused(state) => {
            scene.did(Deed::Report, *state);
            if *state == Some(State::Cancelled) {
                scene.happened(Sometimes::ReportedAfterCancel);
            }
            if scene.known.now > lease_until && !state.is_none_or(State::has_ended) {
                scene.happened(Sometimes::LapsedBeforeItsReport);
            }
        }
        Verdict::Unknown => scene.did(Deed::Report, None),
    }
}

fn reported(link: &Link, verdict: Verdict) -> Reported {
    match verdict {
        Verdict::Applied { pushed, .. } => {
            if !link.is_gone() {
                pushed.iter().for_each(|pushed| link.scene().pushed(*pushed));
            }
            Reported::Accepted(pushed.into_iter().map(told).collect())
        }
        Verdict::Refused(_) => Reported::Stale,
        Verdict::Unknown => Reported::Unknown,
    }
}

fn draw(scene: &mut Scene) -> Report {
    let result = scene.config.jobs.results.then(|| payload(scene));
    let outcome = match scene.dice.below(12) {
        0..6 => machine::Outcome::Done { result },
        6..10 => {
            let spans = [Span::ZERO, Span::from_millis(1), Span::from_secs(2)];
            let after = Again::After(scene.dice.choose(spans));
            let again = scene.dice.choose([Again::ByPolicy, Again::ByPolicy, after, Again::Never]);
            machine::Outcome::Failed { error: "it broke".into(), detail: result, again }
        }
        10 => {
            let span = scene.dice.choose([None, Some(Span::ZERO), Some(Span::from_millis(200))]);
            span.map_or(machine::Outcome::Interrupted, machine::Outcome::Snooze)
        }
        _ => machine::Outcome::Cancel,
    };
    let mut report = Report::from(outcome);
    if scene.config.jobs.follow_ups && scene.dice.one_in(3) {
        report.on_done.push(new_job(scene));
        report.on_dead.push(new_job(scene));
    }
    report
}

fn outcome(outcome: &machine::Outcome) -> op::Outcome {
    match outcome {
        machine::Outcome::Done { result } => {
            op::Outcome::Done { result: result.as_ref().map(Hash::of) }
        }
        machine::Outcome::Failed { detail, again, .. } => op::Outcome::Failed {
            again: match again {
                Again::ByPolicy => op::Again::ByPolicy,
                Again::After(span) => op::Again::After(*span),
                Again::Never => op::Again::Never,
            },
            detail: detail.as_ref().map(Hash::of),
        },
        machine::Outcome::Snooze(span) => op::Outcome::Snooze(*span),
        machine::Outcome::Cancel => op::Outcome::Cancel,
        machine::Outcome::Interrupted => op::Outcome::Interrupted,
    }
}

/// Extends leases.
pub(super) async fn renew(link: Link, jobs: Vec<Job>) {
    let span = {
        let mut scene = link.scene();
        let lease = scene.config.jobs.lease;
        scene.dice.choose([None, Some(lease), Some(lease.times(2)), Some(Span::from_millis(10))])
    };
    let leases: Vec<Renew> =
        jobs.iter().map(|job| Renew { id: job.id, delivery: job.live.delivery, span }).collect();
    let asked = leases.iter().map(|l| Lease { id: l.id, delivery: l.delivery, span: l.span });
    let call = link.call(Op::Renew { leases: asked.collect() });
    match link.renew(leases).await {
        Ok(renewed) => {
            let told = renewed.iter().zip(&jobs).map(|(renewed, job)| match renewed {
                Renewed::Until { stop, .. } => {
                    let span = span.or(job.spec.lease).unwrap_or_default();
                    Extended::For { span, stop: *stop }
                }
                Renewed::Stale => Extended::Stale,
            });
            let told = told.collect();
            let state = renewed.first().map(|renewed| match renewed {
                Renewed::Until { .. } => State::Running,
                Renewed::Stale => State::Ready,
            });
            link.scene().did(Deed::Renew, state);
            call.ok(None, Answer::Renewed(told));
        }
        Err(error) => call.failed(&error),
    }
}

/// Keeps notes.
pub(super) async fn note(link: Link, job: Job) {
    let (id, delivery) = (job.id, job.live.delivery);
    let seq = link.scene().next_seq();
    let notes = vec![
        Note::Progress { id, delivery, percent: (seq % 100) as u8, text: "half".into() },
        Note::Line { id, delivery, text: format!("line {seq}").into() },
        Note::Stat { series: name("runs"), n: 1 },
    ];
    match link.store.note(notes).await {
        Ok(kept) => link.scene().did(Deed::Note, (kept > 1).then_some(State::Running)),
        Err(error) => link.could_not(&error),
    }
}

/// Waits for one job of any queue, for an hour if need be, and keeps it.
pub(super) async fn fetch_patiently(link: Link) {
    let (queues, n, order) = (link.scene().queues(), 1, Order::Merged);
    let call = link.call(Op::Fetch { queues: queues.clone(), kinds: None, n, strict: false });
    let ask = Claim { queues, kinds: None, n, order, worker: name("w0") };
    match link.fetch(ask, Span::from_secs(3600)).await {
        Ok((now, jobs)) => {
            call.ok(now, Answer::Fetched(jobs.iter().map(Granted::of).collect()));
            jobs.iter().for_each(|job| take(&mut link.scene(), job, 0));
        }
        Err(error) => call.failed(&error),
    }
}

/// Reports all that the first worker holds.
pub(super) async fn report_all(link: Link) {
    let held = link.scene().known.hands.first_mut().map(|hand| std::mem::take(&mut hand.held));
    for job in held.into_iter().flatten() {
        report(link.clone(), job).await;
    }
}
