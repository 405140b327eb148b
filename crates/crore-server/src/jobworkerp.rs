//! The environment of jobworkerp, for whoever moves from there: `crore serve --jobworkerp-env`.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, anyhow};
use crore_doors::jobworkerp::env::{self, Said};

use crate::config::{Flags, Given};
use crate::environment;
use crate::exit::{Failure, Why};

/// The file that is read if it is there.
const FILE: &str = ".env";
/// Says that it was read.
const READ: &str = "CRORE_DOTENV";

/// What the flag says.
const FLAG: &str = "--jobworkerp-env";

/// Puts what the file says into the environment, where secrets are looked for later: this program begins
/// anew with it. What is there already stays.
pub(crate) fn load() -> anyhow::Result<()> {
    if environment::read(READ).is_some() {
        return Ok(());
    }
    let text = match std::fs::read_to_string(FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(anyhow!(error).context(format!("cannot read `{FILE}`"))),
    };
    let said =
        env::file(&text).map_err(|wrong| Failure::new(Why::Usage, format!("`{FILE}`: {wrong}")))?;
    let there: BTreeMap<String, String> = environment::all().collect();
    let new = said.into_iter().filter(|(name, _)| !there.contains_key(name));
    let itself = std::env::current_exe().context("cannot tell where this program is")?;
    let arguments = std::env::args_os().skip(1);
    let error = Command::new(itself).args(arguments).envs(new).env(READ, "read").exec();
    Err(anyhow!(error).context("cannot begin anew"))
}

/// What the variables of jobworkerp say.
pub(crate) fn said() -> Vec<Said> {
    env::read(&environment::all().collect())
}

/// The same as keys of the configuration.
pub(crate) fn flags(said: &[Said]) -> Flags {
    let ours = said.iter().flat_map(|said| &said.ours);
    ours.map(|(key, value)| (key.clone(), Given::One(value.clone()), FLAG)).collect()
}

/// Says our own name for each.
pub(crate) fn tell(said: &[Said]) {
    for Said { line, is_warning, .. } in said {
        match is_warning {
            true => tracing::warn!("{line}"),
            false => tracing::info!("{line}"),
        }
    }
}
