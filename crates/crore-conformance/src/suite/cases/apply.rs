//! What is decided is written, with all its effects, and once.

use crore_core::job::{Ended, Lapse, MAX_HISTORY, Needs, Reports, Retain, Thing};
use crore_core::machine::{Again, Event, Next, Outcome, Report};
use crore_core::push::AfterRef;
use crore_core::{Job, NewJob, Span, State};
use crore_store::jobs::{Applied, Pushed, Write};

use super::super::draft::{Draft, MINUTE, SECOND, job, jobs};
use super::super::subject::{Few, change, failed, finished};

fn done_and(job: &Job, on_done: Vec<NewJob>) -> Event {
    let report = Report { on_done, ..Outcome::Done { result: None }.into() };
    Event::Finished { delivery: Some(job.live.delivery), report }
}

pub(in super::super) async fn a_done_job_is_done(s: &Few) {
    let job = s.start(job("q")).await;
    s.pass(SECOND);
    s.done(&job).await;
    let job = s.job(job.id).await;
    assert_eq!((job.live.state, job.live.ended_at), (State::Done, Some(s.now())));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_failed_job_comes_back_after_its_delay(s: &Few) {
    let job = s.start(job("q").attempts(3)).await;
    s.pass(SECOND);
    s.ends(&job, failed(Again::After(MINUTE))).await;
    let live = s.job(job.id).await.live;
    assert_eq!((live.state, live.attempt), (State::Scheduled, 1));
    assert_eq!(live.due, s.now().after(MINUTE));
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_job_is_dead_after_its_last_attempt(s: &Few) {
    s.push(job("q").attempts(3)).await;
    for attempt in 1..=3 {
        let job = s.claim_one("q").await;
        assert_eq!(job.live.attempt, attempt);
        s.ends(&job, failed(Again::After(Span::ZERO))).await;
        let state = if attempt < 3 { State::Ready } else { State::Dead };
        assert_eq!(s.job(job.id).await.live.state, state);
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_dead_job_retried_by_hand_starts_afresh(s: &Few) {
    let job = s.start(job("q")).await;
    s.dies(&job).await;
    s.pass(SECOND);
    s.happens_to(job.id, &Event::Retry).await;
    let again = s.claim_one("q").await;
    assert_eq!((again.id, again.live.attempt, again.live.due), (job.id, 1, s.now()));
    assert!(again.live.delivery > job.live.delivery, "the fence does not start afresh");
}

pub(in super::super) async fn a_snoozed_job_costs_no_attempt(s: &Few) {
    let job = s.start(job("q")).await;
    s.ends(&job, Outcome::Snooze(MINUTE)).await;
    let live = s.job(job.id).await.live;
    assert_eq!((live.state, live.attempt), (State::Scheduled, 0));
    assert_eq!(live.due, s.now().after(MINUTE));
}

pub(in super::super) async fn a_lapse_means_what_the_job_says(s: &Few) {
    let lapse = |lapse| job("q").with(|job| job.spec.lapse = lapse);
    for (new, state, attempt, crashes) in [
        (lapse(Lapse::Crash { quarantine: None }), State::Ready, 0, 1),
        (lapse(Lapse::Crash { quarantine: Some(1) }), State::Dead, 0, 1),
        (lapse(Lapse::Failure), State::Scheduled, 1, 0),
        (lapse(Lapse::Failure).attempts(1), State::Dead, 1, 0),
        (lapse(Lapse::Again), State::Ready, 1, 0),
    ] {
        let job = s.start(new).await;
        s.happens(&job, &Event::Lapsed(job.live.delivery)).await;
        let live = s.job(job.id).await.live;
        let what = job.spec.lapse;
        assert_eq!((live.state, live.attempt, live.crashes), (state, attempt, crashes), "{what:?}");
        assert_eq!(live.history[0].ended, Ended::Lapsed);
        if live.state == State::Ready {
            s.happens_to(job.id, &Event::Delete).await;
        }
    }
}

pub(in super::super) async fn every_other_end_is_written_as_decided(s: &Few) {
    let slow = s.start(job("q").attempts(2)).await;
    s.happens(&slow, &Event::TimedOut(slow.live.delivery)).await;
    let forgotten = s.start(job("q").with(|job| job.spec.lease = None)).await;
    s.happens(&forgotten, &Event::HandedOver(forgotten.live.delivery)).await;
    let given_up = s.start(job("q")).await;
    s.ends(&given_up, Outcome::Cancel).await;
    let policy = s.start(job("q")).await;
    s.ends(&policy, failed(Again::ByPolicy)).await;
}

pub(in super::super) async fn a_history_is_newest_first_and_bounded(s: &Few) {
    s.push(job("q")).await;
    let mut deliveries = Vec::new();
    let mut last = None;
    for _ in 0..MAX_HISTORY + 2 {
        let job = s.claim_one("q").await;
        deliveries.insert(0, job.live.delivery);
        s.pass(SECOND);
        s.ends(&job, Outcome::Interrupted).await;
        last = Some(job.id);
    }
    let history = s.job(last.expect("it ran")).await.live.history;
    let kept: Vec<_> = history.iter().map(|attempt| attempt.delivery).collect();
    assert_eq!(kept, deliveries[..MAX_HISTORY]);
    assert_eq!(history[0].ended_at, s.now());
}

pub(in super::super) async fn a_cancelled_job_is_not_handed_out(s: &Few) {
    let ready = s.push(job("q")).await;
    let later = s.push(job("q").later(SECOND)).await;
    for id in [ready, later] {
        s.happens_to(id, &Event::Cancel).await;
        assert_eq!(s.job(id).await.live.state, State::Cancelled);
    }
    s.pass(MINUTE);
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_deleted_job_is_gone(s: &Few) {
    let pushed = s.push_all(vec![job("q"), job("q").later(SECOND), job("q").priority(-1)]).await;
    let dead = s.claim_one("q").await;
    s.dies(&dead).await;
    for id in pushed {
        let job = s.job(id).await;
        s.happens(&job, &Event::Delete).await;
        assert_eq!(s.tell(&job, &Event::Delete).await, Applied::Stale, "gone once");
    }
    assert_eq!(s.claim_ids(&["q"], 9).await, []);
}

pub(in super::super) async fn a_job_that_nobody_keeps_is_gone_when_done(s: &Few) {
    let job = s.start(job("q").with(|job| job.spec.retain = Retain::Nothing)).await;
    s.done(&job).await;
    assert_eq!(s.find(job.id).await, None);
}

pub(in super::super) async fn follow_ups_are_pushed_once_and_know_their_parent(s: &Few) {
    let parent = s.start(job("q")).await;
    let event = done_and(&parent, vec![job("then").priority(1), job("then").later(SECOND)]);
    let pushed = s.happens(&parent, &event).await;
    assert_eq!(s.tell(&parent, &event).await, Applied::Stale);
    let children: Vec<_> = pushed.iter().filter_map(|answer| answer.id()).collect();
    assert_eq!(children.len(), 2, "{pushed:?}");
    for (n, id) in (0..).zip(&children) {
        assert_eq!(s.job(*id).await.spec.parent, Some((parent.id, n)));
    }
    assert_eq!(s.job(children[1]).await.live.due, s.now().after(SECOND));
    assert_eq!(s.claim_ids(&["then"], 9).await, [children[0]]);
}

pub(in super::super) async fn a_follow_up_sees_its_parent_as_the_write_leaves_it(s: &Few) {
    let then = |id| job("then").after(AfterRef::Job(id), Needs::End);
    let kept = s.start(job("q")).await;
    let pushed = s.happens(&kept, &done_and(&kept, vec![then(kept.id)])).await;
    assert_eq!(s.claim_ids(&["then"], 9).await, [pushed[0].id().expect("it is stored")]);
    let removed = s.start(job("q").with(|job| job.spec.retain = Retain::Nothing)).await;
    let pushed = s.happens(&removed, &done_and(&removed, vec![then(removed.id)])).await;
    assert_eq!(pushed, [Pushed::Broken(Thing::Job(removed.id))], "there is nothing to wait for");
}

pub(in super::super) async fn follow_ups_are_pushed_only_for_their_end(s: &Few) {
    s.push_all(jobs("q", 2)).await;
    let running = s.claim(&["q"], 2).await;
    let report = |outcome| Report { outcome, on_done: jobs("done", 1), on_dead: jobs("dead", 1) };
    let event = |job: &Job, outcome| Event::Finished {
        delivery: Some(job.live.delivery),
        report: report(outcome),
    };
    let snoozed = event(&running[0], Outcome::Snooze(SECOND));
    assert_eq!(s.happens(&running[0], &snoozed).await, []);
    let dead = event(&running[1], failed(Again::Never));
    assert_eq!(s.happens(&running[1], &dead).await.len(), 1);
    assert_eq!(s.claim_ids(&["done"], 9).await, []);
    assert_eq!(s.claim_one("dead").await.spec.parent, Some((running[1].id, 0)));
}

pub(in super::super) async fn a_follow_up_may_be_a_duplicate(s: &Few) {
    let keyed = || job("then").client("native", "mine");
    let first = s.push(keyed()).await;
    let parent = s.start(job("q")).await;
    let pushed = s.happens(&parent, &done_and(&parent, vec![keyed(), job("then")])).await;
    assert_eq!(pushed[0], Pushed::Duplicate(first));
    assert!(matches!(pushed[1], Pushed::New(_)), "{pushed:?}");
    assert_eq!(s.job(first).await.spec.parent, None);
}

pub(in super::super) async fn any_delivery_may_report_where_the_job_says_so(s: &Few) {
    let any = || job("q").with(|job| job.spec.reports = Reports::Any);
    for again in [Span::ZERO, MINUTE] {
        let job = s.start(any()).await;
        s.ends(&job, failed(Again::After(again))).await;
        let waits = s.job(job.id).await;
        s.happens(&waits, &finished(&job, Outcome::Done { result: None })).await;
        assert_eq!(s.job(job.id).await.live.state, State::Done);
        assert_eq!(s.claim_ids(&["q"], 9).await, [], "it waits no more");
    }
}

pub(in super::super) async fn a_scheduled_job_may_be_run_now(s: &Few) {
    let id = s.push(job("q").later(MINUTE)).await;
    s.happens_to(id, &Event::Retry).await;
    assert_eq!(s.claim_ids(&["q"], 9).await, [id]);
}

/// The second write is based on what the first one makes.
pub(in super::super) async fn writes_of_a_batch_apply_in_order(s: &Few) {
    let job = s.start(job("q")).await;
    let first = change(&job, &finished(&job, failed(Again::Never)));
    let mut then = job.clone();
    if let Next::Live(next) = &first.next {
        then.take(next, s.now());
    }
    let second = change(&then, &Event::Retry);
    let answers = s.write_all(vec![Write::Job(first), Write::Job(second)]).await;
    assert_eq!(answers, [Applied::Yes(Vec::new()), Applied::Yes(Vec::new())]);
    assert_eq!(s.job(job.id).await.live.state, State::Ready);
    assert_eq!(s.write_all(Vec::new()).await, []);
}
