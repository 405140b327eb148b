//! One producer: batches on their way, and answers as they come.

use std::ops::Range;

use crate::job::BATCH;
use crate::ledger::{Ledger, Taken, Wait};
use crate::peer::Fault;

/// How many jobs may be on their way to a server and unanswered.
pub(crate) const UNANSWERED: u64 = 4 * BATCH as u64;

/// Speaks to a server.
pub(crate) trait Producer {
    /// Sends these jobs, without waiting for an answer.
    fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault>;

    /// Waits for an answer, and says for how many jobs it was.
    fn answer(&mut self) -> Result<u64, Fault>;
}

/// Pushes until the ledger is over.
pub(crate) fn produce(ledger: &Ledger, producer: &mut impl Producer) -> Result<(), Fault> {
    let mut unanswered = 0;
    loop {
        let wait = if unanswered == 0 { Wait::Yes } else { Wait::No };
        let taken = if unanswered + BATCH as u64 <= UNANSWERED {
            ledger.take(BATCH, wait)
        } else {
            Taken::Later
        };
        match taken {
            Taken::Jobs(jobs) => {
                unanswered += jobs.end - jobs.start;
                producer.push(jobs)?;
            }
            Taken::Over if unanswered == 0 => return Ok(()),
            Taken::Later | Taken::Over => {
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
    use crate::ledger::Plan;

    /// A server that answers a batch at a time, and a worker that runs it then.
    struct Fake<'a> {
        ledger: &'a Ledger,
        waiting: Vec<Range<u64>>,
        most: u64,
    }

    impl Producer for Fake<'_> {
        fn push(&mut self, jobs: Range<u64>) -> Result<(), Fault> {
            self.waiting.push(jobs);
            let unanswered = self.waiting.iter().map(|jobs| jobs.end - jobs.start).sum();
            self.most = self.most.max(unanswered);
            Ok(())
        }

        fn answer(&mut self) -> Result<u64, Fault> {
            let jobs = self.waiting.remove(0);
            self.ledger.ran(jobs.clone().map(Some));
            self.ledger.finished(jobs.clone().map(Some));
            Ok(jobs.end - jobs.start)
        }
    }

    #[test]
    fn every_push_is_answered_and_only_so_many_are_unanswered() {
        for (plan, most) in
            [(Plan::Load(Duration::from_millis(20)), UNANSWERED), (Plan::PickUp(3), 1)]
        {
            let ledger = Ledger::new(plan);
            let mut fake = Fake { ledger: &ledger, waiting: Vec::new(), most: 0 };
            produce(&ledger, &mut fake).expect("nothing fails");
            assert_eq!((fake.most, fake.waiting.len()), (most, 0));
            assert!(ledger.is_over() && ledger.close(0).0.is_balanced());
        }
    }
}
