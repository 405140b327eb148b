//! `crore worker`: runs handlers for a remote server, or lists and controls its workers.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use crore_client::{Client, Error};
use crore_outbound::{self as outbound, Outbound};
use serde_json::json;
use tonic::transport::{Certificate, ClientTlsConfig};

use super::CommandContext;
use super::client::{list_field, path_segment};
use crate::cli::{RemoteArgs, WorkerArgs, WorkerCommand};
use crate::drain::{ShutdownFlag, Signals};
use crate::exit::{CliError, FailureCode};
use crate::{logs, runners, serve};

/// Lists and controls workers.
pub(crate) fn list(mut call: CommandContext, command: &WorkerCommand) -> anyhow::Result<ExitCode> {
    match command {
        WorkerCommand::Ls => {
            let workers = list_field(call.client.get("/v1/workers")?, "workers");
            let columns = [
                ("WORKER", "/name"),
                ("VERSION", "/stream/version"),
                ("QUEUES", "/stream/queues"),
                ("KINDS", "/stream/kinds"),
                ("KIND VERSIONS", "/stream/versions"),
                ("SLOTS", "/stream/slots"),
                ("RUNNING", "/stream/running"),
                ("QUIET", "/stream/quiet"),
                ("SINCE", "/stream/since"),
                ("HEARD", "/stream/heard"),
                ("UNTIL", "/until"),
                ("ABOUT", "/about"),
            ];
            call.out.rows(&columns, &workers)?;
        }
        WorkerCommand::Quiet { worker } => {
            request(&mut call, worker, "quiet", "gets no more jobs")?;
        }
        WorkerCommand::Resume { worker } => {
            request(&mut call, worker, "resume", "gets jobs again")?;
        }
        WorkerCommand::Stop { worker } => request(&mut call, worker, "stop", "was asked to stop")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn request(
    call: &mut CommandContext,
    worker: &str,
    request: &str,
    done: &str,
) -> anyhow::Result<()> {
    let path = format!("/v1/workers/{}/{request}", path_segment(worker));
    call.client.post(&path, &json!({}))?;
    call.out.confirm(&format!("worker `{worker}` {done}"))?;
    Ok(())
}

/// Runs handlers for a server until a stop signal.
pub(crate) fn run(remote: &RemoteArgs, hosting: &WorkerArgs) -> anyhow::Result<ExitCode> {
    let config = serve::load_config(hosting.config.as_deref(), hosting.flags())?;
    let _logs = logs::start(&config)?;
    serve::runtime()?.block_on(async {
        let mut signals = Signals::new().context("cannot install signal handlers")?;
        // Like a server with a public address: calls to loopback addresses have to be allowed explicitly.
        let outbound = outbound::Options {
            listens: vec![(Ipv4Addr::UNSPECIFIED, 0).into()],
            roots: serve::read_ca(config.outbound.ca.as_deref())?,
            ..config.outbound.clone()
        };
        let runners = runners::build(&config, Outbound::new(outbound), None)?;
        let client = tokio::select! {
            client = connect(remote) => client?,
            signal = signals.next_stop() => {
                tracing::info!(signal, "shutting down: no job was run");
                return Ok(ExitCode::SUCCESS);
            }
        };
        let name = hosting.display_name();
        let channels = config.runners.named_channels();
        tracing::info!(server = %remote.server, "connected");
        runners::log_channels(&channels, &config);
        let host = runners::host(&client, runners, &config, channels).name(name);
        let closing = ShutdownFlag::new();
        let second_signal = async {
            let signal = signals.next_stop().await;
            tracing::info!(signal, "shutting down: waiting for jobs to finish");
            closing.set();
            signals.next_stop().await
        };
        tokio::select! {
            ran = host.run(closing.wait()) => ran.map_err(into_error)?,
            signal = second_signal => {
                tracing::warn!(signal, "second signal: exiting immediately");
                std::process::exit(1);
            }
        }
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

/// First and maximum delay between connection attempts.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Fragments of errors that will not go away: the peers do not trust each other's certificates, or one does not speak
/// TLS. Retrying is pointless.
const PERMANENT_ERRORS: [&str; 4] =
    ["certificate", "native certs", "fatal alert", "corrupt message"];

/// Connects to the server; retries while it is unreachable.
async fn connect(remote: &RemoteArgs) -> anyhow::Result<Client> {
    let mut builder = Client::builder(&remote.server);
    if let Some(token) = remote.token()? {
        builder = builder.token(token.reveal());
    }
    if let Some(path) = &remote.ca {
        builder = builder.tls(tls_config(path)?);
    }
    let (mut wait, longest) = RETRY_DELAYS;
    loop {
        let why = match builder.clone().connect().await {
            Ok(client) => return Ok(client),
            Err(Error::Unavailable(why))
                if !PERMANENT_ERRORS.iter().any(|sign| why.contains(sign)) =>
            {
                why
            }
            Err(Error::Malformed(why)) => return Err(CliError::new(FailureCode::Usage, why).into()),
            Err(error) => {
                let message = format!("{} cannot be reached: {error}", remote.server);
                return Err(CliError::new(FailureCode::Unreachable, message).into());
            }
        };
        tracing::warn!(server = %remote.server, why, "the server cannot be reached; trying again");
        #[expect(
            clippy::disallowed_methods,
            reason = "there is no event for a server becoming reachable"
        )]
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}

fn tls_config(path: &Path) -> anyhow::Result<ClientTlsConfig> {
    let pem = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

fn into_error(error: Error) -> anyhow::Error {
    match error {
        Error::Refused(problem) => CliError::new(FailureCode::Failed, problem.to_string()).into(),
        error => error.into(),
    }
}
