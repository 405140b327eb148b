//! Translates jobworkerp's environment variables to crore's configuration keys.
//!
//! Each variable takes effect on its own, whereas in jobworkerp one missing variable of a group silently drops the
//! whole group. This module does not read the environment; the caller passes the variables in.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use file::{EnvFileError, file};

/// The translation of one variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedVariable {
    /// Its name.
    pub name: &'static str,
    /// The keys that it sets, as in a configuration file, and their values.
    pub keys: Vec<(String, String)>,
    /// One line for the log: the variable and its key, or why it has none. Secrets are masked.
    pub line: String,
    /// Whether the line is a warning: the variable asks for something unsupported, or is invalid.
    pub is_warning: bool,
}

/// Translates the variables of jobworkerp, in the order of its documentation. Others are ignored.
pub fn read(variables: &BTreeMap<String, String>) -> Vec<TranslatedVariable> {
    let get =
        |name: &str| variables.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let mut translated = Vec::new();
    for (name, means) in TABLE {
        if let Some(value) = get(name) {
            translated.push(translate(name, value, means, &get));
        }
    }
    translated
}

/// Looks up another variable.
type LookUp<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Keys and their values; `Err`: why the value is invalid.
type ReadKeys = Result<Vec<(String, String)>, String>;

/// Translation of a variable.
enum VariableMeaning {
    /// Sets this key to the same value.
    Key(&'static str),
    /// Sets keys to values derived from it.
    Keys(fn(&str, LookUp<'_>) -> ReadKeys),
    /// Sets nothing by itself, for this reason; `Err`: why the value is invalid.
    Checked(fn(&str, LookUp<'_>) -> Result<&'static str, String>),
    /// A secret: sets this key to a reference to the variable.
    Secret(&'static str),
    /// Ignored, for this reason.
    Ignored(&'static str),
    /// Not supported, for this reason.
    Unsupported(&'static str),
}

fn translate(
    name: &'static str,
    value: &str,
    means: &VariableMeaning,
    get: LookUp<'_>,
) -> TranslatedVariable {
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let shown = crore_core::code::excerpt(value);
    let no_keys = |shown: &str, why: &str, is_warning| {
        let line = format!("{name}={shown}: {why}");
        TranslatedVariable { name, keys: Vec::new(), line, is_warning }
    };
    let (shown, read) = match means {
        VariableMeaning::Key(key) => (shown, Ok(vec![set(key, value)])),
        VariableMeaning::Keys(read) => (shown, read(value, get)),
        VariableMeaning::Secret(key) => {
            ("***".to_owned(), Ok(vec![set(key, &format!("env:{name}"))]))
        }
        VariableMeaning::Checked(check) => {
            return match check(value, get) {
                Ok(why) => no_keys(&shown, why, false),
                Err(why) => no_keys(&shown, &why, true),
            };
        }
        VariableMeaning::Ignored(why) => return no_keys(&shown, why, false),
        VariableMeaning::Unsupported(why) => return no_keys("***", why, true),
    };
    match read {
        Ok(keys_read) => {
            let keys: Vec<_> =
                keys_read.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let line = format!("{name}={shown}: {}", keys.join(", "));
            TranslatedVariable { name, keys: keys_read, line, is_warning: false }
        }
        Err(why) => no_keys(&shown, &why, true),
    }
}

const MYSQL: &str = "MySQL is not supported yet; crore uses its own store (`store.data`)";
const REDIS: &str = "Redis is not supported yet; crore uses its own store (`store.data`)";
const SQLITE: &str = "crore uses its own store, which has no login and no connection pool";
const CACHE: &str = "crore has no such cache";
const RESTORE: &str = "no job is lost, so there is nothing to restore";

#[rustfmt::skip]
const TABLE: &[(&str, VariableMeaning)] = &[
    ("STORAGE_TYPE",                        VariableMeaning::Checked(storage)),
    ("STORAGE_RESTORE_AT_STARTUP",          VariableMeaning::Ignored(RESTORE)),
    ("STORAGE_REFLESH_FROM_RDB",            VariableMeaning::Ignored(RESTORE)),
    ("JOB_QUEUE_WITHOUT_RECOVERY_HYBRID",   VariableMeaning::Ignored(RESTORE)),
    ("SQLITE_DBNAME",                       VariableMeaning::Ignored("crore uses its own store; set its directory in `store.data`")),
    ("SQLITE_HOST",                         VariableMeaning::Ignored(SQLITE)),
    ("SQLITE_PORT",                         VariableMeaning::Ignored(SQLITE)),
    ("SQLITE_USER",                         VariableMeaning::Ignored(SQLITE)),
    ("SQLITE_PASSWORD",                     VariableMeaning::Unsupported(SQLITE)),
    ("SQLITE_MAX_CONNECTIONS",              VariableMeaning::Ignored(SQLITE)),
    ("MYSQL_HOST",                          VariableMeaning::Unsupported(MYSQL)),
    ("MYSQL_PORT",                          VariableMeaning::Unsupported(MYSQL)),
    ("MYSQL_USER",                          VariableMeaning::Unsupported(MYSQL)),
    ("MYSQL_PASSWORD",                      VariableMeaning::Unsupported(MYSQL)),
    ("MYSQL_DBNAME",                        VariableMeaning::Unsupported(MYSQL)),
    ("MYSQL_MAX_CONNECTIONS",               VariableMeaning::Unsupported(MYSQL)),
    ("REDIS_URL",                           VariableMeaning::Unsupported(REDIS)),
    ("REDIS_POOL_SIZE",                     VariableMeaning::Unsupported(REDIS)),
    ("REDIS_POOL_CREATE_TIMEOUT_MSEC",      VariableMeaning::Unsupported(REDIS)),
    ("REDIS_POOL_WAIT_TIMEOUT_MSEC",        VariableMeaning::Unsupported(REDIS)),
    ("REDIS_POOL_RECYCLE_TIMEOUT_MSEC",     VariableMeaning::Unsupported(REDIS)),
    ("REDIS_USERNAME",                      VariableMeaning::Unsupported(REDIS)),
    ("REDIS_PASSWORD",                      VariableMeaning::Unsupported(REDIS)),
    ("MEMORY_CACHE_NUM_COUNTERS",           VariableMeaning::Ignored(CACHE)),
    ("MEMORY_CACHE_MAX_COST",               VariableMeaning::Ignored(CACHE)),
    ("MEMORY_CACHE_USE_METRICS",            VariableMeaning::Ignored(CACHE)),
    ("JOB_QUEUE_EXPIRE_JOB_RESULT_SECONDS", VariableMeaning::Keys(expire)),
    ("JOB_QUEUE_FETCH_INTERVAL",            VariableMeaning::Ignored("crore does not poll: a due job is handed out at once")),
    ("WORKER_DEFAULT_CONCURRENCY",          VariableMeaning::Keys(concurrency)),
    ("WORKER_CHANNELS",                     VariableMeaning::Keys(channels)),
    ("WORKER_CHANNEL_CONCURRENCIES",        VariableMeaning::Checked(concurrencies)),
    ("LOG_LEVEL",                           VariableMeaning::Keys(level)),
    ("LOG_FILE_DIR",                        VariableMeaning::Key("log.dir")),
    ("LOG_USE_JSON",                        VariableMeaning::Keys(json)),
    ("LOG_USE_STDOUT",                      VariableMeaning::Ignored("the log goes to standard error, or to files in `log.dir`")),
    ("TZ_OFFSET_HOURS",                     VariableMeaning::Ignored("times are in UTC")),
    ("JAEGER_ADDR",                         VariableMeaning::Keys(jaeger)),
    ("ZIPKIN_ADDR",                         VariableMeaning::Keys(zipkin)),
    ("OTLP_ADDR",                           VariableMeaning::Keys(otlp)),
    ("GRPC_ADDR",                           VariableMeaning::Key("listen.address")),
    ("USE_GRPC_WEB",                        VariableMeaning::Ignored("gRPC-Web is always on; set allowed origins in `grpc.allow-origins`")),
    ("DOCKER_GID",                          VariableMeaning::Ignored("used only by jobworkerp's image and compose file")),
    ("PLUGINS_RUNNER_DIR",                  VariableMeaning::Key("runners.plugins")),
    ("SLACK_TITLE",                         VariableMeaning::Key("jobworkerp.slack-title")),
    ("SLACK_BOT_TOKEN",                     VariableMeaning::Secret("jobworkerp.slack-token")),
    ("SLACK_CHANNEL",                       VariableMeaning::Key("jobworkerp.slack-channel")),
    ("SLACK_NOTIFY_SUCCESS",                VariableMeaning::Keys(|value, _| flag("jobworkerp.slack-on-success", value))),
    ("SLACK_NOTIFY_FAILURE",                VariableMeaning::Keys(|value, _| flag("jobworkerp.slack-on-failure", value))),
];

fn key(key: impl Into<String>, value: impl Into<String>) -> ReadKeys {
    Ok(vec![(key.into(), value.into())])
}

fn storage(value: &str, _: LookUp<'_>) -> Result<&'static str, String> {
    match value {
        "rdb" => Ok("the default"),
        "redis" | "hybrid" => Err(REDIS.to_owned()),
        _ => Err("expected `rdb`, `redis` or `hybrid`".to_owned()),
    }
}

fn number(value: &str) -> Result<u64, String> {
    value.trim().parse().map_err(|_| "not a number".to_owned())
}

fn expire(value: &str, _: LookUp<'_>) -> ReadKeys {
    key("jobworkerp.keep-results", format!("{}s", number(value)?))
}

fn concurrency(value: &str, _: LookUp<'_>) -> ReadKeys {
    key("channels.default", number(value)?.to_string())
}

fn list(value: &str) -> Vec<&str> {
    value.split(',').map(str::trim).filter(|one| !one.is_empty()).collect()
}

/// A channel without a number runs one job at a time.
fn channels(value: &str, get: LookUp<'_>) -> ReadKeys {
    let counts = list(get("WORKER_CHANNEL_CONCURRENCIES").unwrap_or_default());
    let named = list(value).into_iter().enumerate();
    let each = named.map(|(n, channel)| {
        let count = counts.get(n).map_or(Ok(1), |count| number(count))?;
        Ok((format!("channels.{channel}"), count.to_string()))
    });
    each.collect()
}

/// The counts are used by `WORKER_CHANNELS`.
fn concurrencies(value: &str, get: LookUp<'_>) -> Result<&'static str, String> {
    let (channels, counts) = (list(get("WORKER_CHANNELS").unwrap_or_default()), list(value));
    match counts.len() > channels.len() {
        true => {
            let (counts, channels) = (counts.len(), channels.len());
            Err(format!("{counts} numbers for {channels} channels in WORKER_CHANNELS"))
        }
        false => Ok("see WORKER_CHANNELS"),
    }
}

fn level(value: &str, _: LookUp<'_>) -> ReadKeys {
    match value.to_lowercase().as_str() {
        level @ ("error" | "warn" | "info" | "debug" | "trace" | "off") => key("log.level", level),
        _ => Err("expected `error`, `warn`, `info`, `debug`, `trace` or `off`".to_owned()),
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("expected `true` or `false`".to_owned()),
    }
}

fn flag(name: &str, value: &str) -> ReadKeys {
    key(name, switch(value)?.to_string())
}

fn json(value: &str, _: LookUp<'_>) -> ReadKeys {
    key("log.format", if switch(value)? { "json" } else { "text" })
}

/// Port on which Jaeger accepts OTLP over HTTP.
const JAEGER_OTLP_PORT: u16 = 4318;

/// The address is that of Jaeger's agent, which later versions of Jaeger no longer have: traces go to the OTLP port of
/// the same host.
fn jaeger(value: &str, _: LookUp<'_>) -> ReadKeys {
    let wrong = || "expected the address of a Jaeger host, such as `127.0.0.1:6831`".to_owned();
    let (host, port) = value.trim().rsplit_once(':').ok_or_else(wrong)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_part) || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    let set = |key: &str, value: String| (key.to_owned(), value);
    Ok(vec![
        set("telemetry.endpoint", format!("http://{host}:{JAEGER_OTLP_PORT}")),
        set("telemetry.protocol", "otlp".to_owned()),
    ])
}

/// Precedence as in jobworkerp: Jaeger, Zipkin, OTLP.
fn zipkin(value: &str, get: LookUp<'_>) -> ReadKeys {
    if get("JAEGER_ADDR").is_some() {
        return Err("`JAEGER_ADDR` is set and takes precedence".to_owned());
    }
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(vec![set("telemetry.endpoint", value), set("telemetry.protocol", "zipkin")])
}

fn otlp(value: &str, get: LookUp<'_>) -> ReadKeys {
    for first in ["JAEGER_ADDR", "ZIPKIN_ADDR"] {
        if get(first).is_some() {
            return Err(format!("`{first}` is set and takes precedence"));
        }
    }
    let set = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Ok(vec![set("telemetry.endpoint", value), set("telemetry.protocol", "otlp")])
}
