//! The environment of jobworkerp, in our words.
//!
//! Each variable stands for itself: the groups of the original, of which one missing name dropped all the others without
//! a word, are none here. Nothing is read from the environment in this place; whoever calls brings it.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use file::{Wrong, file};

/// What a variable of jobworkerp is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The variable.
    pub name: &'static str,
    /// What is set by it: our own keys, as in a file of ours, and their values.
    pub ours: Vec<(String, String)>,
    /// One line for the log: the variable, and our own name for it, or why it has none. Secrets are not in it.
    pub line: String,
    /// Whether somebody should look: it asks for something that is not done here, or cannot be understood.
    pub is_warning: bool,
}

/// The variables of jobworkerp among these, in the order of its documentation; all others are let be.
pub fn read(variables: &BTreeMap<String, String>) -> Vec<Said> {
    let get =
        |name: &str| variables.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let mut said = Vec::new();
    for (name, means) in TABLE {
        if let Some(value) = get(name) {
            said.push(one(name, value, means, &get));
        }
    }
    said
}

/// How to look up another variable.
type Get<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Our keys and their values; `Err`: why it cannot be understood.
type Read = Result<Vec<(String, String)>, String>;

/// What a variable means.
enum Means {
    /// This key, with the same value.
    Key(&'static str),
    /// These keys, with values made from it.
    Keys(fn(&str, Get<'_>) -> Read),
    /// It sets nothing by itself, for this reason; `Err`: it cannot be understood.
    Checked(fn(&str, Get<'_>) -> Result<&'static str, String>),
    /// It is a secret: this key refers to it, by its name.
    Secret(&'static str),
    /// It has no meaning here, for this reason.
    Nothing(&'static str),
    /// It asks for something that is not done here.
    Not(&'static str),
}

fn one(name: &'static str, value: &str, means: &Means, get: Get<'_>) -> Said {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let shown = crore_core::code::excerpt(value);
    let nothing = |shown: &str, why: &str, is_warning| {
        let line = format!("{name}={shown}: {why}");
        Said { name, ours: Vec::new(), line, is_warning }
    };
    let (shown, read) = match means {
        Means::Key(key) => (shown, Ok(vec![set(key, value)])),
        Means::Keys(read) => (shown, read(value, get)),
        Means::Secret(key) => ("***".to_owned(), Ok(vec![set(key, &format!("env:{name}"))])),
        Means::Checked(check) => {
            return match check(value, get) {
                Ok(why) => nothing(&shown, why, false),
                Err(why) => nothing(&shown, &why, true),
            };
        }
        Means::Nothing(why) => return nothing(&shown, why, false),
        Means::Not(why) => return nothing("***", why, true),
    };
    match read {
        Ok(ours) => {
            let keys: Vec<_> = ours.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let line = format!("{name}={shown}: {}", keys.join(", "));
            Said { name, ours, line, is_warning: false }
        }
        Err(why) => nothing(&shown, &why, true),
    }
}

const MYSQL: &str = "there is no MySQL behind crore yet: jobs are in its own store (`store.data`)";
const REDIS: &str = "there is no Redis behind crore yet: jobs are in its own store (`store.data`)";
const SQLITE: &str = "crore has a store of its own, which needs no login and no pool";
const CACHE: &str = "nothing is remembered that could be old, so there is no cache to size";
const RESTORE: &str = "nothing is forgotten, so there is nothing to restore";

/// Every variable.
#[rustfmt::skip]
const TABLE: &[(&str, Means)] = &[
    ("STORAGE_TYPE",                        Means::Checked(storage)),
    ("STORAGE_RESTORE_AT_STARTUP",          Means::Nothing(RESTORE)),
    ("STORAGE_REFLESH_FROM_RDB",            Means::Nothing(RESTORE)),
    ("JOB_QUEUE_WITHOUT_RECOVERY_HYBRID",   Means::Nothing(RESTORE)),
    ("SQLITE_DBNAME",                       Means::Nothing("crore has a store of its own: name its directory in `store.data`")),
    ("SQLITE_HOST",                         Means::Nothing(SQLITE)),
    ("SQLITE_PORT",                         Means::Nothing(SQLITE)),
    ("SQLITE_USER",                         Means::Nothing(SQLITE)),
    ("SQLITE_PASSWORD",                     Means::Not(SQLITE)),
    ("SQLITE_MAX_CONNECTIONS",              Means::Nothing(SQLITE)),
    ("MYSQL_HOST",                          Means::Not(MYSQL)),
    ("MYSQL_PORT",                          Means::Not(MYSQL)),
    ("MYSQL_USER",                          Means::Not(MYSQL)),
    ("MYSQL_PASSWORD",                      Means::Not(MYSQL)),
    ("MYSQL_DBNAME",                        Means::Not(MYSQL)),
    ("MYSQL_MAX_CONNECTIONS",               Means::Not(MYSQL)),
    ("REDIS_URL",                           Means::Not(REDIS)),
    ("REDIS_POOL_SIZE",                     Means::Not(REDIS)),
    ("REDIS_POOL_CREATE_TIMEOUT_MSEC",      Means::Not(REDIS)),
    ("REDIS_POOL_WAIT_TIMEOUT_MSEC",        Means::Not(REDIS)),
    ("REDIS_POOL_RECYCLE_TIMEOUT_MSEC",     Means::Not(REDIS)),
    ("REDIS_USERNAME",                      Means::Not(REDIS)),
    ("REDIS_PASSWORD",                      Means::Not(REDIS)),
    ("MEMORY_CACHE_NUM_COUNTERS",           Means::Nothing(CACHE)),
    ("MEMORY_CACHE_MAX_COST",               Means::Nothing(CACHE)),
    ("MEMORY_CACHE_USE_METRICS",            Means::Nothing(CACHE)),
    ("JOB_QUEUE_EXPIRE_JOB_RESULT_SECONDS", Means::Keys(expire)),
    ("JOB_QUEUE_FETCH_INTERVAL",            Means::Nothing("nothing is polled: a job that is due is handed out at once")),
    ("WORKER_DEFAULT_CONCURRENCY",          Means::Keys(concurrency)),
    ("WORKER_CHANNELS",                     Means::Keys(channels)),
    ("WORKER_CHANNEL_CONCURRENCIES",        Means::Checked(concurrencies)),
    ("LOG_LEVEL",                           Means::Keys(level)),
    ("LOG_FILE_DIR",                        Means::Key("log.dir")),
    ("LOG_USE_JSON",                        Means::Keys(json)),
    ("LOG_USE_STDOUT",                      Means::Nothing("the log goes to the standard error, or to files in `log.dir`")),
    ("TZ_OFFSET_HOURS",                     Means::Nothing("times are in UTC, and say so")),
    ("JAEGER_ADDR",                         Means::Not("Jaeger takes OTLP now: name that address in `telemetry.endpoint`")),
    ("ZIPKIN_ADDR",                         Means::Keys(zipkin)),
    ("OTLP_ADDR",                           Means::Keys(otlp)),
    ("GRPC_ADDR",                           Means::Key("listen.address")),
    ("USE_GRPC_WEB",                        Means::Nothing("gRPC-Web is always served; pages that may call are named in `grpc.allow-origins`")),
    ("DOCKER_GID",                          Means::Nothing("it is only used by the image and compose file of jobworkerp")),
    ("PLUGINS_RUNNER_DIR",                  Means::Key("runners.plugins")),
    ("SLACK_TITLE",                         Means::Key("jobworkerp.slack-title")),
    ("SLACK_BOT_TOKEN",                     Means::Secret("jobworkerp.slack-token")),
    ("SLACK_CHANNEL",                       Means::Key("jobworkerp.slack-channel")),
    ("SLACK_NOTIFY_SUCCESS",                Means::Keys(|value, _| flag("jobworkerp.slack-on-success", value))),
    ("SLACK_NOTIFY_FAILURE",                Means::Keys(|value, _| flag("jobworkerp.slack-on-failure", value))),
];

fn key(key: impl Into<String>, value: impl Into<String>) -> Read {
    Ok(vec![(key.into(), value.into())])
}

fn storage(value: &str, _: Get<'_>) -> Result<&'static str, String> {
    match value {
        "rdb" => Ok("as it is here anyway"),
        "redis" | "hybrid" => Err(REDIS.to_owned()),
        _ => Err("it is `rdb`, `redis` or `hybrid`".to_owned()),
    }
}

fn number(value: &str) -> Result<u64, String> {
    value.trim().parse().map_err(|_| "it is no number".to_owned())
}

fn expire(value: &str, _: Get<'_>) -> Read {
    key("jobworkerp.keep-results", format!("{}s", number(value)?))
}

fn concurrency(value: &str, _: Get<'_>) -> Read {
    key("channels.default", number(value)?.to_string())
}

fn list(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).filter(|one| !one.is_empty()).collect()
}

/// Channels without a number of their own run one job at a time.
fn channels(value: &str, get: Get<'_>) -> Read {
    let counts = list(get("WORKER_CHANNEL_CONCURRENCIES").unwrap_or_default());
    let named = list(value).into_iter().enumerate();
    let each = named.map(|(n, channel)| {
        let count = counts.get(n).map_or(Ok(1), |count| number(count))?;
        Ok((format!("channels.{channel}"), count.to_string()))
    });
    each.collect()
}

/// They are said with the channels' names.
fn concurrencies(value: &str, get: Get<'_>) -> Result<&'static str, String> {
    let (channels, counts) = (list(get("WORKER_CHANNELS").unwrap_or_default()), list(value));
    match counts.len() > channels.len() {
        true => {
            let (counts, channels) = (counts.len(), channels.len());
            Err(format!("{counts} numbers for {channels} channels in WORKER_CHANNELS"))
        }
        false => Ok("said with WORKER_CHANNELS"),
    }
}

fn level(value: &str, _: Get<'_>) -> Read {
    match value.to_lowercase().as_str() {
        level @ ("error" | "warn" | "info" | "debug" | "trace" | "off") => key("log.level", level),
        _ => Err("it is `error`, `warn`, `info`, `debug`, `trace` or `off`".to_owned()),
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("it is `true` or `false`".to_owned()),
    }
}

fn flag(name: &str, value: &str) -> Read {
    key(name, switch(value)?.to_string())
}

fn json(value: &str, _: Get<'_>) -> Read {
    key("log.format", if switch(value)? { "json" } else { "text" })
}

/// The first that is set wins there: Jaeger, Zipkin, OTLP.
fn zipkin(value: &str, _: Get<'_>) -> Read {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(vec![set("telemetry.endpoint", value), set("telemetry.protocol", "zipkin")])
}

fn otlp(value: &str, get: Get<'_>) -> Read {
    if get("ZIPKIN_ADDR").is_some() {
        return Err("`ZIPKIN_ADDR` is set, and comes first".to_owned());
    }
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(vec![set("telemetry.endpoint", value), set("telemetry.protocol", "otlp")])
}
