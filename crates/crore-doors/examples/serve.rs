//! Serves all doors on an engine in memory. The arguments are the listen address and the maximum wait of a call:
//! `cargo run -p crore-doors --example serve -- 127.0.0.1:9000 60s`.

use crore::Engine;
use crore_doors::{Doors, Options, listen};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let mut options = Options::default();
    if let Some(wait) = words.next() {
        options.api.max_wait = wait.parse()?;
    }
    let listener = TcpListener::bind(&address).await?;
    println!("try http://{}/docs", listener.local_addr()?);
    options.outbound.listens = vec![listener.local_addr()?];
    let doors = Doors::new(Engine::memory(), options);
    let router = doors.router();
    tokio::spawn(doors.push_workers().run(std::future::pending()));
    listen::serve(listener, router, listen::Options::default(), std::future::pending()).await?;
    Ok(())
}
