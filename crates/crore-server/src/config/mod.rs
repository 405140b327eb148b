//! Server configuration: defaults, then a TOML file, then the environment, then flags; later sources win. Loading
//! either succeeds or reports all errors at once.

mod address;
mod check;
mod errors;
mod file;
mod raw;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod secret;
mod sections;
pub(crate) mod show;

use std::path::{Path, PathBuf};

pub(crate) use crore_core::settings::SettingValue;
pub(crate) use file::parse as parse_file;
pub(crate) use raw::{ConfigSource, RawConfig};
pub(crate) use sections::doors::DoorName;
pub(crate) use sections::log::{LogConfig, LogFormat, LogRotation};
pub(crate) use sections::telemetry::{ExportProtocol, TelemetryConfig};

use crore_api::{access, audit};
use crore_core::Caps;
use crore_core::settings::{Section, SectionSchema, SettingKey};
use crore_doors::{grpc, jobber, jobworkerp, lightjq, tls};
use crore_outbound as outbound;
use crore_store::registry::QueueSettings;
use errors::ConfigErrors;
use sections::{doors, listen, runners, store};

use crate::environment;

/// Declares [`Config`] from its sections, which are the options of the crates that they configure or of the server.
macro_rules! declare_config {
    ($($(#[doc = $doc:literal])+ $field:ident: $section:ty,)+) => {
        /// The effective configuration, parsed and checked.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Config {
            $($(#[doc = $doc])+ pub(crate) $field: $section,)+
        }

        /// All sections, in display order.
        pub(crate) const SECTIONS: &[SectionSchema] = &[$(<$section as Section>::INFO),+];

        #[cfg(test)]
        impl Default for Config {
            fn default() -> Self {
                Self { $($field: <$section>::default(),)+ }
            }
        }

        impl Config {
            fn read(raw: &mut RawConfig) -> Self {
                Self { $($field: <$section as Section>::read(raw),)+ }
            }
        }
    };
}

declare_config! {
    /// Listeners and shutdown.
    listen: listen::ListenConfig,
    /// TLS.
    tls: tls::Options,
    /// Authentication.
    access: access::Options,
    /// Storage.
    store: store::StoreConfig,
    /// Extra listeners.
    doors: doors::DoorsConfig,
    /// Limits of API calls.
    http: crore_api::Options,
    /// gRPC.
    grpc: grpc::Options,
    /// LightJQ, and push workers.
    lightjq: lightjq::Options,
    /// Jobber.
    jobber: jobber::Options,
    /// jobworkerp.
    jobworkerp: jobworkerp::Options,
    /// Runners and channels.
    runners: runners::RunnersConfig,
    /// Restrictions on outgoing calls.
    outbound: outbound::Options,
    /// Logging.
    log: LogConfig,
    /// The audit log.
    audit: audit::Options,
    /// Trace export.
    telemetry: TelemetryConfig,
    /// Caps on sizes and counts.
    caps: Caps,
    /// Retention of ended jobs.
    retention: QueueSettings,
}

impl Config {
    /// Options of the doors, for a server with these listen addresses.
    pub(crate) fn doors(&self, listens: Vec<std::net::SocketAddr>) -> crore_doors::Options {
        let mut lightjq = self.lightjq.clone();
        // Push workers get the same drain timeout as other workers.
        lightjq.workers.drain_time = self.listen.drain_for;
        crore_doors::Options {
            grpc: self.grpc.clone(),
            lightjq,
            jobber: self.jobber.clone(),
            jobworkerp: self.jobworkerp.clone(),
            outbound: outbound::Options { listens, ..self.outbound.clone() },
            api: crore_api::Options {
                access: access::Options {
                    insecure: self.listen.insecure,
                    own_user: self.runners.own_user(),
                    ..self.access.clone()
                },
                backups: self.store.backups.clone(),
                data: (!self.store.memory).then(|| self.store.data.clone()),
                ..self.http.clone()
            },
        }
    }
}

/// All keys of all sections.
fn keys() -> impl Iterator<Item = &'static SettingKey> {
    SECTIONS.iter().flat_map(|info| info.keys)
}

/// Configuration file that is read if it exists and no other is named.
const DEFAULT_FILE: &str = "crore.toml";

/// Values from flags: full key, value, flag.
pub(crate) type Flags = Vec<(String, SettingValue, &'static str)>;

/// Collects the values from all sources. Fails only if a file cannot be read.
pub(crate) fn collect(file: Option<&Path>, flags: Flags) -> anyhow::Result<RawConfig> {
    let mut raw = RawConfig::default();
    let default_file = || Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists());
    if let Some(path) = file.map(Path::to_owned).or_else(default_file) {
        file::read(&path, &mut raw)?;
    }
    raw.add_variables(environment::all());
    for (path, given, flag) in flags {
        raw.put(&path, given, ConfigSource::Flag(flag));
    }
    Ok(raw)
}

/// Parses and checks the collected values.
pub(crate) fn parse(raw: &mut RawConfig) -> Result<Config, impl std::error::Error + use<>> {
    let config = Config::read(raw);
    check::check(&config, raw);
    let faults = raw.take_errors();
    if faults.is_empty() { Ok(config) } else { Err(ConfigErrors(faults)) }
}

#[cfg(test)]
mod tests;
