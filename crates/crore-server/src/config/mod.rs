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
pub(crate) use sections::runners::{Count, Variables};
pub(crate) use sections::store::Durability;
pub(crate) use sections::telemetry::{Protocol, Telemetry};

use crore_core::settings::{Info, Key, Section};
use fault::Faults;
use sections::{
    access, audit, caps, doors, grpc, http, jobber, jobworkerp, lightjq, listen, log, outbound,
    retention, runners, store, tls,
};

use crate::environment;

/// Declares the configuration from its sections. To add one, add a line, and a file in `sections/`.
macro_rules! join {
    ($($(#[doc = $doc:literal])+ $field:ident: $section:ty,)+) => {
        /// The configuration, understood and checked.
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct Config {
            $($(#[doc = $doc])+ pub(crate) $field: $section,)+
        }

        /// All sections, in the order in which they are shown.
        pub(crate) const INFOS: &[Info] = &[$(<$section as Section>::INFO),+];

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
    tls: tls::Tls,
    /// Who may do what.
    access: access::Access,
    /// Where jobs are kept.
    store: store::Store,
    /// Extra listeners.
    doors: doors::Doors,
    /// What a call may cost.
    http: http::Http,
    /// gRPC.
    grpc: grpc::Grpc,
    /// LightJQ, and push workers.
    lightjq: lightjq::Lightjq,
    /// Jobber.
    jobber: jobber::Jobber,
    /// jobworkerp.
    jobworkerp: jobworkerp::Jobworkerp,
    /// What it runs jobs with.
    runners: runners::Runners,
    /// Whom it may call.
    outbound: outbound::Outbound,
    /// What it writes about itself.
    log: log::Log,
    /// What operators change.
    audit: audit::Audit,
    /// Where traces are sent.
    telemetry: Telemetry,
    /// What callers may not pass.
    caps: caps::Caps,
    /// How long ended jobs are kept.
    retention: retention::Retention,
}

impl Config {
    /// How the doors of a server are set up that listens here.
    pub(crate) fn doors(&self, listens: Vec<std::net::SocketAddr>) -> crore_doors::Options {
        crore_doors::Options {
            grpc: self.grpc.options(),
            lightjq: self.lightjq.options(self.listen.drain_for),
            jobber: self.jobber.options(),
            jobworkerp: self.jobworkerp.options(),
            outbound: self.outbound.options(listens),
            api: crore_api::Options {
                access: self.access.options(self.listen.insecure),
                backups: self.store.backups.clone(),
                ..self.http.options()
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
