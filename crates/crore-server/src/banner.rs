//! Startup messages on standard output.

use std::io::{self, Write};

use crore::Engine;
use crore_store::embedded::DurabilityMode;

use crate::bind::BoundListener;
use crate::config::Config;

/// A server that has just started.
pub(crate) struct Startup<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) config: &'a Config,
    pub(crate) bound: &'a [BoundListener],
    /// Whether callers need a token.
    pub(crate) needs_token: bool,
}

/// Prints the addresses, where jobs are stored, and commands to try next.
pub(crate) fn serve(startup: &Startup<'_>) {
    let Startup { engine, config, bound, .. } = startup;
    let mut text = address_lines(config, bound);
    text += &format!("{} ({})\n\n", storage_line(config), engine.status().durability());
    text += &examples(startup);
    text += "Ctrl-C lets workers finish, then stops the server; a second Ctrl-C stops it immediately.\n\n";
    print(&text);
}

/// Like [`serve`], for `crore dev`.
pub(crate) fn dev(startup: &Startup<'_>) {
    let Startup { config, bound, .. } = startup;
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
        text += &examples(startup);
    }
    text += "Press Ctrl-C to stop.\n\n";
    print(&text);
}

fn address_lines(config: &Config, bound: &[BoundListener]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = String::new();
    for one in bound {
        text += &match one.door {
            None => {
                let url = url(config, one);
                format!("crore {version} listens on {url}\nWeb UI: {url}/ui/\n")
            }
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
    if let Some(file_system) = store.in_memory_file_system() {
        return format!(
            "jobs are stored in {dir}, on a file system in memory ({file_system}): a power failure loses them"
        );
    }
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

/// The first host name in `listen.hosts`.
fn host_name(config: &Config) -> Option<String> {
    let mut names = config.listen.connections.hosts.iter().map(ToString::to_string);
    names.find(|name| name != "*").map(|name| match name.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name.to_owned(),
        _ => name,
    })
}

/// Commands to try, with what a caller of this server needs: the token, the certificate to trust, and its host name.
fn examples(startup: &Startup<'_>) -> String {
    let Startup { config, bound, needs_token, .. } = startup;
    let Some(first) = bound.first() else { return String::new() };
    let mut url = url(config, first);
    let (mut curl, mut token) = ("curl".to_owned(), "");
    if let Some(certificate) = &config.tls.certificate {
        curl += &format!(" --cacert {}", certificate.display());
        // The certificate is for a name, and not for an address.
        if let Some(name) = host_name(config) {
            url = format!("https://{name}:{}", first.address.port());
        }
    }
    if *needs_token {
        curl += " -H \"authorization: Bearer $CRORE_TOKEN\"";
        token = ", with a token in CRORE_TOKEN";
    }
    curl += " -H 'content-type: application/json'";
    format!(
        r#"Push a job from another terminal{token}:

  {curl} {url}/v1/jobs -d '{{"kind": "hello", "payload": {{"name": "Ada"}}}}'

Fetch it, then report it as done with the id and delivery of the response:

  {curl} {url}/v1/fetch -d '{{"queues": ["hello"], "wait": "10s"}}'
  {curl} {url}/v1/finish -d '{{"jobs": [{{"id": "ID", "delivery": "DELIVERY", "outcome": "done"}}]}}'

"#
    )
}

fn print(text: &str) {
    // Standard output may be closed.
    let _ = io::stdout().write_all(text.as_bytes());
    let _ = io::stdout().flush();
}
