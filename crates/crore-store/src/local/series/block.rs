//! A block: the statistics of up to 16 series in one bucket of time, as bytes.
//!
//! ```text
//! block:     each series: offset of its number, length, statistics
//! statistics: presence bits, the counters that are set, the histograms that are set
//! histogram: first bucket, number of buckets, their counts
//! ```
//! All numbers are LEB128. A point takes some 60 bytes where its structure would take a kilobyte.

use crore_core::{JobCounter, JobStats, SpanHistogram};

use crate::bug::planted;
use crate::embedded::codec::{ByteReader, Damaged, Put};

/// Number of series per block.
pub(crate) const SERIES: u32 = 16;

const WAIT: u64 = 1 << 16;
const RUN: u64 = 1 << 17;

/// Presence bit of a counter. The order of counters never changes.
const fn bit(counter: JobCounter) -> u64 {
    1 << counter as u64
}

/// Iterates over the series of a block: the offset of the number, and the encoded statistics.
#[derive(Debug)]
pub(super) struct BlockReader<'a>(ByteReader<'a>);

impl<'a> BlockReader<'a> {
    pub(super) const fn new(block: &'a [u8]) -> Self {
        Self(ByteReader::new(block))
    }

    fn read(&mut self) -> Result<Option<(u32, &'a [u8])>, Damaged> {
        if self.0.rest().is_empty() {
            return Ok(None);
        }
        Ok(Some((self.0.var32()?, self.0.chunk()?)))
    }
}

impl<'a> Iterator for BlockReader<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.read().ok().flatten()
    }
}

/// Checks a block from the log.
pub(crate) fn check(block: &[u8]) -> Result<(), Damaged> {
    let mut reader = BlockReader::new(block);
    let mut least = 0;
    while let Some((offset, bytes)) = reader.read()? {
        if !(least..SERIES).contains(&offset) {
            return Err(Damaged("series out of order"));
        }
        least = offset + 1;
        get_stats(bytes)?;
    }
    Ok(())
}

/// Returns the block with `stats` added to one of its series.
pub(super) fn add(block: &[u8], offset: u32, stats: &JobStats) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() + 64);
    let mut sum = Some(stats.clone());
    for (other, bytes) in BlockReader::new(block) {
        if other == offset
            && let Some(sum) = &mut sum
            && let Ok(earlier) = get_stats(bytes)
        {
            let newest = planted!("bug-51").then(|| sum.run.clone());
            sum.merge(&earlier);
            if let Some(run) = newest {
                sum.run = run;
            }
            continue;
        }
        if other > offset
            && let Some(sum) = sum.take()
        {
            put_series(offset, &sum, &mut out);
        }
        out.put_var(other.into());
        out.put_chunk(bytes);
    }
    if let Some(sum) = sum {
        put_series(offset, &sum, &mut out);
    }
    out
}

fn put_series(offset: u32, stats: &JobStats, out: &mut Vec<u8>) {
    let mut bytes = Vec::with_capacity(64);
    put_stats(stats, &mut bytes);
    out.put_var(offset.into());
    out.put_chunk(&bytes);
}

fn put_stats(stats: &JobStats, out: &mut Vec<u8>) {
    let set = JobCounter::ALL.into_iter().filter(|counter| stats.count(*counter) > 0);
    let mut bits = set.clone().fold(0, |bits, counter| bits | bit(counter));
    let histograms = [(WAIT, &stats.wait), (RUN, &stats.run)];
    for (set, _) in histograms.iter().filter(|(_, spans)| !spans.is_empty()) {
        bits |= set;
    }
    out.put_var(bits);
    set.for_each(|counter| out.put_var(stats.count(counter)));
    for (_, spans) in histograms.into_iter().filter(|(_, spans)| !spans.is_empty()) {
        let counts = spans.counts();
        let first = counts.iter().position(|n| *n > 0).unwrap_or(0);
        out.put_var(first as u64);
        out.put_var((counts.len() - first) as u64);
        counts.iter().skip(first).for_each(|n| out.put_var(*n));
    }
}

/// Decodes the statistics of a series.
pub(super) fn get_stats(bytes: &[u8]) -> Result<JobStats, Damaged> {
    let reader = &mut ByteReader::new(bytes);
    let (mut stats, bits) = (JobStats::default(), reader.var()?);
    let counters = JobCounter::ALL.into_iter().fold(0, |bits, counter| bits | bit(counter));
    let known = counters | WAIT | RUN;
    if bits & !known != 0 {
        return Err(Damaged("unknown statistics of jobs"));
    }
    for counter in JobCounter::ALL {
        if bits & bit(counter) != 0 {
            stats.add(counter, reader.var()?);
        }
    }
    for (set, spans) in [(WAIT, &mut stats.wait), (RUN, &mut stats.run)] {
        if bits & set != 0 {
            get_histogram(reader, spans)?;
        }
    }
    if reader.rest().is_empty() { Ok(stats) } else { Err(Damaged("trailing data")) }
}

fn get_histogram(reader: &mut ByteReader<'_>, spans: &mut SpanHistogram) -> Result<(), Damaged> {
    let (first, n) = (reader.var32()? as usize, reader.count(1)?);
    if first.saturating_add(n) > SpanHistogram::BUCKETS {
        return Err(Damaged("histogram with too many buckets"));
    }
    for bucket in first..first + n {
        spans.add(bucket, reader.var()?);
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a test may panic")]
mod tests {
    use crore_core::Span;
    use proptest::prelude::*;

    use super::*;

    fn sample(counts: &[u64], waits: &[u64], runs: &[u64]) -> JobStats {
        let mut stats = JobStats::default();
        JobCounter::ALL.into_iter().zip(counts).for_each(|(counter, n)| stats.add(counter, *n));
        waits.iter().for_each(|n| stats.wait.record(Span::from_millis(*n), 1));
        runs.iter().for_each(|n| stats.run.record(Span::from_millis(*n), 1));
        stats
    }

    fn any_stats() -> impl Strategy<Value = JobStats> {
        let spans = || prop::collection::vec(0u64..1 << 40, 0..20);
        (prop::collection::vec(0u64..1000, 0..9), spans(), spans())
            .prop_map(|(counts, waits, runs)| sample(&counts, &waits, &runs))
    }

    proptest! {
        #[test]
        fn a_block_sums_up_what_is_added(
            all in prop::collection::vec((0..SERIES, any_stats()), 0..40)
        ) {
            let mut block = Vec::new();
            let mut sums = std::collections::BTreeMap::<u32, JobStats>::new();
            for (offset, stats) in &all {
                block = add(&block, *offset, stats);
                sums.entry(*offset).or_default().merge(stats);
            }
            check(&block).expect("a valid block");
            let read = BlockReader::new(&block).map(|(n, bytes)| (n, get_stats(bytes).expect("ok")));
            prop_assert_eq!(read.collect::<Vec<_>>(), sums.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn damaged_blocks_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = check(&bytes);
            check(&add(&bytes, 3, &sample(&[1], &[2], &[3]))).ok();
        }
    }

    #[test]
    fn a_usual_point_is_small() {
        let spans: Vec<u64> = (0..500).map(|n| 5 + n * n / 100).collect();
        let stats = sample(&[500, 500, 495, 5, 4, 1], &spans, &spans);
        let bytes = add(&[], 15, &stats).len();
        assert!(bytes <= 80, "{bytes} bytes");
    }
}
