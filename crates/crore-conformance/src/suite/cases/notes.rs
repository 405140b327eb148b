//! Notes of a run, and statistics over time.

use std::sync::Arc;

use crore_core::machine::{JobEvent, Outcome};
use crore_core::{Delivery, Job, JobId, Span, Time};
use crore_store::views::{JobNotes, MAX_LOG_LINES, Note, StatStep};

use super::super::job_builder::{DAY, MINUTE, SECOND, job, name};
use super::super::subject::{StoreSubject, expect_ok};

fn line(job: &Job, text: &str) -> Note {
    Note::Line { id: job.id, delivery: job.live.delivery, text: text.into() }
}

fn progress(job: &Job, percent: u8, text: &str) -> Note {
    Note::Progress { id: job.id, delivery: job.live.delivery, percent, text: text.into() }
}

async fn note(s: &StoreSubject, notes: Vec<Note>) -> usize {
    expect_ok(s.store.note(notes)).await
}

async fn notes(s: &StoreSubject, id: JobId) -> JobNotes {
    expect_ok(s.store.notes(id)).await
}

pub(in super::super) async fn notes_of_a_run_are_kept(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    assert_eq!(notes(s, running.id).await, JobNotes::default());
    let first = s.now();
    assert_eq!(note(s, vec![progress(&running, 10, "one"), line(&running, "a 'line'\n")]).await, 2);
    s.advance(SECOND);
    assert_eq!(note(s, vec![line(&running, ""), progress(&running, 100, "🦀")]).await, 2);
    let kept = notes(s, running.id).await;
    assert_eq!(kept.progress, Some((s.now(), 100, "🦀".into())), "the newest");
    assert_eq!(kept.lines, [(first, "a 'line'\n".into()), (s.now(), "".into())], "in order");
}

pub(in super::super) async fn notes_do_not_change_the_job(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    note(s, vec![progress(&running, 10, "one"), line(&running, "two")]).await;
    assert_eq!(s.job(running.id).await, running);
    s.done(&running).await;
    assert_eq!(notes(s, running.id).await.lines.len(), 1, "notes outlive the run");
}

pub(in super::super) async fn the_newest_lines_are_kept(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    let lines = (0..MAX_LOG_LINES + 5).map(|n| line(&running, &n.to_string())).collect();
    assert_eq!(note(s, lines).await, MAX_LOG_LINES + 5);
    let kept: Vec<Arc<str>> = notes(s, running.id).await.lines.into_iter().map(|l| l.1).collect();
    let newest: Vec<Arc<str>> = (5..MAX_LOG_LINES + 5).map(|n| n.to_string().into()).collect();
    assert_eq!(kept, newest);
}

pub(in super::super) async fn a_note_of_another_delivery_is_dropped(s: &StoreSubject) {
    let first = s.start(job("q")).await;
    s.finish_as_decided(&first, Outcome::Interrupted).await;
    assert_eq!(note(s, vec![line(&first, "late")]).await, 0, "it does not run");
    let second = s.claim_one("q").await;
    let mut unborn = second.clone();
    unborn.live.delivery = Delivery(second.live.delivery.0 + 1);
    let nobody = Job { id: JobId(second.id.0 + 1000), ..second.clone() };
    let mixed = vec![
        line(&first, "late"),
        line(&second, "now"),
        progress(&unborn, 1, "early"),
        line(&nobody, "who"),
    ];
    assert_eq!(note(s, mixed).await, 1, "only those that count are counted");
    let kept = notes(s, second.id).await;
    assert_eq!((kept.progress, kept.lines), (None, vec![(s.now(), "now".into())]));
    assert_eq!(notes(s, nobody.id).await, JobNotes::default());
    s.done(&second).await;
    assert_eq!(note(s, vec![line(&second, "late")]).await, 0, "it has ended");
}

pub(in super::super) async fn notes_are_removed_with_their_job(s: &StoreSubject) {
    let running = s.start(job("q")).await;
    note(s, vec![line(&running, "one")]).await;
    s.fail_for_good(&running).await;
    s.apply_to_current(running.id, &JobEvent::Delete).await;
    assert_eq!(notes(s, running.id).await, JobNotes::default());
}

fn stat(series: &str, n: u64) -> Note {
    Note::Stat { series: name(series), n }
}

async fn stats(s: &StoreSubject, series: &str, step: StatStep) -> Vec<(Time, u64)> {
    expect_ok(s.store.stats(name(series), step)).await
}

/// The start of the bucket in which an instant lies.
fn bucket(at: Time, step: StatStep) -> Time {
    let span = step.span().as_millis().cast_signed();
    Time::from_millis(at.as_millis() / span * span)
}

pub(in super::super) async fn a_statistic_is_summed_by_minute_and_by_hour(s: &StoreSubject) {
    s.advance(Span::from_secs(7));
    let start = s.now();
    assert_eq!(stats(s, "done", StatStep::Minute).await, []);
    assert_eq!(note(s, vec![stat("done", 2), stat("done", 3), stat("other", 1)]).await, 3);
    s.advance(MINUTE.times(2));
    note(s, vec![stat("done", 10)]).await;
    let minutes = [(bucket(start, StatStep::Minute), 5), (bucket(s.now(), StatStep::Minute), 10)];
    assert_eq!(stats(s, "done", StatStep::Minute).await, minutes, "empty buckets are left out");
    assert_eq!(stats(s, "done", StatStep::Hour).await, [(bucket(start, StatStep::Hour), 15)]);
    s.advance(MINUTE.times(60));
    note(s, vec![stat("done", 100)]).await;
    let hours = [(bucket(start, StatStep::Hour), 15), (bucket(s.now(), StatStep::Hour), 100)];
    assert_eq!(stats(s, "done", StatStep::Hour).await, hours);
    assert_eq!(stats(s, "other", StatStep::Hour).await, [(bucket(start, StatStep::Hour), 1)]);
}

pub(in super::super) async fn a_statistic_of_zero_creates_no_bucket(s: &StoreSubject) {
    assert_eq!(note(s, vec![stat("done", 0)]).await, 1);
    assert_eq!(stats(s, "done", StatStep::Minute).await, []);
}

pub(in super::super) async fn old_statistics_are_dropped(s: &StoreSubject) {
    let first = s.now();
    note(s, vec![stat("done", 1)]).await;
    s.advance(DAY.times(1).plus(MINUTE));
    note(s, vec![stat("done", 2)]).await;
    let day = (bucket(s.now(), StatStep::Minute), 2);
    assert_eq!(stats(s, "done", StatStep::Minute).await, [day], "after a day by the minute");
    assert_eq!(stats(s, "done", StatStep::Hour).await[0], (bucket(first, StatStep::Hour), 1));
    s.advance(DAY.times(90));
    assert_eq!(stats(s, "done", StatStep::Minute).await, [], "also when nothing is noted");
    note(s, vec![stat("done", 3)]).await;
    let hours = stats(s, "done", StatStep::Hour).await;
    assert!(!hours.iter().any(|(at, _)| *at == bucket(first, StatStep::Hour)), "{hours:?}");
    assert_eq!(hours.last(), Some(&(bucket(s.now(), StatStep::Hour), 3)));
}
