//! Writes to the store. A local store gets each write at once. To a remote store a limited number of calls is in
//! flight; writes that arrive meanwhile are batched into one call, so a slow store gets few, large calls.
//!
//! A batch has no task of its own: every caller with a write in it polls it, so the batch completes even if some of
//! the callers are dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crore_store::jobs::{Applied, StoreWrite};
use crore_store::{Error, Store};

/// Maximum calls in flight before writes are batched.
const MAX_CALLS: usize = 64;

/// Maximum writes of a batch; later callers wait for the next one.
const MAX_BATCH_WRITES: usize = 1000;

type ApplyCall = Pin<Box<dyn Future<Output = Result<Vec<Applied>, Error>> + Send>>;

/// All writes in flight.
#[derive(Debug)]
pub(crate) struct Writes {
    store: Arc<dyn Store>,
    is_local: bool,
    calls: Mutex<CallsInFlight>,
}

#[derive(Debug, Default)]
struct CallsInFlight {
    in_flight: usize,
    gathering: Option<Arc<WriteBatch>>,
}

/// Writes of several callers, sent in one call.
struct WriteBatch {
    stage: Mutex<WriteBatchStage>,
    /// The callers that wait for it. Under a lock of its own, because the store may wake the batch while `stage` is
    /// locked.
    wakers: Mutex<BatchWakers>,
}

/// The wakers of the waiting callers, each once.
#[derive(Default)]
struct BatchWakers {
    /// How often the list was taken to wake all.
    round: u64,
    list: Vec<Waker>,
}

/// The position of a caller's waker, and the round in which it is valid.
type WakerPosition = Option<(u64, usize)>;

impl BatchWakers {
    fn add(&mut self, position: &mut WakerPosition, waker: &Waker) {
        let existing = position.filter(|(round, _)| *round == self.round);
        match existing.and_then(|(_, index)| self.list.get_mut(index)) {
            Some(existing) => existing.clone_from(waker),
            None => {
                *position = Some((self.round, self.list.len()));
                self.list.push(waker.clone());
            }
        }
    }

    fn take(&mut self) -> Vec<Waker> {
        self.round += 1;
        std::mem::take(&mut self.list)
    }
}

enum WriteBatchStage {
    Gathering(Vec<StoreWrite>),
    /// The call to the store, polled by any of the callers.
    InFlight(ApplyCall),
    /// The results, each until its caller takes it.
    Answered(Vec<Option<Applied>>),
    Failed(Error),
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBatch").finish_non_exhaustive()
    }
}

impl Wake for WriteBatch {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let wakers = self.wakers().take();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Writes {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { is_local: store.is_local(), store, calls: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, CallsInFlight> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies writes, alone or batched with others. They are durable when this returns.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        writes: Vec<StoreWrite>,
    ) -> Result<Vec<Applied>, Error> {
        if self.is_local {
            return Ok(self.store.apply(writes).await?.into_inner());
        }
        match self.admit(writes).await {
            WriteAdmission::Alone(writes, _slot) => {
                Ok(self.store.apply(writes).await?.into_inner())
            }
            WriteAdmission::Batched(batch, range) => {
                let mut position = None;
                poll_fn(|context| batch.poll(context, range, &mut position)).await
            }
        }
    }

