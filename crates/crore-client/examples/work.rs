//! Runs a worker until Ctrl-C: `cargo run -p crore-client --example work -- http://127.0.0.1:9000`.

use crore_client::{Client, Error, Outcome, Worker};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000".to_owned());
    let client = Client::connect(address).await?;
    let worker = Worker::new(&client).slots(10).handle("greet", async |job| {
        let whom: String = job.json()?;
        job.progress(50, "half of it");
        Outcome::json(&format!("hello, {whom}"))
    });
    println!("working; press Ctrl-C to stop");
    worker
        .run_until(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await
}
