//! A producer: keeps batches in flight, and processes answers as they arrive.

use std::ops::Range;

use crate::job::BATCH;
use crate::ledger::{NextJobs, PeerLedger, WaitForRoom};
use crate::peer::PeerFault;

/// Maximum number of unanswered jobs.
pub(crate) const MAX_UNANSWERED: u64 = 4 * BATCH as u64;

/// The producer side of a protocol.
pub(crate) trait PeerProducer {
    /// Sends these jobs, without waiting for an answer.
    fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault>;

    /// Waits for an answer, and returns the number of jobs that it acknowledges.
    fn answer(&mut self) -> Result<u64, PeerFault>;
}

/// Pushes until the run is over.
pub(crate) fn produce(
    ledger: &PeerLedger,
    producer: &mut impl PeerProducer,
) -> Result<(), PeerFault> {
    let mut unanswered = 0;
    loop {
        let wait = if unanswered == 0 { WaitForRoom::Yes } else { WaitForRoom::No };
        let taken = if unanswered + BATCH as u64 <= MAX_UNANSWERED {
            ledger.take(BATCH, wait)
        } else {
            NextJobs::Later
        };
        match taken {
            NextJobs::Jobs(jobs) => {
                unanswered += jobs.end - jobs.start;
                producer.push(jobs)?;
            }
            NextJobs::Over if unanswered == 0 => return Ok(()),
            NextJobs::Later | NextJobs::Over => {
                let n = producer.answer()?;
                unanswered -= n;
                ledger.pushed(n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ledger::LedgerPlan;

    /// A server that answers one batch at a time, with a worker that then runs it.
    struct Fake<'a> {
        ledger: &'a PeerLedger,
        waiting: Vec<Range<u64>>,
        most: u64,
    }

    impl PeerProducer for Fake<'_> {
        fn push(&mut self, jobs: Range<u64>) -> Result<(), PeerFault> {
            self.waiting.push(jobs);
            let unanswered = self.waiting.iter().map(|jobs| jobs.end - jobs.start).sum();
            self.most = self.most.max(unanswered);
            Ok(())
        }

        fn answer(&mut self) -> Result<u64, PeerFault> {
            let jobs = self.waiting.remove(0);
            self.ledger.ran(jobs.clone().map(Some));
            self.ledger.finished(jobs.clone().map(Some));
            Ok(jobs.end - jobs.start)
        }
    }

    #[test]
    fn every_push_is_answered_and_only_so_many_are_unanswered() {
        for (plan, most) in [
            (LedgerPlan::Load(Duration::from_millis(20)), MAX_UNANSWERED),
            (LedgerPlan::PickUp(3), 1),
        ] {
            let ledger = PeerLedger::new(plan);
            let mut fake = Fake { ledger: &ledger, waiting: Vec::new(), most: 0 };
            produce(&ledger, &mut fake).expect("nothing fails");
            assert_eq!((fake.most, fake.waiting.len()), (most, 0));
            assert!(ledger.is_over() && ledger.close(0).0.is_balanced());
        }
    }
}
