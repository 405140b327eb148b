//! Statistics of jobs by queue and kind.

use std::sync::Arc;

use crore_core::{JobCounter, JobStats, Restriction, Span, Time};
use crore_store::views::{JobStatsQuery, JobStatsRow, MAX_SERIES, Note, StatStep, StatsShape};

use super::super::job_builder::{DAY, MINUTE, SECOND, name};
use super::super::subject::{StoreSubject, expect_ok};

/// Statistics with this many done jobs, and waits and runs of these lengths.
fn stats(done: u64, waits: &[u64], runs: &[u64]) -> JobStats {
    let mut stats = JobStats::default();
    stats.add(JobCounter::Done, done);
    waits.iter().for_each(|n| stats.wait.record(Span::from_millis(*n), 1));
    runs.iter().for_each(|n| stats.run.record(Span::from_millis(*n), 1));
    stats
}

fn of(queue: &str, kind: &str, stats: JobStats) -> Note {
    Note::Jobs { series: Some((name(queue), name(kind))), stats: Box::new(stats) }
}

async fn note(s: &StoreSubject, notes: Vec<Note>) -> usize {
    expect_ok(s.store.note(notes)).await
}

const fn all(step: StatStep) -> JobStatsQuery {
    let (queue, kind, within, shape) = (None, None, None, StatsShape::OverTime);
    JobStatsQuery { queue, kind, within, step, from: Time::ZERO, to: Time::MAX, shape }
}

async fn query(s: &StoreSubject, query: JobStatsQuery) -> Vec<JobStatsRow> {
    expect_ok(s.store.job_stats(query)).await
}

/// Start of a row, and its number of done jobs.
async fn done(s: &StoreSubject, which: JobStatsQuery) -> Vec<(Time, u64)> {
    let rows = query(s, which).await;
    rows.iter().map(|row| (row.at, row.stats.count(JobCounter::Done))).collect()
}

/// Names of a row joined by a slash, `None` for `other`, and its number of done jobs.
async fn by_series(s: &StoreSubject, which: JobStatsQuery) -> Vec<(Option<String>, u64)> {
    let rows = query(s, JobStatsQuery { shape: StatsShape::BySeries, ..which }).await;
    let shown = |row: JobStatsRow| {
        let series = row.series.map(|(queue, kind)| format!("{queue}/{kind}"));
        (series, row.stats.count(JobCounter::Done))
    };
    rows.into_iter().map(shown).collect()
}

fn bucket(at: Time, step: StatStep) -> Time {
    let span = step.span().as_millis().cast_signed();
    Time::from_millis(at.as_millis() / span * span)
}

pub(in super::super) async fn statistics_of_jobs_are_summed_in_every_step(s: &StoreSubject) {
    let start = s.now();
    assert_eq!(query(s, all(StatStep::Minute)).await, []);
    let notes = vec![of("q", "k", stats(2, &[5, 80], &[900])), of("q", "k", stats(1, &[5], &[7]))];
    assert_eq!(note(s, notes).await, 2);
    s.advance(MINUTE.times(2));
    note(s, vec![of("q", "k", stats(4, &[], &[900, 1 << 30]))]).await;
    let row = |at, stats| JobStatsRow { series: None, at, stats };
    let first = stats(3, &[5, 80, 5], &[900, 7]);
    let second = stats(4, &[], &[900, 1 << 30]);
    let minutes = [
        row(bucket(start, StatStep::Minute), first),
        row(bucket(s.now(), StatStep::Minute), second),
    ];
    assert_eq!(query(s, all(StatStep::Minute)).await, minutes);
    let sum = stats(7, &[5, 80, 5], &[900, 7, 900, 1 << 30]);
    for step in [StatStep::Hour, StatStep::Day] {
        let rows = query(s, all(step)).await;
        let same = bucket(start, step) == bucket(s.now(), step);
        assert!(!same || rows == [row(bucket(start, step), sum.clone())], "{step:?}: {rows:?}");
        let mut total = JobStats::default();
        rows.iter().for_each(|row| total.merge(&row.stats));
        assert_eq!(total, sum);
    }
}

pub(in super::super) async fn empty_statistics_of_jobs_leave_no_row(s: &StoreSubject) {
    assert_eq!(note(s, vec![of("q", "k", JobStats::default())]).await, 1);
    assert_eq!(query(s, all(StatStep::Day)).await, []);
}

pub(in super::super) async fn statistics_are_selected_by_queue_kind_and_restriction(
    s: &StoreSubject,
) {
    let each = [("a", "x", 1), ("a", "y", 10), ("b", "x", 100), ("c", "z", 1000)];
    let notes = each.map(|(queue, kind, n)| of(queue, kind, stats(n, &[], &[])));
    note(s, notes.into()).await;
    let sum =
        async |which: JobStatsQuery| done(s, which).await.iter().map(|row| row.1).sum::<u64>();
    let every = all(StatStep::Minute);
    let (a, x) = (Some(name("a")), Some(name("x")));
    assert_eq!(sum(every.clone()).await, 1111);
    assert_eq!(sum(JobStatsQuery { queue: a.clone(), ..every.clone() }).await, 11);
    assert_eq!(sum(JobStatsQuery { kind: x.clone(), ..every.clone() }).await, 101);
    assert_eq!(sum(JobStatsQuery { queue: a, kind: x, ..every.clone() }).await, 1);
    let nobody = JobStatsQuery { queue: Some(name("d")), ..every.clone() };
    assert_eq!(query(s, nobody).await, []);
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let within = Restriction::new(&texts(&["b", "c"]), &texts(&["x"])).ok().map(Arc::new);
    assert_eq!(sum(JobStatsQuery { within, ..every }).await, 100);
}

