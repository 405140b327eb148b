//! Retries and dead jobs: a job that has used up its attempts is kept as dead, with the error of every attempt,
//! until someone fixes the cause and retries it by hand.
//!
//! `cargo run -p crore --example retries`

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crore::actions::JobAction;
use crore::core::retry::{Backoff, Retry};
use crore::core::{JobId, Span};
use crore::{Engine, Work, block_on};

/// Short delays for the example; by default they grow from a second to an hour.
const FAST_RETRY: Retry = Retry {
    backoff: Backoff::Constant { every: Span::from_millis(30) },
    max_attempts: Some(3),
    max_interval: None,
    jitter: 0,
};

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::memory();
    let worker = engine.worker(["calls"]);
    let stop = worker.stopper();
    let line_is_mended = AtomicBool::new(false);

    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let working = scope.spawn(|| worker.run_blocking(|work| call(work, &line_is_mended)));

        let busy = engine.push("calls", "a busy number").retry(FAST_RETRY).retain().wait()?;
        let broken = engine.push("calls", "a broken line").retry(FAST_RETRY).retain().wait()?;
        println!("pushed   two jobs, three attempts each");
        print_end(&engine, busy)?;
        print_end(&engine, broken)?;

        line_is_mended.store(true, Ordering::Release);
        let acted = block_on(engine.jobs().act(broken.into(), &JobAction::Retry))?;
        println!("retried  job {broken} by hand, now that the line is repaired: {acted:?}");
        print_end(&engine, broken)?;

        stop.stop();
        let ran = working.join().map_err(|_| "the worker panicked")??;
        println!("stopped  after {ran} runs");
        Ok(())
    })?;
    Ok(engine.stop()?)
}

/// A phone call: a busy number answers at the third attempt, a broken line once it is repaired.
fn call(work: &Work<'_>, line_is_mended: &AtomicBool) -> Result<(), &'static str> {
    let answer = match work.payload() {
        b"a busy number" if work.attempt() < 3 => Err("it is busy"),
        b"a broken line" if !line_is_mended.load(Ordering::Acquire) => Err("the line is dead"),
        _ => Ok(()),
    };
    println!("called   {}, attempt {}: {answer:?}", text(work.payload()), work.attempt());
    answer
}

/// Waits until a job has ended, and prints how.
fn print_end(engine: &Engine, id: JobId) -> Result<(), Box<dyn Error>> {
    block_on(engine.wait(id, Span::from_secs(10)))?.ok_or("it takes too long")?;
    let job = block_on(engine.get(id))?.ok_or("it is gone")?;
    println!("ended    {} is {:?}", text(&job.spec.payload.bytes), job.live.state);
    for attempt in job.live.history.iter().rev() {
        println!("           {:?} {}", attempt.ended, attempt.error.as_deref().unwrap_or(""));
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
