//! Rate limiting: a dozen letters are pushed at once; five are sent immediately and the others at five per second.
//! Jobs without a permit occupy no worker.
//!
//! `cargo run -p crore --example mail`

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use crore::core::Name;
use crore::core::limit::Limit;
use crore::{Engine, block_on};
use serde::{Deserialize, Serialize};

const LETTERS: u64 = 12;

#[derive(Serialize, Deserialize)]
struct Letter {
    to: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::memory();
    let limit = Limit::parse(r#"where kind = "mail" rate 5/1s"#)?;
    println!("limit   {limit}");
    block_on(engine.limits().set(Name::new("limit", "mail")?, limit))?;

    for n in 1..=LETTERS {
        let letter = Letter { to: format!("reader-{n}@example.org") };
        engine.push_json("mail", &letter).wait()?;
    }
    // Another kind in the same queue is not covered by the limit, and is not held up.
    engine.push_json("mail", &Letter { to: "the boss, by hand".into() }).kind("note").wait()?;
    println!("pushed  {LETTERS} letters and a note");

    let worker = engine.worker(["mail"]).parallel(4);
    let (stop, left) = (worker.stopper(), AtomicU64::new(LETTERS + 1));
    worker.run_blocking(|work| {
        let letter: Letter = work.json()?;
        let waited = work.live.started_at.since(work.live.pushed_at);
        println!("sent    after {:>4} ms, to {}", waited.as_millis(), letter.to);
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            stop.stop();
        }
        Ok::<_, crore::Error>(())
    })?;
    println!("done    all letters are out");
    Ok(engine.stop()?)
}