pub(in super::super) async fn statistics_are_shown_by_series(s: &StoreSubject) {
    let first = s.now();
    note(s, vec![of("b", "x", stats(1, &[], &[])), of("a", "y", stats(2, &[], &[]))]).await;
    s.advance(MINUTE.times(3));
    note(s, vec![of("a", "y", stats(3, &[], &[])), of("a", "x", stats(4, &[], &[]))]).await;
    let named = |text: &str, n| (Some(text.to_owned()), n);
    let rows = [named("a/x", 4), named("a/y", 5), named("b/x", 1)];
    assert_eq!(by_series(s, all(StatStep::Minute)).await, rows);
    let starts = query(s, JobStatsQuery { shape: StatsShape::BySeries, ..all(StatStep::Minute) });
    let starts: Vec<Time> = starts.await.iter().map(|row| row.at).collect();
    let (first, now) = (bucket(first, StatStep::Minute), bucket(s.now(), StatStep::Minute));
    assert_eq!(starts, [now, first, first], "the first bucket of each");
    let late = JobStatsQuery { from: s.now(), ..all(StatStep::Minute) };
    assert_eq!(by_series(s, late).await, [named("a/x", 4), named("a/y", 3)]);
}

pub(in super::super) async fn statistics_are_selected_by_time(s: &StoreSubject) {
    s.advance(SECOND);
    let start = bucket(s.now(), StatStep::Minute);
    for n in 0..4_u64 {
        note(s, vec![of("q", "k", stats(n + 1, &[], &[]))]).await;
        s.advance(MINUTE);
    }
    let at = |n: u64| start.after(MINUTE.times(n));
    let between = |from, to| JobStatsQuery { from, to, ..all(StatStep::Minute) };
    assert_eq!(done(s, between(at(1), at(3))).await, [(at(1), 2), (at(2), 3)]);
    let inside = between(at(1).after(SECOND), at(2).after(SECOND));
    assert_eq!(done(s, inside).await, [(at(1), 2), (at(2), 3)], "parts of buckets count");
    assert_eq!(done(s, between(at(3), at(3))).await, [], "an empty range");
    assert_eq!(done(s, between(at(3), at(1))).await, [], "a reversed range");
}

pub(in super::super) async fn old_statistics_of_jobs_are_dropped(s: &StoreSubject) {
    let first = s.now();
    note(s, vec![of("q", "k", stats(1, &[], &[]))]).await;
    let kept = async |step: StatStep| done(s, all(step)).await.contains(&(bucket(first, step), 1));
    s.advance(DAY.plus(MINUTE));
    assert!(!kept(StatStep::Minute).await && kept(StatStep::Hour).await);
    s.advance(DAY.times(90));
    assert!(!kept(StatStep::Hour).await && kept(StatStep::Day).await);
    s.advance(DAY.times(400 - 92));
    assert!(kept(StatStep::Day).await);
    s.advance(DAY.times(2));
    assert!(!kept(StatStep::Day).await);
    note(s, vec![of("q", "k", stats(5, &[], &[]))]).await;
    assert_eq!(done(s, all(StatStep::Day)).await, [(bucket(s.now(), StatStep::Day), 5)]);
}

pub(in super::super) async fn series_beyond_the_maximum_count_as_other(s: &StoreSubject) {
    let one = |n: usize| of(&format!("q{n:04}"), "k", stats(1, &[], &[9]));
    note(s, (0..MAX_SERIES + 3).map(one).collect()).await;
    let other = Note::Jobs { series: None, stats: Box::new(stats(1, &[], &[])) };
    note(s, vec![one(0), one(MAX_SERIES), one(MAX_SERIES + 9), other]).await;
    let rows = by_series(s, all(StatStep::Hour)).await;
    assert_eq!(rows.len(), MAX_SERIES + 1);
    assert_eq!(rows[0], (Some("q0000/k".to_owned()), 2));
    assert_eq!(rows[MAX_SERIES], (None, 6), "they share one row, which is the last");
    let total: u64 = done(s, all(StatStep::Hour)).await.iter().map(|row| row.1).sum();
    assert_eq!(total, MAX_SERIES as u64 + 7, "the sum includes it");
    let folded = JobStatsQuery { queue: Some(name("q1000")), ..all(StatStep::Hour) };
    assert_eq!(query(s, folded).await, [], "no statistics of its own");
    let by_kind = JobStatsQuery { kind: Some(name("k")), ..all(StatStep::Hour) };
    let total: u64 = done(s, by_kind).await.iter().map(|row| row.1).sum();
    assert_eq!(total, MAX_SERIES as u64 + 1, "a selection does not include other");
}

pub(in super::super) async fn an_idle_series_makes_room_for_a_new_one(s: &StoreSubject) {
    let one = |n: usize| of(&format!("q{n:04}"), "k", stats(1, &[], &[]));
    note(s, (0..MAX_SERIES).map(one).collect()).await;
    s.advance(DAY.times(7));
    note(s, (1..MAX_SERIES).map(one).collect()).await;
    note(s, vec![one(5000), one(6000)]).await;
    let rows = by_series(s, all(StatStep::Day)).await;
    let has = |text: &str| rows.iter().any(|row| row.0.as_deref() == Some(text));
    assert!(has("q5000/k") && !has("q0000/k"), "it has been idle for a week");
    assert!(!has("q6000/k"), "the others have not");
    assert_eq!(rows.last(), Some(&(None, 2)), "the past of the first, and the last");
}
