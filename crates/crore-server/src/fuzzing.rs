//! The reader of configurations, for fuzz targets.

use crate::config::{self, Config, RawConfig};

/// Reads a configuration file and environment variables. Returns the configuration in the form of
/// `crore config show`, which can be read again; or all errors. `None`: the configuration names a file with a secret,
/// which is not read.
pub fn read_config(
    file: &str,
    variables: impl Iterator<Item = (String, String)>,
) -> Option<Result<ReadConfig, String>> {
    let mut raw = RawConfig::default();
    config::parse_file("crore.toml", file, &mut raw);
    raw.add_variables(variables);
    if raw.names_secret_file() {
        return None;
    }
    let read = config::parse(&mut raw).map_err(|errors| errors.to_string());
    Some(read.map(|config| ReadConfig { config, shown: config::show::text(&raw) }))
}

/// A configuration that was read.
#[derive(Debug)]
pub struct ReadConfig {
    config: Config,
    /// As TOML.
    pub shown: String,
}

impl PartialEq for ReadConfig {
    /// Compares the values, not where they come from.
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}
