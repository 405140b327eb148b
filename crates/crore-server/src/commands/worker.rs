//! `crore worker`: a host of runners elsewhere, or a look at the workers that are there.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use crore_client::{Client, Error};
use crore_outbound as outbound;
use tonic::transport::{Certificate, ClientTlsConfig};

use super::Call;
use super::client::list;
use crate::cli::{Hosting, Remote, WorkerCommand};
use crate::drain::{Closing, Signals};
use crate::exit::{Failure, Why};
use crate::{logs, runners, serve};

/// Looks at workers.
pub(crate) fn look(mut call: Call, command: &WorkerCommand) -> anyhow::Result<ExitCode> {
    match command {
        WorkerCommand::Ls => {
            let workers = list(call.client.get("/v1/workers")?, "workers");
            let columns = [
                ("WORKER", "/name"),
                ("VERSION", "/stream/version"),
                ("QUEUES", "/stream/queues"),
                ("SLOTS", "/stream/slots"),
                ("RUNNING", "/stream/running"),
                ("SINCE", "/stream/since"),
                ("HEARD", "/stream/heard"),
                ("UNTIL", "/until"),
                ("ABOUT", "/about"),
            ];
            call.out.rows(&columns, &workers)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs jobs of a server until it is told to stop.
pub(crate) fn run(remote: &Remote, hosting: &Hosting) -> anyhow::Result<ExitCode> {
    let config = serve::understood(hosting.config.as_deref(), hosting.flags())?;
    let _logs = logs::start(&config)?;
    serve::runtime()?.block_on(async {
        let mut signals = Signals::new().context("cannot listen to signals")?;
        // As for a server that others can reach: what listens on this machine alone is called if that is allowed.
        let outbound = outbound::Options {
            listens: vec![(Ipv4Addr::UNSPECIFIED, 0).into()],
            roots: serve::trusted(config.outbound.ca.as_deref())?,
            ..config.outbound.clone()
        };
        let runners = runners::all(&config, outbound, None)?;
        let client = tokio::select! {
            client = connect(remote) => client?,
            signal = signals.next() => {
                tracing::info!(signal, "told to stop: no job was run");
                return Ok(ExitCode::SUCCESS);
            }
        };
        let name = hosting.name.clone().unwrap_or_default();
        let channels = config.runners.named_channels();
        tracing::info!(server = %remote.server, "connected");
        runners::tell(&channels, &config);
        let host = runners::host(&client, runners, &config, channels).name(name);
        let closing = Closing::new();
        let told_twice = async {
            let signal = signals.next().await;
            tracing::info!(signal, "told to stop: letting jobs finish");
            closing.close();
            signals.next().await
        };
        tokio::select! {
            ran = host.run(closing.closed()) => ran.map_err(refused)?,
            signal = told_twice => {
                tracing::warn!(signal, "told again to stop: leaving now");
                std::process::exit(1);
            }
        }
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

/// The first wait before a server is tried again, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// What is said of a connection that was refused, and will be again: both sides do not trust each other, or
/// one of them speaks no TLS.
const NO_TRUST: [&str; 4] = ["certificate", "native certs", "fatal alert", "corrupt message"];

/// Connects to the server, as soon as it is there.
async fn connect(remote: &Remote) -> anyhow::Result<Client> {
    let mut builder = Client::builder(&remote.server);
    if let Some(token) = remote.token()? {
        builder = builder.token(token.reveal());
    }
    if let Some(path) = &remote.ca {
        builder = builder.tls(trusts(path)?);
    }
    let (mut wait, longest) = WAITS;
    loop {
        let why = match builder.clone().connect().await {
            Ok(client) => return Ok(client),
            Err(Error::Unavailable(why)) if !NO_TRUST.iter().any(|sign| why.contains(sign)) => why,
            Err(Error::Malformed(why)) => return Err(Failure::new(Why::Usage, why).into()),
            Err(error) => {
                let message = format!("{} cannot be reached: {error}", remote.server);
                return Err(Failure::new(Why::NotReached, message).into());
            }
        };
        tracing::warn!(server = %remote.server, why, "the server cannot be reached; trying again");
        #[expect(clippy::disallowed_methods, reason = "nobody tells when a server is there again")]
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(longest);
    }
}

fn trusts(path: &Path) -> anyhow::Result<ClientTlsConfig> {
    let pem = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

fn refused(error: Error) -> anyhow::Error {
    match error {
        Error::Refused(problem) => Failure::new(Why::Failed, problem.to_string()).into(),
        error => error.into(),
    }
}
