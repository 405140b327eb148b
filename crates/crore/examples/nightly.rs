//! A nightly job: a schedule in a time zone, a preview of its next five ticks, and its jobs. The clock is
//! simulated, so the nights take no time.
//!
//! `cargo run -p crore --example nightly`

use std::error::Error;
use std::sync::Arc;

use crore::core::schedule::{Missed, Timing};
use crore::core::{Clock, Name, Payload, Spec, Time};
use crore::store::Memory;
use crore::{Engine, Options, block_on};
use crore_testkit::FakeClock;
use jiff::Timestamp;

const CITY: &str = "Europe/Berlin";

fn main() -> Result<(), Box<dyn Error>> {
    let evening: Timestamp = "2026-10-22T20:00:00Z".parse()?;
    let clock = Arc::new(FakeClock::at(Time::from_millis(evening.as_millisecond())));
    let store = Arc::new(Memory::new(clock.clone()));
    let engine = block_on(Engine::without_thread(store, clock.clone(), Options::default()))?;
    println!("now       {}", local_time(clock.now())?);

    let timing = Timing::parse("timing", &format!("cron 30 3 * * * in {CITY}"))?;
    let (queue, kind) = (Name::new("queue", "reports")?, Name::new("kind", "nightly")?);
    let job = Spec::new(queue, kind, Payload::json(r#"{"format": "pdf"}"#));
    let name = Name::new("schedule", "nightly")?;
    // A program can do this at every start: an unchanged schedule keeps its position.
    block_on(engine.schedules().set(name, timing.clone(), Missed::Once, job.into()))?;
    println!("schedule  {timing}");

    let nights = engine.schedules().preview(&timing, 5);
    for night in &nights {
        println!("preview   {}", local_time(*night)?);
    }

    println!("this evening: {} jobs run", work(&engine)?);
    for night in nights.iter().take(3) {
        clock.advance(night.since(clock.now()));
        block_on(engine.upkeep().run_once())?;
        println!("{}: jobs run: {}", local_time(clock.now())?, work(&engine)?);
    }

    // `Missed::Once`: nights on which the program was not running are made up for by one job.
    if let Some(last) = nights.last() {
        clock.advance(last.since(clock.now()));
        block_on(engine.upkeep().run_once())?;
        println!("{}: the program was not running for a night", local_time(clock.now())?);
        println!("{}: jobs run: {}", local_time(clock.now())?, work(&engine)?);
    }
    Ok(engine.stop()?)
}

/// Runs all jobs in the queue and returns their number.
fn work(engine: &Engine) -> Result<u32, Box<dyn Error>> {
    let mut n = 0;
    while engine.pop_blocking("reports", |_| Ok::<_, String>(()))?.is_some() {
        n += 1;
    }
    Ok(n)
}

/// The local time in the city.
fn local_time(time: Time) -> Result<String, Box<dyn Error>> {
    let there = Timestamp::from_millisecond(time.as_millis())?.in_tz(CITY)?;
    Ok(there.strftime("%a %F %R %Z").to_string())
}
