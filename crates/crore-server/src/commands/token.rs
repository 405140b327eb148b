//! `crore token`: create, ls, rm.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use crore::Engine;
use crore_api::access;
use crore_wire::api::tokens::{NewToken, Preset, Scope};
use crore_wire::units::Period;
use hyper::Method;
use serde_json::json;

use super::CommandContext;
use super::client::{list_field, path_segment};
use crate::cli::RemoteArgs;
use crate::exit::{CliError, FailureCode};
use crate::output::CommandOutput;

const EXAMPLES: &str = "\
Examples:
  crore token create ops --preset admin --data crore-data    # the first token, before the server starts
  crore token create app --preset producer --expires-in 90d
  crore token create mailer --scope push --scope work --queue 'mail*' --kind send --kind 'render*'";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it, once; as soon as a token exists, every caller needs one
    #[command(after_help = EXAMPLES)]
    Create(TokenArgs),
    /// List tokens, without their secrets
    Ls,
    /// Revoke a token
    Rm {
        /// Name or id of the token
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("may").args(["preset", "scope"]).required(true).multiple(true))]
pub(crate) struct TokenArgs {
    /// Name of the token
    name: String,
    /// Preset of scopes: producer, worker, operator or admin
    #[arg(long)]
    preset: Option<Preset>,
    /// Scope: push, work, read, operate, define or admin; may be repeated
    #[arg(long)]
    scope: Vec<Scope>,
    /// Queue that the token is restricted to, as a pattern with `*` for any characters; may be repeated [default: any]
    #[arg(long, value_name = "PATTERN")]
    queue: Vec<String>,
    /// Kind that the token is restricted to, as a pattern with `*` for any characters; may be repeated [default: any]
    #[arg(long, value_name = "PATTERN")]
    kind: Vec<String>,
    /// Lifetime, such as 90d [default: unlimited]
    #[arg(long, value_name = "DURATION")]
    expires_in: Option<Period>,
    /// Create the token in this data directory, without a server; no server may have it open
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl TokenArgs {
    fn request(&self) -> NewToken {
        NewToken {
            name: self.name.clone(),
            preset: self.preset,
            scopes: self.scope.clone(),
            expires_in: self.expires_in,
            queues: self.queue.clone(),
            kinds: self.kind.clone(),
        }
    }
}

pub(crate) fn run(remote: &RemoteArgs, command: TokenCommand) -> anyhow::Result<ExitCode> {
    if let TokenCommand::Create(new @ TokenArgs { data: Some(data), .. }) = &command {
        let text = create_in(data, &new.request())?;
        CommandOutput::new(remote.output).line(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut call = CommandContext::new(remote)?;
    match command {
        TokenCommand::Create(new) => {
            let body = serde_json::to_value(new.request())?;
            let made = call.client.call(&Method::POST, "/v1/tokens", &body)?;
            let token = made.get("token").cloned().unwrap_or(json!(null));
            call.out.line(token.as_str().unwrap_or_default())?;
        }
        TokenCommand::Ls => {
            let tokens = list_field(call.client.get("/v1/tokens")?, "tokens");
            let columns = [
                ("NAME", "/name"),
                ("ID", "/id"),
                ("SCOPES", "/scopes"),
                ("QUEUES", "/queues"),
                ("KINDS", "/kinds"),
                ("CREATED", "/created_at"),
                ("EXPIRES", "/expires_at"),
            ];
            call.out.rows(&columns, &tokens)?;
        }
        TokenCommand::Rm { name } => {
            call.client.delete(&format!("/v1/tokens/{}", path_segment(&name)))?;
            call.out.confirm(&format!("token `{name}` has been revoked"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates a token in a data directory that no server has open, and returns its text.
fn create_in(data: &Path, new: &NewToken) -> anyhow::Result<String> {
    let engine = Engine::open(data)
        .map_err(|error| crate::serve::open_error(error, &data.display().to_string()))?;
    let made = crore::block_on(access::create(&engine, new));
    engine.stop()?;
    let (_, secret) = made.map_err(|error| CliError::new(FailureCode::Usage, error.to_string()))?;
    Ok(secret.reveal().to_owned())
}
