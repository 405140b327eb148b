//! `crore token`: create, ls, rm.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use crore::Engine;
use crore_api::access;
use crore_wire::api::tokens::{NewToken, Preset, Scope};
use crore_wire::words::Period;
use hyper::Method;
use serde_json::json;

use super::Call;
use super::client::{list, segment};
use crate::cli::Remote;
use crate::exit::{Failure, Why};
use crate::out::Out;

const EXAMPLES: &str = "\
Examples:
  crore token create ops --preset admin --data crore-data    # the first one, before the server starts
  crore token create app --preset producer --expires-in 90d";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a token; it is shown once. From the first one on, every caller needs one
    #[command(after_help = EXAMPLES)]
    Create(New),
    /// List all tokens, without their secrets
    Ls,
    /// Remove a token
    Rm {
        /// Its name, or its id
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("may").args(["preset", "scope"]).required(true).multiple(true))]
pub(crate) struct New {
    /// Its name
    name: String,
    /// What it is for: producer, worker, operator or admin
    #[arg(long)]
    preset: Option<Preset>,
    /// A scope: push, work, read, operate, define or admin; may be said several times
    #[arg(long)]
    scope: Vec<Scope>,
    /// How long it is good for, as in 90d; for ever, unless told otherwise
    #[arg(long, value_name = "SPAN")]
    expires_in: Option<Period>,
    /// Make it in this directory, which no server has open, instead of asking a server
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl New {
    fn said(&self) -> NewToken {
        NewToken {
            name: self.name.clone(),
            preset: self.preset,
            scopes: self.scope.clone(),
            expires_in: self.expires_in,
        }
    }
}

pub(crate) fn run(remote: &Remote, command: Command) -> anyhow::Result<ExitCode> {
    if let Command::Create(new @ New { data: Some(data), .. }) = &command {
        let text = make_in(data, &new.said())?;
        Out::new(remote.output).line(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut call = Call::new(remote)?;
    match command {
        Command::Create(new) => {
            let body = serde_json::to_value(new.said())?;
            let made = call.client.call(&Method::POST, "/v1/tokens", &body)?;
            let token = made.get("token").cloned().unwrap_or(json!(null));
            call.out.line(token.as_str().unwrap_or_default())?;
        }
        Command::Ls => {
            let tokens = list(call.client.get("/v1/tokens")?, "tokens");
            let columns = [
                ("NAME", "/name"),
                ("ID", "/id"),
                ("SCOPES", "/scopes"),
                ("CREATED", "/created_at"),
                ("EXPIRES", "/expires_at"),
            ];
            call.out.rows(&columns, &tokens)?;
        }
        Command::Rm { name } => {
            call.client.delete(&format!("/v1/tokens/{}", segment(&name)))?;
            call.out.did(&format!("the token `{name}` is good for nothing any more"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a token for a store that no server has open, and gives its text.
fn make_in(data: &Path, new: &NewToken) -> anyhow::Result<String> {
    let engine = Engine::open(data)
        .map_err(|error| crate::serve::not_opened(error, &data.display().to_string()))?;
    let made = crore::block_on(access::create(&engine, new));
    engine.stop()?;
    let (_, secret) = made.map_err(|error| Failure::new(Why::Usage, error.to_string()))?;
    Ok(secret.reveal().to_owned())
}
