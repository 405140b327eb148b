//! Span and trace ids, derived from the job so that nothing has to be stored.

use crore_core::{Delivery, Job, JobId};

/// Stages of a job that have a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum SpanStage {
    Push = 1,
    Wait = 2,
    Run = 3,
    Finish = 4,
}

/// Span id of a stage. A push has no delivery.
pub(super) fn span(trace: u128, id: JobId, delivery: Option<Delivery>, stage: SpanStage) -> u64 {
    let delivery = delivery.map_or(0, |delivery| delivery.0);
    let words = [(trace >> 64) as u64, trace as u64, id.0, delivery, stage as u64];
    mix(&words).max(1)
}

/// Trace id of a job that was pushed without a context. The push time tells apart jobs with the same id in different
/// stores, and the service name those of different servers.
pub(super) fn trace(service: &str, job: &Job) -> u128 {
    let name = service.bytes().fold(0, |hash, byte| mix(&[hash, byte.into()]));
    let words = [name, job.id.0, job.live.pushed_at.as_millis().unsigned_abs()];
    let (high, low) = (mix(&words), mix(&[mix(&words), 1]));
    (u128::from(high) << 64 | u128::from(low)).max(1)
}

/// Hash with SplitMix64's finalizer after each word.
fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let mut bits = hash.wrapping_add(*word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_stage_of_every_delivery_of_every_job_has_an_id_of_its_own() {
        let mut seen = BTreeSet::new();
        for (trace, id) in [(1, 1), (2, 1), (1 << 64, 1), (1, 2)] {
            for delivery in [None, Some(Delivery(1)), Some(Delivery(2))] {
                for stage in [SpanStage::Push, SpanStage::Wait, SpanStage::Run, SpanStage::Finish] {
                    assert!(seen.insert(span(trace, JobId(id), delivery, stage)));
                }
            }
        }
        assert_eq!(seen.len(), 48);
    }
}
