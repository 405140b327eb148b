//! Checks relations between configuration values. Pure: it opens nothing and resolves nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crore_core::{Caps, Size};

use super::Config;
use super::raw::RawConfig;
use super::sections::store::StoreConfig;
use crate::bind::other_ip_version;

/// Records every invalid value and every conflict.
pub(super) fn check(config: &Config, raw: &mut RawConfig) {
    store(config, raw);
    ports(config, raw);
    tls(config, raw);
    caps(config, raw);
    runners(config, raw);
    let caps = Caps::default();
    let mut timeouts = config.jobber.visibility_timeouts();
    if !timeouts.all(|span| (caps.min_lease..=caps.max_lease).contains(&span)) {
        let message = "must be between 1s and 24h".to_owned();
        raw.reject("jobber.visibility-timeout", message);
    }
    if config.log.keep == 0 {
        raw.reject("log.keep", "must be at least 1".to_owned());
    }
}

fn store(config: &Config, raw: &mut RawConfig) {
    let store = &config.store;
    if store.memory && store.data != StoreConfig::default().data {
        let message = "cannot be combined with `store.memory`; remove one of them".to_owned();
        raw.reject("store.data", message);
    }
    let least = crore_store::embedded::Options::MIN_SEGMENT;
    if store.embedded.segment_bytes < least {
        raw.reject("store.segment", format!("must be at least {least}B"));
    }
    if store.embedded.sync_every.is_zero() {
        raw.reject("store.sync-every", "cannot be zero".to_owned());
    }
}

/// All listeners, with the key that configures each.
fn listeners(config: &Config) -> Vec<(String, SocketAddr)> {
    let addresses = &config.listen.address.0;
    let mut all: Vec<_> =
        addresses.iter().map(|address| ("listen.address".to_owned(), *address)).collect();
    if let Some(main) = addresses.first() {
        for (name, port) in config.doors.open() {
            let address = port.resolve(*main);
            let other = other_ip_version(address).filter(|_| config.doors.is_dual_stack(name));
            let both = [address].into_iter().chain(other);
            all.extend(both.map(|address| (format!("doors.{name}"), address)));
        }
    }
    all
}

fn ports(config: &Config, raw: &mut RawConfig) {
    let mut taken: BTreeMap<SocketAddr, String> = BTreeMap::new();
    for (key, address) in listeners(config) {
        match taken.get(&address) {
            Some(other) if address.port() != 0 => {
                raw.reject(&key, format!("`{address}` is already used by `{other}`"));
            }
            _ => drop(taken.insert(address, key)),
        }
    }
}

fn tls(config: &Config, raw: &mut RawConfig) {
    let tls = &config.tls;
    if tls.certificate.is_some() != tls.key.is_some() {
        let (given, missing) = match tls.key {
            None => ("tls.certificate", "tls.key"),
            Some(_) => ("tls.key", "tls.certificate"),
        };
        raw.reject(given, format!("requires `{missing}`"));
    }
    if tls.client_ca.is_some() && tls.certificate.is_none() {
        raw.reject("tls.client-ca", "requires `tls.certificate`".to_owned());
    }
}

/// Supported URL schemes of a Docker engine.
const DOCKER_SCHEMES: [&str; 3] = ["unix://", "tcp://", "http://"];

/// Minimum memory of a container, in bytes; Docker's own limit.
const MIN_CONTAINER_MEMORY: u64 = 6 << 20;

fn runners(config: &Config, raw: &mut RawConfig) {
    let runners = &config.runners.options;
    if runners.plugins.is_none() && config.runners.allowed().iter().any(|name| name == "plugin") {
        raw.reject("runners.allow", "the runner `plugin` requires `runners.plugins`".to_owned());
    }
    let is_address = |text: &String| DOCKER_SCHEMES.iter().any(|start| text.starts_with(start));
    if runners.docker.as_ref().is_some_and(|text| !is_address(text)) {
        let message = "must begin with `unix://`, `tcp://` or `http://`".to_owned();
        raw.reject("runners.docker", message);
    }
    if runners.container_memory.is_some_and(|memory| memory.0 < MIN_CONTAINER_MEMORY) {
        raw.reject("runners.container-memory", "must be at least 6MiB".to_owned());
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
        raw.reject(key, "cannot be zero".to_owned());
    }
}

fn caps(config: &Config, raw: &mut RawConfig) {
    let caps = &config.caps;
    if caps.payload_bytes > Caps::MAX_PAYLOAD {
        raw.reject("caps.payload", "must be at most 16MiB".to_owned());
    }
    if caps.payload_bytes > caps.batch_bytes {
        let message = "exceeds `caps.batch-bytes`";
        raw.reject("caps.payload", message.to_owned());
    }
    if caps.batch_bytes > config.http.max_body.bytes() {
        let message = "exceeds `http.max-body`";
        raw.reject("caps.batch-bytes", message.to_owned());
    }
    if caps.min_lease > caps.max_lease {
        raw.reject("caps.min-lease", "exceeds `caps.max-lease`".to_owned());
    }
    let counts = [
        ("caps.batch-jobs", caps.batch_jobs),
        ("caps.fetch", caps.fetch),
        ("caps.page", caps.page),
        ("caps.payload", caps.payload_bytes),
    ];
    for (key, n) in counts {
        if n == 0 {
            raw.reject(key, "cannot be zero".to_owned());
        }
    }
}
