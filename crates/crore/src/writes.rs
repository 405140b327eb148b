//! Writes on their way to the store. To one that is near they go as they come. To one that is not, a few
//! at a time go alone, and whoever comes while those are under way goes together with all others who do:
//! so a store that answers slowly is asked seldom, for much.
//!
//! There is no task behind a batch: everybody whose write is in it can carry it on, so none is lost
//! when one of them is dropped.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crore_store::jobs::{Applied, Write};
use crore_store::{Error, Store};

/// How many calls are under way at once before others are gathered.
const ALONE: usize = 64;

/// How many writes go together at the most; whoever comes later waits until those are on their way.
const TOGETHER: usize = 1000;

type Call = Pin<Box<dyn Future<Output = Result<Vec<Applied>, Error>> + Send>>;

/// All writes on their way.
#[derive(Debug)]
pub(crate) struct Writes {
    store: Arc<dyn Store>,
    is_near: bool,
    traffic: Mutex<Traffic>,
}

#[derive(Debug, Default)]
struct Traffic {
    under_way: usize,
    gathering: Option<Arc<Batch>>,
}

/// Writes that go together.
struct Batch {
    stage: Mutex<Stage>,
    /// Everybody who waits for it. Apart, because a store may wake us while it is asked.
    wakers: Mutex<Wakers>,
}

/// Everybody who waits, each once.
#[derive(Default)]
struct Wakers {
    /// How often all were woken.
    round: u64,
    list: Vec<Waker>,
}

/// Where somebody stands among those who wait, and since which round.
type Stand = Option<(u64, usize)>;

impl Wakers {
    fn add(&mut self, stand: &mut Stand, waker: &Waker) {
        let known = stand.filter(|(round, _)| *round == self.round);
        match known.and_then(|(_, place)| self.list.get_mut(place)) {
            Some(known) => known.clone_from(waker),
            None => {
                *stand = Some((self.round, self.list.len()));
                self.list.push(waker.clone());
            }
        }
    }

    fn take(&mut self) -> Vec<Waker> {
        self.round += 1;
        std::mem::take(&mut self.list)
    }
}

