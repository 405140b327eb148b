//! A priority queue that outlives the program: smaller priorities come first, equals in the order in which
//! they were pushed, also after the program was started again.
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
    println!("restarted  everything is where it was");
    while let Some(ran) = engine.pop_blocking("deliveries", |work| {
        let what = String::from_utf8_lossy(work.payload()).into_owned();
        println!("delivered  {what}");
        Ok::<_, String>(())
    })? {
        ran?;
    }
    println!("empty      which is an answer, not an error");
    Ok(engine.stop()?)
}
