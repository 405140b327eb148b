//! What has to hold between the values of a configuration. Pure: nothing is opened or looked up.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crore_core::{Caps, Size};

use super::Config;
use super::raw::Raw;
use super::sections::store::Store;
use crate::bind::twin;

/// Notes every value that cannot be, or does not go with another.
pub(super) fn check(config: &Config, raw: &mut Raw) {
    store(config, raw);
    ports(config, raw);
    tls(config, raw);
    caps(config, raw);
    runners(config, raw);
    let caps = Caps::default();
    let mut timeouts = config.jobber.visibility_timeouts();
    if !timeouts.all(|span| (caps.min_lease..=caps.max_lease).contains(&span)) {
        let message = "a visibility timeout is 1 second to 24 hours".to_owned();
        raw.clash("jobber.visibility-timeout", message);
    }
    if config.log.keep == 0 {
        raw.clash("log.keep", "at least one file has to be kept".to_owned());
    }
}

fn store(config: &Config, raw: &mut Raw) {
    let store = &config.store;
    if store.memory && store.data != Store::default().data {
        let message = "jobs are kept in memory, so no directory can be chosen".to_owned();
        raw.clash("store.data", message);
    }
    let least = crore_store::embedded::Options::MIN_SEGMENT;
    if store.embedded.segment_bytes < least {
        raw.clash("store.segment", format!("it must be at least {least}B"));
    }
    if store.embedded.sync_every.is_zero() {
        raw.clash("store.sync-every", "it cannot be zero".to_owned());
    }
}

/// Every listener, by the key that it comes from.
fn listeners(config: &Config) -> Vec<(String, SocketAddr)> {
    let addresses = &config.listen.address.0;
    let mut all: Vec<_> =
        addresses.iter().map(|address| ("listen.address".to_owned(), *address)).collect();
    if let Some(main) = addresses.first() {
        for (name, port) in config.doors.open() {
            let address = port.resolve(*main);
            let other = twin(address).filter(|_| config.doors.is_twofold(name));
            let both = [address].into_iter().chain(other);
            all.extend(both.map(|address| (format!("doors.{name}"), address)));
        }
    }
    all
}

fn ports(config: &Config, raw: &mut Raw) {
    let mut taken: BTreeMap<SocketAddr, String> = BTreeMap::new();
    for (key, address) in listeners(config) {
        match taken.get(&address) {
            Some(other) if address.port() != 0 => {
                raw.clash(&key, format!("`{address}` is also the address of `{other}`"));
            }
            _ => drop(taken.insert(address, key)),
        }
    }
}

fn tls(config: &Config, raw: &mut Raw) {
    let tls = &config.tls;
    if tls.certificate.is_some() != tls.key.is_some() {
        let (given, missing) = match tls.key {
            None => ("tls.certificate", "tls.key"),
            Some(_) => ("tls.key", "tls.certificate"),
        };
        raw.clash(given, format!("it is of no use without `{missing}`"));
    }
    if tls.client_ca.is_some() && tls.certificate.is_none() {
        raw.clash("tls.client-ca", "it is of no use without `tls.certificate`".to_owned());
    }
}

/// How the address of a Docker engine may begin.
const ENGINES: [&str; 3] = ["unix://", "tcp://", "http://"];

/// The least memory of a container, in bytes.
const LEAST_MEMORY: u64 = 6 << 20;

fn runners(config: &Config, raw: &mut Raw) {
    let runners = &config.runners.options;
    if runners.plugins.is_none() && config.runners.allowed().iter().any(|name| name == "plugin") {
        raw.clash("runners.allow", "say where plugins lie: `runners.plugins`".to_owned());
    }
    let is_address = |text: &String| ENGINES.iter().any(|start| text.starts_with(start));
    if runners.docker.as_ref().is_some_and(|text| !is_address(text)) {
        let message = "it must begin with `unix://`, `tcp://` or `http://`".to_owned();
        raw.clash("runners.docker", message);
    }
    if runners.container_memory.is_some_and(|memory| memory.0 < LEAST_MEMORY) {
        raw.clash("runners.container-memory", "no engine gives less than 6MiB".to_owned());
    }
    let spans = [
        ("runners.plugin-start", runners.plugin_start),
        ("runners.plugin-grace", runners.plugin_grace),
        ("runners.max-grace", runners.max_grace),
    ];
    let sizes = [
        ("runners.plugin-memory", runners.plugin_memory),
        ("runners.max-output", Some(runners.max_output)),
        ("runners.command-memory", runners.command_memory),
    ];
    let zeros = spans.iter().filter(|(_, span)| span.is_zero()).map(|(key, _)| *key);
    let empty = sizes.iter().filter(|(_, size)| *size == Some(Size(0))).map(|(key, _)| *key);
    for key in zeros.chain(empty) {
        raw.clash(key, "it cannot be zero".to_owned());
    }
}

fn caps(config: &Config, raw: &mut Raw) {
    let caps = &config.caps;
    if caps.payload_bytes > Caps::MAX_PAYLOAD {
        raw.clash("caps.payload", "it can be 16MiB at most".to_owned());
    }
    if caps.payload_bytes > caps.batch_bytes {
        let message = "one payload would be larger than a batch may be: see `caps.batch-bytes`";
        raw.clash("caps.payload", message.to_owned());
    }
    if caps.batch_bytes > config.http.max_body.bytes() {
        let message = "such a batch would be larger than a body may be: see `http.max-body`";
        raw.clash("caps.batch-bytes", message.to_owned());
    }
    if caps.min_lease > caps.max_lease {
        raw.clash("caps.min-lease", "it is longer than `caps.max-lease`".to_owned());
    }
    let counts = [
        ("caps.batch-jobs", caps.batch_jobs),
        ("caps.fetch", caps.fetch),
        ("caps.page", caps.page),
        ("caps.payload", caps.payload_bytes),
    ];
    for (key, n) in counts {
        if n == 0 {
            raw.clash(key, "nothing could be pushed or fetched".to_owned());
        }
    }
}
