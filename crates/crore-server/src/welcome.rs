//! What a newcomer reads first.

use std::io::{self, Write};

use crore::Engine;
use crore_store::embedded::Durability;

use crate::bind::Bound;
use crate::config::Config;

/// Says where crore listens, where jobs are kept, and what to try next.
pub(crate) fn serve(engine: &Engine, config: &Config, bound: &[Bound]) {
    let mut text = listens(config, bound);
    text += &format!("{} ({})\n\n", kept(config), engine.status().durability());
    if let Some(first) = bound.first() {
        text += &try_next(&url(config, first));
    }
    text += "Ctrl-C lets workers finish and stops it; a second Ctrl-C stops it at once.\n\n";
    say(&text);
}

/// The same for a first look.
pub(crate) fn dev(_: &Engine, config: &Config, bound: &[Bound]) {
    let mut text = listens(config, bound);
    text += "jobs are kept in a temporary directory, which is removed when this ends\n\n";
    if let Some(first) = bound.first() {
        let url = url(config, first);
        let server =
            if first.address.port() == 9000 { String::new() } else { format!(" --server {url}") };
        text += &format!(
            "Sample jobs are pushed and run. Look at them, in another terminal:\n\n  \
             crore queue ls{server}\n  crore job ls --state dead{server}\n  crore stats --minutes{server}\n\n"
        );
        text += &try_next(&url);
    }
    text += "Ctrl-C ends it.\n\n";
    say(&text);
}

fn listens(config: &Config, bound: &[Bound]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = String::new();
    for one in bound {
        text += &match one.door {
            None => format!("crore {version} listens on {}\n", url(config, one)),
            Some(door) => format!("the door for {door} is {}\n", url(config, one)),
        };
    }
    text
}

fn url(config: &Config, bound: &Bound) -> String {
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

fn kept(config: &Config) -> String {
    let store = &config.store;
    if store.memory {
        return "jobs are kept in memory: they are gone when crore stops".to_owned();
    }
    let dir = store.data.display();
    match store.embedded.durability {
        Durability::Always => format!("jobs are kept in {dir}: what is answered is on the disk"),
        Durability::Interval => format!(
            "jobs are kept in {dir}: a power cut may take back the last {}",
            store.embedded.sync_every
        ),
        Durability::None => format!("jobs are kept in {dir}: a power cut may take some back"),
    }
}

fn try_next(url: &str) -> String {
    let json = "-H 'content-type: application/json'";
    format!(
        r#"Push a job, in another terminal:

  curl {json} {url}/v1/jobs -d '{{"kind": "hello", "payload": {{"name": "Ada"}}}}'

Take it, and report it with the id and the delivery that you got:

  curl {json} {url}/v1/fetch -d '{{"queues": ["hello"], "wait": "10s"}}'
  curl {json} {url}/v1/finish -d '{{"jobs": [{{"id": "ID", "delivery": "DELIVERY", "outcome": "done"}}]}}'

"#
    )
}

fn say(text: &str) {
    // Whoever does not want to read it has closed the pipe.
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}
