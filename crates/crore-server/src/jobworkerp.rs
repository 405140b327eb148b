//! `crore serve --jobworkerp-env`: reads jobworkerp's environment variables, to ease migration.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, anyhow};
use crore_doors::jobworkerp::env::{self, TranslatedVariable};

use crate::config::{Flags, SettingValue};
use crate::environment;
use crate::exit::{CliError, FailureCode};

/// Dotenv file, read if it exists.
const DOTENV: &str = ".env";
/// Marks a process whose environment already includes the file.
const DOTENV_LOADED: &str = "CRORE_DOTENV";

const FLAG: &str = "--jobworkerp-env";

/// Adds the variables of the file to the environment by re-executing this program, because secrets are resolved from
/// the environment later. Variables that are already set win.
pub(crate) fn load_dotenv() -> anyhow::Result<()> {
    if environment::read(DOTENV_LOADED).is_some() {
        return Ok(());
    }
    let text = match std::fs::read_to_string(DOTENV) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(anyhow!(error).context(format!("cannot read `{DOTENV}`"))),
    };
    let variables = env::file(&text)
        .map_err(|wrong| CliError::new(FailureCode::Usage, format!("`{DOTENV}`: {wrong}")))?;
    let existing: BTreeMap<String, String> = environment::all().collect();
    let new = variables.into_iter().filter(|(name, _)| !existing.contains_key(name));
    let itself = std::env::current_exe().context("cannot determine the path of this program")?;
    let arguments = std::env::args_os().skip(1);
    let error = Command::new(itself).args(arguments).envs(new).env(DOTENV_LOADED, "read").exec();
    Err(anyhow!(error).context("cannot re-execute this program"))
}

/// The translated variables of jobworkerp.
pub(crate) fn variables() -> Vec<TranslatedVariable> {
    env::read(&environment::all().collect())
}

/// The variables as configuration keys.
pub(crate) fn flags(variables: &[TranslatedVariable]) -> Flags {
    let keys = variables.iter().flat_map(|variable| &variable.keys);
    keys.map(|(key, value)| (key.clone(), SettingValue::One(value.clone()), FLAG)).collect()
}

/// Logs crore's own key for each variable.
pub(crate) fn log_keys(variables: &[TranslatedVariable]) {
    for TranslatedVariable { line, is_warning, .. } in variables {
        match is_warning {
            true => tracing::warn!(variable = %line, "variable of jobworkerp"),
            false => tracing::info!(variable = %line, "variable of jobworkerp"),
        }
    }
}
