use crore_core::JobCounter;

use super::*;
use crate::views::StatsShape;

const MINUTE: Span = StatStep::Minute.span();
const DAY: Span = StatStep::Day.span();

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a valid name")
}

fn pushed(n: u64) -> JobStats {
    let mut stats = JobStats::default();
    stats.add(JobCounter::Pushed, n);
    stats
}

/// As large as statistics get in practice: every counter, and durations from a millisecond to a day.
fn large() -> JobStats {
    let mut stats = JobStats::default();
    for counter in JobCounter::ALL {
        stats.add(counter, 5_000);
    }
    for power in 0..27 {
        stats.wait.record(Span::from_millis(1 << power), 300);
        stats.run.record(Span::from_millis(3 << power), 300);
    }
    stats
}

fn by_series(table: &SeriesTable, step: StatStep, now: Time) -> Vec<(Option<Name>, u64)> {
    let query = JobStatsQuery {
        queue: None,
        kind: None,
        within: None,
        step,
        from: Time::ZERO,
        to: Time::MAX,
        shape: StatsShape::BySeries,
    };
    let rows = table.select(&query, now).rows().into_iter();
    rows.map(|row| (row.series.map(|(queue, _)| queue), row.stats.count(JobCounter::Pushed)))
        .collect()
}

/// Writes all side records and reads them back in the order in which the log restores them.
fn reopened(table: &SeriesTable) -> SeriesTable {
    let mut copy = SeriesTable::default();
    for (number, row) in &table.rows {
        copy.set_name(*number, (row.queue.clone(), row.kind.clone()));
    }
    for (step, ring) in &table.rings {
        for (key, block) in &ring.blocks {
            check_block(block).expect("a valid block");
            copy.set_block(*step, *key, Arc::clone(block));
        }
    }
    copy
}

#[test]
fn series_beyond_the_maximum_are_counted_as_other_also_after_a_restart() {
    let (mut table, now) = (SeriesTable::default(), Time::ZERO.after(DAY.times(100)));
    let kind = name("k");
    for n in 0..MAX_SERIES + 5 {
        table.note(Some(&(name(&format!("q{n:04}")), kind.clone())), &pushed(1), now);
    }
    let mut table = reopened(&table);
    table.note(Some(&(name("q0000"), kind.clone())), &pushed(1), now);
    table.note(Some(&(name("q1003"), kind.clone())), &pushed(1), now);
    let rows = by_series(&table, StatStep::Hour, now);
    assert_eq!((rows.len(), rows.last()), (MAX_SERIES + 1, Some(&(None, 6))));
    assert_eq!(rows.first(), Some(&(Some(name("q0000")), 2)));
    assert!(!rows.iter().any(|row| row.0 == Some(name("q1003"))), "also after the restart");
}

#[test]
fn an_idle_series_gives_up_its_place_and_its_past_becomes_other() {
    let (mut table, start) = (SeriesTable::default(), Time::ZERO.after(DAY.times(100)));
    let kind = name("k");
    for n in 0..MAX_SERIES {
        table.note(Some(&(name(&format!("q{n:04}")), kind.clone())), &pushed(1), start);
    }
    let later = start.after(IDLE);
    table.note(Some(&(name("q0000"), kind.clone())), &pushed(1), later.before(MINUTE));
    table.note(Some(&(name("early"), kind.clone())), &pushed(1), later.before(MINUTE));
    table.note(Some(&(name("late"), kind.clone())), &pushed(7), later);
    let mut table = reopened(&table);
    let rows = by_series(&table, StatStep::Day, later);
    assert!(rows.contains(&(Some(name("late")), 7)) && rows.contains(&(Some(name("q0000")), 2)));
    assert!(!rows.iter().any(|row| row.0 == Some(name("q0001")) || row.0 == Some(name("early"))));
    assert_eq!(rows.last(), Some(&(None, 2)), "`early` and the past of `q0001`");
    // A number is not used again, even if the series with the highest one has no name any more.
    let last = table.last_number;
    table.note(Some(&(name("later"), kind.clone())), &pushed(1), later);
    assert_eq!(table.last_number, last + 1);
}

#[test]
fn a_name_without_statistics_is_removed() {
    let (mut table, start) = (SeriesTable::default(), Time::ZERO.after(DAY.times(100)));
    table.note(Some(&(name("q"), name("k"))), &pushed(1), start);
    let last = start.after(DAY.times(StatStep::Day.buckets() - 1));
    table.prune(9, last);
    assert_eq!(by_series(&table, StatStep::Day, last), [(Some(name("q")), 1)]);
    table.take_touched(&mut Vec::new());
    table.prune(9, last.after(DAY));
    assert_eq!(table.counts(), (0, 0));
    let mut touched = Vec::new();
    table.take_touched(&mut touched);
    assert_eq!(touched.len(), 2, "the name and the day");
}

/// Fills every ring of every series beyond its size.
fn filled() -> (SeriesTable, Time) {
    let (mut table, mut now) = (SeriesTable::default(), Time::ZERO.after(DAY.times(100)));
    let (stats, kind) = (large(), name(&"k".repeat(255)));
    let series: Vec<(Name, Name)> =
        (0..MAX_SERIES + 1).map(|n| (name(&format!("{n:0>255}")), kind.clone())).collect();
    // Days first, which also fill the other rings.
    for _ in 0..60 {
        series.iter().for_each(|one| table.note(Some(one), &stats, now));
        now = now.after(DAY);
    }
    (table, now)
}

#[test]
fn statistics_take_at_most_32_mib() {
    let (table, _) = filled();
    let names: usize = table
        .rows
        .values()
        .map(|row| row.queue.as_str().len() + row.kind.as_str().len() + 256)
        .sum();
    let rings: usize = table.rings.values().map(|ring| ring.bytes).sum();
    for (step, ring) in &table.rings {
        let bytes: usize = ring.blocks.values().map(|block| block.len() + BLOCK_OVERHEAD).sum();
        assert_eq!(bytes, ring.bytes, "{step:?}");
        assert!(bytes <= max_bytes(*step), "{step:?} has {bytes} bytes");
    }
    let day = table.rings.get(&StatStep::Day).expect("the ring of days");
    assert!(day.bytes > max_bytes(StatStep::Day) * 9 / 10, "filled: {}", day.bytes);
    assert!(rings + names < 26 << 20, "{rings} bytes of statistics, {names} of names");
    assert_eq!(reopened(&table).rings.values().map(|ring| ring.bytes).sum::<usize>(), rings);
}

#[test]
fn the_newest_buckets_are_kept_when_the_size_is_reached() {
    let (table, now) = filled();
    let ring = table.rings.get(&StatStep::Day).expect("the ring of days");
    let first = ring.blocks.first_key_value().expect("a block").0.0;
    let days = now.since(first).as_millis() / DAY.as_millis();
    assert!((10..60).contains(&days), "{days} days of {MAX_SERIES} busy series");
    let oldest = ring.blocks.keys().filter(|key| key.0 == first.after(DAY)).count();
    assert_eq!(oldest, (MAX_SERIES + 1).div_ceil(16), "every series has the next day");
}
