//! The native API over a queue in memory: `cargo run -p crore-doors --example serve -- 127.0.0.1:9000`.

use crore::Engine;
use crore_doors::{Doors, Options, listen};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("try http://{}/docs", listener.local_addr()?);
    let doors = Doors::new(Engine::memory(), Options::default());
    let router = doors.router();
    listen::serve(listener, router, listen::Options::default(), std::future::pending()).await?;
    Ok(())
}
