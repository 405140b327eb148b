//! Pushes a job and waits for its result: `cargo run -p crore-client --example push -- http://127.0.0.1:9000`.

use std::time::Duration;

use crore_client::{Client, Error, Job};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:9000".to_owned());
    let client = Client::connect(address).await?;
    let job = Job::new("greet").json("world")?.keep_result(Duration::from_secs(60));
    let id = client.push(job).await?;
    println!("job {id} is on the disk");
    let ended = client.wait(id, Duration::from_secs(30)).await?;
    match ended.result {
        Some(result) => println!("result: {}", String::from_utf8_lossy(&result)),
        None => println!("state: {:?}", ended.state()),
    }
    Ok(())
}