    async fn admit(self: &Arc<Self>, writes: Vec<StoreWrite>) -> WriteAdmission {
        let mut writes = Some(writes);
        poll_fn(|context| {
            let mut calls = self.lock();
            if calls.in_flight < MAX_CALLS {
                calls.in_flight += 1;
                let slot = CallSlot(Arc::clone(self));
                return Poll::Ready(WriteAdmission::Alone(writes.take().unwrap_or_default(), slot));
            }
            let batch = calls.gathering.get_or_insert_with(WriteBatch::new);
            match batch.join(&mut writes, context) {
                Some(range) => Poll::Ready(WriteAdmission::Batched(Arc::clone(batch), range)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Ends a call: its slot goes to the pending batch, if there is one.
    fn release_slot(self: &Arc<Self>) {
        let batch = {
            let mut calls = self.lock();
            let batch = calls.gathering.take();
            if batch.is_none() {
                calls.in_flight -= 1;
            }
            batch
        };
        if let Some(batch) = batch {
            batch.launch(CallSlot(Arc::clone(self)), Arc::clone(&self.store));
            batch.wake_by_ref();
        }
    }
}

/// How a write is sent.
enum WriteAdmission {
    Alone(Vec<StoreWrite>, CallSlot),
    /// In a batch: the index of its first result, and their number.
    Batched(Arc<WriteBatch>, (usize, usize)),
}

/// A slot for one of the calls in flight.
#[derive(Debug)]
struct CallSlot(Arc<Writes>);

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.0.release_slot();
    }
}

impl WriteBatch {
    fn new() -> Arc<Self> {
        let stage = Mutex::new(WriteBatchStage::Gathering(Vec::new()));
        Arc::new(Self { stage, wakers: Mutex::default() })
    }

    fn stage(&self) -> MutexGuard<'_, WriteBatchStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakers(&self) -> MutexGuard<'_, BatchWakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds writes and returns the range of their results (start and length); `None`: the batch is full.
    fn join(
        &self,
        new: &mut Option<Vec<StoreWrite>>,
        context: &Context<'_>,
    ) -> Option<(usize, usize)> {
        let mut stage = self.stage();
        let WriteBatchStage::Gathering(writes) = &mut *stage else { return None };
        if writes.len() >= MAX_BATCH_WRITES {
            // The next attempt may join another batch, where this caller has no waker yet.
            self.wakers().add(&mut None, context.waker());
            return None;
        }
        let start = writes.len();
        writes.extend(new.take().unwrap_or_default());
        Some((start, writes.len() - start))
    }

    fn launch(&self, slot: CallSlot, store: Arc<dyn Store>) {
        let mut stage = self.stage();
        if let WriteBatchStage::Gathering(writes) = &mut *stage {
            let writes = std::mem::take(writes);
            *stage = WriteBatchStage::InFlight(Box::pin(async move {
                let applied = store.apply(writes).await;
                drop(slot);
                Ok(applied?.into_inner())
            }));
        }
    }

    /// Polls the batch, and returns the results of one caller when they are available.
    fn poll(
        self: &Arc<Self>,
        context: &Context<'_>,
        (start, n): (usize, usize),
        position: &mut WakerPosition,
    ) -> Poll<Result<Vec<Applied>, Error>> {
        // Register first, so that a wake-up in between is not lost.
        self.wakers().add(position, context.waker());
        let mut stage = self.stage();
        let is_over = match &mut *stage {
            WriteBatchStage::InFlight(call) => {
                // This caller may be dropped before the call continues, so the waker wakes all of them.
                let wake_all = Waker::from(Arc::clone(self));
                match call.as_mut().poll(&mut Context::from_waker(&wake_all)) {
                    Poll::Pending => false,
                    Poll::Ready(result) => {
                        *stage = result.map_or_else(WriteBatchStage::Failed, |applied| {
                            WriteBatchStage::Answered(applied.into_iter().map(Some).collect())
                        });
                        true
                    }
                }
            }
            _ => false,
        };
        let result = match &mut *stage {
            WriteBatchStage::Gathering(_) | WriteBatchStage::InFlight(_) => Poll::Pending,
            WriteBatchStage::Failed(error) => Poll::Ready(Err(copy_error(error))),
            WriteBatchStage::Answered(results) => {
                let ours = results.iter_mut().skip(start).take(n).filter_map(Option::take);
                Poll::Ready(Ok(ours.collect()))
            }
        };
        drop(stage);
        if is_over {
            self.wake_by_ref();
        }
        result
    }
}

/// Copies an error for another caller of the batch.
fn copy_error(error: &Error) -> Error {
    match error {
        Error::Invalid(invalid) => Error::Invalid(invalid.clone()),
        Error::Full { what } => Error::Full { what: what.clone() },
        Error::Foreign { what } => Error::Foreign { what: what.clone() },
        Error::Corrupt { what } => Error::Corrupt { what: what.clone() },
        Error::Poisoned => Error::Poisoned,
        other => Error::Unavailable(other.to_string().into()),
    }
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crore_core::{Clock, GroupId, Time};
    use crore_store::Memory;

    use super::*;

    #[derive(Debug)]
    struct FrozenClock;

    impl Clock for FrozenClock {
        fn now(&self) -> Time {
            Time::ZERO
        }
    }

    #[derive(Debug, Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn writes() -> Arc<Writes> {
        let remote = Writes::new(Arc::new(Memory::new(Arc::new(FrozenClock))));
        Arc::new(Writes { is_local: false, ..remote })
    }

    /// Takes all slots, so that further writes are batched.
    fn occupy_all_slots(writes: &Arc<Writes>) -> Vec<CallSlot> {
        writes.lock().in_flight += MAX_CALLS;
        (0..MAX_CALLS).map(|_| CallSlot(Arc::clone(writes))).collect()
    }

    fn seal() -> Vec<StoreWrite> {
        vec![StoreWrite::Seal(GroupId(1))]
    }

    type PendingApply = Pin<Box<dyn Future<Output = Result<Vec<Applied>, Error>>>>;

    fn apply_n(writes: &Arc<Writes>, n: usize) -> PendingApply {
        let writes = Arc::clone(writes);
        Box::pin(async move { writes.apply(vec![StoreWrite::Seal(GroupId(1)); n]).await })
    }

    fn poll(pending: &mut PendingApply, waker: &Waker) -> Poll<Result<Vec<Applied>, Error>> {
        pending.as_mut().poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn writes_are_batched_while_all_call_slots_are_taken_with_separate_results() {
        let writes = writes();
        let slots = occupy_all_slots(&writes);
        let count = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut pending: Vec<PendingApply> = (1..=3).map(|n| apply_n(&writes, n)).collect();
        assert!(pending.iter_mut().all(|one| poll(one, &waker).is_pending()));
        drop(slots);
        assert_eq!(count.0.load(Ordering::Relaxed), 3, "every waiting caller is woken");
        for (n, one) in (1..=3).zip(&mut pending) {
            match poll(one, &waker) {
                Poll::Ready(results) => assert_eq!(results.expect("applied").len(), n),
                Poll::Pending => panic!("{n}: not answered"),
            }
        }
        assert_eq!(writes.lock().in_flight, 0, "every slot is returned");
    }

    #[test]
    fn a_dropped_caller_does_not_lose_the_responses_of_others() {
        let writes = writes();
        let slots = occupy_all_slots(&writes);
        let waker = Waker::noop();
        let (mut first, mut second) = (apply_n(&writes, 1), apply_n(&writes, 2));
        assert!(poll(&mut first, waker).is_pending() && poll(&mut second, waker).is_pending());
        drop(first);
        drop(slots);
        match poll(&mut second, waker) {
            Poll::Ready(results) => assert_eq!(results.expect("applied").len(), 2),
            Poll::Pending => panic!("no response"),
        }
    }

    #[test]
    fn slots_are_released_when_all_callers_are_dropped() {
        let writes = writes();
        let slots = occupy_all_slots(&writes);
        let mut only = apply_n(&writes, 1);
        assert!(poll(&mut only, Waker::noop()).is_pending());
        drop(only);
        drop(slots);
        assert_eq!(writes.lock().in_flight, 0);
        let results = crate::block_on(writes.apply(seal())).expect("applied");
        assert_eq!(results.len(), 1);
    }

    #[test]
    fn writes_wait_for_the_next_batch_when_one_is_full() {
        let writes = writes();
        let slots = occupy_all_slots(&writes);
        let waker = Waker::noop();
        let (mut full, mut late) = (apply_n(&writes, MAX_BATCH_WRITES), apply_n(&writes, 1));
        assert!(poll(&mut full, waker).is_pending() && poll(&mut late, waker).is_pending());
        drop(slots);
        assert!(poll(&mut full, waker).is_ready());
        assert!(poll(&mut late, waker).is_ready());
    }
}