enum Stage {
    Gathering(Vec<Write>),
    /// Somebody takes it to the store.
    UnderWay(Call),
    /// The answers, each until it is fetched.
    Answered(Vec<Option<Applied>>),
    Failed(Error),
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Wake for Batch {
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
        Self { is_near: store.is_near(), store, traffic: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies writes, alone or with those of others; durable when answered.
    pub(crate) async fn apply(self: &Arc<Self>, writes: Vec<Write>) -> Result<Vec<Applied>, Error> {
        if self.is_near {
            return Ok(self.store.apply(writes).await?.into_inner());
        }
        match self.enter(writes).await {
            Entered::Alone(writes, _turn) => Ok(self.store.apply(writes).await?.into_inner()),
            Entered::With(batch, place) => {
                let mut stand = None;
                poll_fn(|context| batch.poll(context, place, &mut stand)).await
            }
        }
    }

    async fn enter(self: &Arc<Self>, writes: Vec<Write>) -> Entered {
        let mut writes = Some(writes);
        poll_fn(|context| {
            let mut traffic = self.lock();
            if traffic.under_way < ALONE {
                traffic.under_way += 1;
                let turn = Turn(Arc::clone(self));
                return Poll::Ready(Entered::Alone(writes.take().unwrap_or_default(), turn));
            }
            let batch = traffic.gathering.get_or_insert_with(Batch::new);
            match batch.join(&mut writes, context) {
                Some(place) => Poll::Ready(Entered::With(Arc::clone(batch), place)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// A call is over: what was gathered meanwhile takes its turn.
    fn next(self: &Arc<Self>) {
        let batch = {
            let mut traffic = self.lock();
            let batch = traffic.gathering.take();
            if batch.is_none() {
                traffic.under_way -= 1;
            }
            batch
        };
        if let Some(batch) = batch {
            batch.launch(Turn(Arc::clone(self)), Arc::clone(&self.store));
            batch.wake_by_ref();
        }
    }
}

/// How a write goes.
enum Entered {
    Alone(Vec<Write>, Turn),
    /// With others: the first of its answers is there, and there are so many.
    With(Arc<Batch>, (usize, usize)),
}

/// One of the calls that are under way at once.
#[derive(Debug)]
struct Turn(Arc<Writes>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.next();
    }
}

impl Batch {
    fn new() -> Arc<Self> {
        let stage = Mutex::new(Stage::Gathering(Vec::new()));
        Arc::new(Self { stage, wakers: Mutex::default() })
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds writes, if there is room for them, and gives where their answers will be.
    fn join(&self, new: &mut Option<Vec<Write>>, context: &Context<'_>) -> Option<(usize, usize)> {
        let mut stage = self.stage();
        let Stage::Gathering(writes) = &mut *stage else { return None };
        if writes.len() >= TOGETHER {
            // Next time it may be another batch, in which he stands nowhere yet.
            self.wakers().add(&mut None, context.waker());
            return None;
        }
        let start = writes.len();
        writes.extend(new.take().unwrap_or_default());
        Some((start, writes.len() - start))
    }

    fn launch(&self, turn: Turn, store: Arc<dyn Store>) {
        let mut stage = self.stage();
        if let Stage::Gathering(writes) = &mut *stage {
            let writes = std::mem::take(writes);
            *stage = Stage::UnderWay(Box::pin(async move {
                let applied = store.apply(writes).await;
                drop(turn);
                Ok(applied?.into_inner())
            }));
        }
    }

    /// Carries the batch on, and gives the answers at a place when they are there.
    fn poll(
        self: &Arc<Self>,
        context: &Context<'_>,
        (start, n): (usize, usize),
        stand: &mut Stand,
    ) -> Poll<Result<Vec<Applied>, Error>> {
        // First, so that nobody is woken in between unheard.
        self.wakers().add(stand, context.waker());
        let mut stage = self.stage();
        let is_over = match &mut *stage {
            Stage::UnderWay(call) => {
                // Whoever is here may be dropped before it goes on, so then all are woken.
                let everybody = Waker::from(Arc::clone(self));
                match call.as_mut().poll(&mut Context::from_waker(&everybody)) {
                    Poll::Pending => false,
                    Poll::Ready(answer) => {
                        *stage = answer.map_or_else(Stage::Failed, |applied| {
                            Stage::Answered(applied.into_iter().map(Some).collect())
                        });
                        true
                    }
                }
            }
            _ => false,
        };
        let answer = match &mut *stage {
            Stage::Gathering(_) | Stage::UnderWay(_) => Poll::Pending,
            Stage::Failed(error) => Poll::Ready(Err(same(error))),
            Stage::Answered(answers) => {
                let ours = answers.iter_mut().skip(start).take(n).filter_map(Option::take);
                Poll::Ready(Ok(ours.collect()))
            }
        };
        drop(stage);
        if is_over {
            self.wake_by_ref();
        }
        answer
    }
}

/// The same error, for another one whom it concerns.
fn same(error: &Error) -> Error {
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
#[expect(clippy::expect_used, reason = "a test panics, and says why")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crore_core::{Clock, GroupId, Time};
    use crore_store::Memory;

    use super::*;

    #[derive(Debug)]
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Time {
            Time::ZERO
        }
    }

    #[derive(Debug, Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn writes() -> Arc<Writes> {
        let far = Writes::new(Arc::new(Memory::new(Arc::new(Still))));
        Arc::new(Writes { is_near: false, ..far })
    }

    /// Takes up all places, so that whoever comes is gathered.
    fn crowd(writes: &Arc<Writes>) -> Vec<Turn> {
        writes.lock().under_way += ALONE;
        (0..ALONE).map(|_| Turn(Arc::clone(writes))).collect()
    }

    fn seal() -> Vec<Write> {
        vec![Write::Seal(GroupId(1))]
    }

    type Asked = Pin<Box<dyn Future<Output = Result<Vec<Applied>, Error>>>>;

    fn ask(writes: &Arc<Writes>, n: usize) -> Asked {
        let writes = Arc::clone(writes);
        Box::pin(async move { writes.apply(vec![Write::Seal(GroupId(1)); n]).await })
    }

    fn poll(asked: &mut Asked, waker: &Waker) -> Poll<Result<Vec<Applied>, Error>> {
        asked.as_mut().poll(&mut Context::from_waker(waker))
    }

    #[test]
    fn who_comes_while_others_are_under_way_goes_together_and_gets_his_own_answers() {
        let writes = writes();
        let turns = crowd(&writes);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut asked: Vec<Asked> = (1..=3).map(|n| ask(&writes, n)).collect();
        assert!(asked.iter_mut().all(|one| poll(one, &waker).is_pending()));
        drop(turns);
        assert_eq!(count.0.load(Ordering::Relaxed), 3, "all are woken when their turn comes");
        for (n, one) in (1..=3).zip(&mut asked) {
            match poll(one, &waker) {
                Poll::Ready(answers) => assert_eq!(answers.expect("applied").len(), n),
                Poll::Pending => panic!("{n}: not answered"),
            }
        }
        assert_eq!(writes.lock().under_way, 0, "every turn is given back");
    }

    #[test]
    fn who_is_dropped_leaves_the_others_their_answers() {
        let writes = writes();
        let turns = crowd(&writes);
        let waker = Waker::noop();
        let (mut first, mut second) = (ask(&writes, 1), ask(&writes, 2));
        assert!(poll(&mut first, waker).is_pending() && poll(&mut second, waker).is_pending());
        drop(first);
        drop(turns);
        match poll(&mut second, waker) {
            Poll::Ready(answers) => assert_eq!(answers.expect("applied").len(), 2),
            Poll::Pending => panic!("not answered"),
        }
    }

    #[test]
    fn when_all_are_dropped_the_way_is_free_again() {
        let writes = writes();
        let turns = crowd(&writes);
        let mut only = ask(&writes, 1);
        assert!(poll(&mut only, Waker::noop()).is_pending());
        drop(only);
        drop(turns);
        assert_eq!(writes.lock().under_way, 0);
        let answers = crate::block_on(writes.apply(seal())).expect("applied");
        assert_eq!(answers.len(), 1);
    }

    #[test]
    fn a_batch_that_is_full_makes_others_wait_for_the_next() {
        let writes = writes();
        let turns = crowd(&writes);
        let waker = Waker::noop();
        let (mut full, mut late) = (ask(&writes, TOGETHER), ask(&writes, 1));
        assert!(poll(&mut full, waker).is_pending() && poll(&mut late, waker).is_pending());
        drop(turns);
        assert!(poll(&mut full, waker).is_ready());
        assert!(poll(&mut late, waker).is_ready());
    }
}
