//! The life of a job on the embedded store: pushed, claimed, failed, kept over a restart, retried,
//! done. The engine does these steps for its callers; here each is explicit.
//!
//! `cargo run -p crore-store --example first_job`

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crore_core::job::ResultRetention;
use crore_core::machine::{JobEvent, Outcome, RetryDirective, decide};
use crore_core::version::KindVersions;
use crore_core::{Clock, Job, Name, NewJob, Payload, Span, Spec};
use crore_store::embedded::{Embedded, Options};
use crore_store::jobs::{Applied, Claim, QueueOrder, StoreWrite};
use crore_store::{Jobs, Upkeep};
use crore_testkit::FakeClock;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The store needs no async runtime; blocking on its futures suffices.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    block_on(first_job())
}

async fn first_job() -> Result<(), Box<dyn Error>> {
    // A fake clock, so the wait before the retry takes no time.
    let clock = Arc::new(FakeClock::default());
    let folder = tempfile::tempdir()?;
    let store = Embedded::open(folder.path(), clock.clone(), Options::default())?;

    let mut spec = Spec::new(
        Name::new("queue", "mail")?,
        Name::new("kind", "send-welcome")?,
        Payload::json(r#"{"to": "ada@example.org"}"#),
    );
    spec.keep = ResultRetention::For(Span::from_secs(3600));
    let pushed = store.push(NewJob::from(spec).into()).await?.into_inner();
    println!("pushed     {:?}, and it is on the disk", pushed.jobs);

    let job = claim(&store).await?;
    println!("claimed    {:?}, attempt {}", job.id, job.live.attempt);

    let error = "the mail server is asleep".into();
    let failed = Outcome::Failed { error, detail: None, again: RetryDirective::ByPolicy };
    let job = finish(&store, &job, failed).await?;
    let wait = job.live.due.since(clock.now());
    println!("failed     it is {:?} and due again in {wait:?}", job.live.state);

    store.close()?;
    drop(store);
    let store = Embedded::open(folder.path(), clock.clone(), Options::default())?;
    println!("restarted  from {} commits", store.open_report().commit);

    clock.advance(wait);
    let promoted = store.promote(100).await?;
    println!("later      {} job became ready", promoted.count);

    let job = claim(&store).await?;
    println!("claimed    {:?}, attempt {}", job.id, job.live.attempt);
    let done = Outcome::Done { result: Some(Payload::json(r#"{"sent": true}"#)) };
    let job = finish(&store, &job, done).await?;
    let result = job.live.result.as_ref().map(|kept| String::from_utf8_lossy(&kept.payload.bytes));
    println!("finished   it is {:?}, with result {}", job.live.state, result.unwrap_or_default());

    for attempt in job.live.history.iter().rev() {
        println!("history    {:?} {}", attempt.ended, attempt.error.as_deref().unwrap_or(""));
    }
    store.close()?;
    Ok(())
}

/// Claims the next job of the queue `mail`.
async fn claim(store: &Embedded) -> Result<Job, Box<dyn Error>> {
    let ask = Claim {
        queues: vec![Name::new("queue", "mail")?],
        kinds: None,
        versions: KindVersions::default(),
        n: 1,
        order: QueueOrder::Merged,
        worker: Name::new("worker", "example")?,
    };
    let claimed = store.claim(ask).await?;
    Ok(claimed.jobs.into_iter().next().ok_or("there is nothing to claim")?)
}

/// Reports the outcome of a delivery: the rules decide, the store writes, and the job is read back.
async fn finish(store: &Embedded, job: &Job, outcome: Outcome) -> Result<Job, Box<dyn Error>> {
    let event = JobEvent::Finished { delivery: Some(job.live.delivery), report: outcome.into() };
    let Ok(change) = decide(job, &event, 42) else { return Ok(job.clone()) };
    let applied = store.apply(vec![StoreWrite::Job(change)]).await?.into_inner();
    assert_eq!(applied, [Applied::Yes(vec![])], "no other worker holds this delivery");
    let job = store.get(vec![job.id.into()]).await?.into_iter().flatten().next();
    Ok(job.ok_or("the job is gone")?)
}
