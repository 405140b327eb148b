//! The configuration: defaults, then a file, then the environment, then flags; understood whole, or not
//! at all, with everything that is wrong told at once.

mod address;
mod check;
mod fault;
mod file;
pub(crate) mod page;
mod raw;
pub(crate) mod schema;
pub(crate) mod secret;
mod sections;
pub(crate) mod show;

use std::path::{Path, PathBuf};

pub(crate) use crore_core::settings::Given;
pub(crate) use raw::{Raw, Source};
pub(crate) use sections::doors::DoorName;
pub(crate) use sections::log::{Format, Rotate};
pub(crate) use sections::telemetry::{Protocol, Telemetry};

use crore_api::{access, audit};
use crore_core::Caps;
use crore_core::settings::{Info, Key, Section};
use crore_doors::{grpc, jobber, jobworkerp, lightjq, tls};
use crore_outbound as outbound;
use crore_store::registry::QueueSettings;
use fault::Faults;
use sections::{doors, listen, log, runners, store};

use crate::environment;

/// Declares the configuration from its sections: options of the crates that they configure, or of the server. To add
/// one, add a line.
macro_rules! join {
    ($($(#[doc = $doc:literal])+ $field:ident: $section:ty,)+) => {
        /// The configuration, understood and checked.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Config {
            $($(#[doc = $doc])+ pub(crate) $field: $section,)+
        }

        /// All sections, in the order in which they are shown.
        pub(crate) const INFOS: &[Info] = &[$(<$section as Section>::INFO),+];

        #[cfg(test)]
        impl Default for Config {
            fn default() -> Self {
                Self { $($field: <$section>::default(),)+ }
            }
        }

        impl Config {
            fn read(raw: &mut Raw) -> Self {
                Self { $($field: <$section as Section>::read(raw),)+ }
            }
        }
    };
}

join! {
    /// Where it listens.
    listen: listen::Listen,
    /// Who can read along.
    tls: tls::Options,
    /// Who may do what.
    access: access::Options,
    /// Where jobs are kept.
    store: store::Store,
    /// Extra listeners.
    doors: doors::Doors,
    /// What a call may cost.
    http: crore_api::Options,
    /// gRPC.
    grpc: grpc::Options,
    /// LightJQ, and push workers.
    lightjq: lightjq::Options,
    /// Jobber.
    jobber: jobber::Options,
    /// jobworkerp.
    jobworkerp: jobworkerp::Options,
    /// What it runs jobs with.
    runners: runners::Runners,
    /// Whom it may call.
    outbound: outbound::Options,
    /// What it writes about itself.
    log: log::Log,
    /// What operators change.
    audit: audit::Options,
    /// Where traces are sent.
    telemetry: Telemetry,
    /// What callers may not pass.
    caps: Caps,
    /// How long ended jobs are kept.
    retention: QueueSettings,
}

impl Config {
    /// How the doors of a server are set up that listens here.
    pub(crate) fn doors(&self, listens: Vec<std::net::SocketAddr>) -> crore_doors::Options {
        let mut lightjq = self.lightjq.clone();
        // Push workers may answer as long as others may.
        lightjq.workers.drain_time = self.listen.drain_for;
        crore_doors::Options {
            grpc: self.grpc.clone(),
            lightjq,
            jobber: self.jobber.clone(),
            jobworkerp: self.jobworkerp.clone(),
            outbound: outbound::Options { listens, ..self.outbound.clone() },
            api: crore_api::Options {
                access: access::Options { insecure: self.listen.insecure, ..self.access.clone() },
                backups: self.store.backups.clone(),
                ..self.http.clone()
            },
        }
    }
}

/// All keys of all sections.
fn keys() -> impl Iterator<Item = &'static Key> {
    INFOS.iter().flat_map(|info| info.keys)
}

/// The file that is read if it is there and no other is named.
const USUAL_FILE: &str = "crore.toml";

/// Values that flags gave: the whole name of the key, the value, and the flag.
pub(crate) type Flags = Vec<(String, Given, &'static str)>;

/// Gathers what was given. Only a file that cannot be read ends it.
pub(crate) fn gather(file: Option<&Path>, flags: Flags) -> anyhow::Result<Raw> {
    let mut raw = Raw::default();
    let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
    if let Some(path) = file.map(Path::to_owned).or_else(usual) {
        file::read(&path, &mut raw)?;
    }
    raw.put_variables(environment::all());
    for (path, given, flag) in flags {
        raw.put(&path, given, Source::Flag(flag));
    }
    Ok(raw)
}

/// Understands what was given, and checks it.
pub(crate) fn understand(raw: &mut Raw) -> Result<Config, impl std::error::Error + use<>> {
    let config = Config::read(raw);
    check::check(&config, raw);
    let faults = raw.take_faults();
    if faults.is_empty() { Ok(config) } else { Err(Faults(faults)) }
}

#[cfg(test)]
mod tests;
