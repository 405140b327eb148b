//! Startup messages on standard output.

use std::io::{self, Write};

use crore::Engine;
use crore_store::embedded::DurabilityMode;

use crate::bind::BoundListener;
use crate::config::Config;

/// Prints the addresses, where jobs are stored, and commands to try next.
pub(crate) fn serve(engine: &Engine, config: &Config, bound: &[BoundListener]) {
    let mut text = address_lines(config, bound);
    text += &format!("{} ({})\n\n", storage_line(config), engine.status().durability());
    if let Some(first) = bound.first() {
        text += &examples(&url(config, first));
    }
    text += "Ctrl-C lets workers finish, then stops the server; a second Ctrl-C stops it immediately.\n\n";
    print(&text);
}

/// Like [`serve`], for `crore dev`.
pub(crate) fn dev(_: &Engine, config: &Config, bound: &[BoundListener]) {
    let mut text = address_lines(config, bound);
    text += "jobs are stored in a temporary directory, which is deleted on exit\n\n";
    if let Some(first) = bound.first() {
        let url = url(config, first);
        let server =
            if first.address.port() == 9000 { String::new() } else { format!(" --server {url}") };
        text += &format!(
            "Sample jobs are being pushed and run. In another terminal, try:\n\n  \
             crore queue ls{server}\n  crore job ls --state dead{server}\n  crore stats --minutes{server}\n\n"
        );
        text += &examples(&url);
    }
    text += "Press Ctrl-C to stop.\n\n";
    print(&text);
}

fn address_lines(config: &Config, bound: &[BoundListener]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = String::new();
    for one in bound {
        text += &match one.door {
            None => format!("crore {version} listens on {}\n", url(config, one)),
            Some(door) => format!("door {door}: {}\n", url(config, one)),
        };
    }
    text
}

fn url(config: &Config, bound: &BoundListener) -> String {
    let mut address = bound.address;
    if address.ip().is_unspecified() {
        let local: std::net::IpAddr = match address.ip() {
            std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        address.set_ip(local);
    }
    let scheme = if config.tls.certificate.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

fn storage_line(config: &Config) -> String {
    let store = &config.store;
    if store.memory {
        return "jobs are stored in memory only: they are lost when crore stops".to_owned();
    }
    let dir = store.data.display();
    match store.embedded.durability {
        DurabilityMode::Always => {
            format!("jobs are stored in {dir}: acknowledged writes are synced to disk")
        }
        DurabilityMode::Interval => format!(
            "jobs are stored in {dir}: a power failure may lose the last {}",
            store.embedded.sync_every
        ),
        DurabilityMode::None => {
            format!("jobs are stored in {dir}: a power failure may lose recent writes")
        }
    }
}

fn examples(url: &str) -> String {
    let json = "-H 'content-type: application/json'";
    format!(
        r#"Push a job from another terminal:

  curl {json} {url}/v1/jobs -d '{{"kind": "hello", "payload": {{"name": "Ada"}}}}'

Fetch it, then report it as done with the id and delivery of the response:

  curl {json} {url}/v1/fetch -d '{{"queues": ["hello"], "wait": "10s"}}'
  curl {json} {url}/v1/finish -d '{{"jobs": [{{"id": "ID", "delivery": "DELIVERY", "outcome": "done"}}]}}'

"#
    )
}

fn print(text: &str) {
    // Standard output may be closed.
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}
