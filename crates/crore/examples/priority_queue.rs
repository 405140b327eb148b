//! A durable priority queue: smaller priorities come first, equal ones in the order of pushing, also after a
//! restart of the program.
//!
//! `cargo run -p crore --example priority_queue`

use std::error::Error;

use crore::Engine;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("jobs.crore");

    let engine = Engine::open(&path)?;
    let orders = [(0, "letter"), (10, "catalogue"), (0, "parcel"), (-5, "medicine")];
    for (priority, what) in orders {
        let id = engine.push("deliveries", what).priority(priority).wait()?;
        println!("pushed     {what}, as job {id} with priority {priority}");
    }
    engine.stop()?;
    drop(engine);

    let engine = Engine::open(&path)?;
    println!("restarted  all jobs are still there");
    while let Some(ran) = engine.pop_blocking("deliveries", |work| {
        let what = String::from_utf8_lossy(work.payload()).into_owned();
        println!("delivered  {what}");
        Ok::<_, String>(())
    })? {
        ran?;
    }
    println!("empty      the queue has no more jobs");
    Ok(engine.stop()?)
}
