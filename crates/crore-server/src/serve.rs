//! `crore serve`: opens the store, starts the listeners, and runs until a stop signal.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use crore::{Engine, Options};
use crore_api::access::{self, ListenWarning, Protection};
use crore_api::audit::Audit;
use crore_doors::listen::Listener;
use crore_doors::tls::Tls;
use crore_doors::{Doors, listen};
use crore_store::{Memory, SystemClock};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::JoinSet;

use crate::banner::{self, Startup};
use crate::bind::{BoundListener, bind};
use crate::cli::ServeArgs;
use crate::config::{self, Config, Flags};
use crate::drain::{self, ShutdownFlag, SignalAction, Signals};
use crate::exit::{CliError, FailureCode};
use crate::{job_log, jobworkerp, logs, runners, telemetry};

/// Time for background tasks to end on exit.
const BACKGROUND_GRACE: Duration = Duration::from_millis(100);

/// Runs a server until a stop signal.
pub(crate) fn run(settings: &ServeArgs) -> anyhow::Result<ExitCode> {
    let variables = if settings.jobworkerp_env {
        jobworkerp::load_dotenv()?;
        jobworkerp::variables()
    } else {
        Vec::new()
    };
    let flags = [jobworkerp::flags(&variables), settings.flags()].concat();
    let config = load_config(settings.config.as_deref(), flags)?;
    let _logs = logs::start(&config)?;
    jobworkerp::log_keys(&variables);
    let engine = open(&config)?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(&engine, &config, banner::serve));
    // A backup in progress is not awaited: an unfinished backup is recognized when it is opened.
    runtime.shutdown_timeout(BACKGROUND_GRACE);
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Loads the configuration from all sources.
pub(crate) fn load_config(file: Option<&Path>, flags: Flags) -> anyhow::Result<Config> {
    let mut raw = config::collect(file, flags)?;
    let parsed = config::parse(&mut raw);
    Ok(parsed.map_err(|faults| CliError::new(FailureCode::Usage, faults.to_string()))?)
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().build().context("cannot start the async runtime")
}

/// Opens the engine on the configured store, and checks that the store is as durable as `store.require` demands.
pub(crate) fn open(config: &Config) -> anyhow::Result<Engine> {
    let engine = open_engine(config)?;
    let (has, needs) = (engine.status().durability(), config.store.required());
    if has < needs {
        let message = format!(
            "the durability of this store is {has}, but `store.require` demands {needs}: {}",
            config.store.durability_advice(needs)
        );
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    if let Some(file_system) = config.store.in_memory_file_system() {
        let data = config.store.data.display();
        tracing::warn!(%data, file_system, "a power failure loses the data directory");
    }
    Ok(engine)
}

fn open_engine(config: &Config) -> anyhow::Result<Engine> {
    let mut options = Options::default();
    options.caps = config.caps.clone();
    options.store = config.store.embedded.clone();
    options.queues = config.retention.clone();
    if config.store.memory {
        let clock = Arc::new(SystemClock);
        let store = Memory::new(clock.clone()).with_queues(options.queues.clone());
        return Ok(Engine::on(Arc::new(store), clock, options)?);
    }
    let dir = &config.store.data;
    Engine::open_with(dir, options).map_err(|error| open_error(error, &dir.display().to_string()))
}

/// Adds advice to an error of opening a store.
pub(crate) fn open_error(error: crore::Error, dir: &str) -> anyhow::Error {
    if let crore::Error::Store(crore_store::Error::Unavailable(source)) = &error
        && let Some(io) = source.downcast_ref::<io::Error>()
        && io.kind() == io::ErrorKind::WouldBlock
    {
        let message = format!("{io}; stop it, or choose another directory with `--data`");
        return CliError::new(FailureCode::Conflict, message).into();
    }
    let is_damaged = matches!(error, crore::Error::Store(crore_store::Error::Corrupt { .. }));
    let error = anyhow!(error).context(format!("cannot open the store in `{dir}`"));
    match is_damaged {
        true => anyhow!("{error:#}; run `crore verify {dir}` for details"),
        false => error,
    }
}

/// Runs the server until a stop signal, then drains it. `welcome` is called once the listeners are bound.
pub(crate) async fn serve(
    engine: &Engine,
    config: &Config,
    welcome: impl FnOnce(&Startup<'_>),
) -> anyhow::Result<()> {
    // Installed before the address is announced: from then on, a stop signal may arrive.
    let mut signals = Signals::new().context("cannot install signal handlers")?;
    let tls = Tls::load(&config.tls)
        .map_err(|error| CliError::new(FailureCode::Usage, anyhow!(error).to_string()))?;
    let bound = bind(config).await?;
    let needs_token = check_listeners(engine, config, tls.as_ref(), &bound).await?;
    welcome(&Startup { engine, config, bound: &bound, needs_token });
    for one in &bound {
        tracing::info!(address = %one.address, door = one.door.unwrap_or("all"), "listening");
    }
    let listens = bound.iter().map(|one| one.address).collect();
    let mut options = config.doors(listens);
    options.outbound.roots = read_ca(config.outbound.ca.as_deref())?;
    let audit = Audit::open(&config.audit).context("cannot write the audit log")?;
    let doors = Doors::audited(engine.clone(), options, audit);
    let exporter = telemetry::start(&config.telemetry, &doors)?;
    let (pushing, until) = (doors.push_workers(), doors.clone());
    tokio::spawn(async move { pushing.run(until.closing()).await });
    let data = (!config.store.memory).then_some(config.store.data.as_path());
    let runners = runners::build(config, doors.outbound().clone(), data)?;
    let checker = match config.runners.run {
        true => Arc::clone(&runners),
        false => runners::validators(doors.outbound().clone()),
    };
    doors.api().check_handlers(move |handler| checker.check(handler));
    let prepared = crore_doors::jobworkerp::prepare(&doors).await;
    prepared.map_err(|fault| {
        let problem = fault.problem();
        let what = problem.field.as_deref().unwrap_or_default();
        CliError::new(
            FailureCode::Usage,
            format!("jobworkerp Slack worker: {what}: {}", problem.detail),
        )
    })?;
    for kind in engine.handlers().unreadable().await? {
        tracing::warn!(%kind, "handler cannot be read, its jobs do not run; set it again or delete it");
    }
    let released = runners::release_orphaned_jobs(engine).await?;
    if released > 0 {
        tracing::info!(jobs = released, "jobs of a killed server run again");
    }
    if config.runners.run {
        let (doors, config) = (doors.clone(), config.clone());
        tokio::spawn(async move { runners::run_in_server(doors, runners, &config).await });
    }
    if config.log.jobs {
        tokio::spawn(job_log::run(engine.clone()));
    }
    let api = doors.api().clone();
    tokio::spawn(async move { api.run_background().await });
    let closing = ShutdownFlag::new();
    let pages = crore_ui::router(doors.api())?;
    let mut listeners = JoinSet::new();
    for one in bound {
        let options = config.listen.connections.clone();
        let listener = match &tls {
            Some(tls) => Listener::secure(one.listener, tls.clone()),
            None => one.listener.into(),
        };
        let served = doors.served_with(pages.clone());
        listeners.spawn(listen::serve(listener, served, options, closing.wait()));
    }
    let mut ended = async || {
        while let Some(ended) = listeners.join_next().await {
            log_listener_end(ended);
        }
    };
    let mut poisoned = JoinSet::new();
    let watched = engine.clone();
    poisoned.spawn(async move { watched.status().store_poisoned().await });
    let signal = loop {
        tokio::select! {
            action = signals.next_action() => match action {
                SignalAction::Stop(signal) => break signal,
                SignalAction::Reload => reload_certificates(tls.as_ref()).await,
            },
            Some(Ok(why)) = poisoned.join_next() => return Err(drain::store_failed(&why, &mut signals).await),
            () = ended() => anyhow::bail!("all listeners have stopped"),
        }
    };
    tracing::info!(signal, drain_for = %config.listen.drain_for, "shutting down: waiting for workers to finish");
    tokio::select! {
        drained = drain::drain(&doors, &closing, config.listen.drain_for, ended()) => drained?,
        Some(Ok(why)) = poisoned.join_next() => return Err(drain::store_failed(&why, &mut signals).await),
        signal = signals.next_stop() => drain::exit_now(signal, engine.clone()).await,
    }
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Reloads TLS certificates.
async fn reload_certificates(tls: Option<&Tls>) {
    tracing::info!("SIGHUP: reloading TLS certificates");
    if let Some(tls) = tls {
        tls.reload_and_log().await;
    }
}

/// Reads the CA certificates in a PEM file.
pub(crate) fn read_ca(path: Option<&Path>) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let wrong = |why: String| {
        CliError::new(FailureCode::Usage, format!("`outbound.ca`: `{}` {why}", path.display()))
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if found.is_empty() {
        return Err(wrong("contains no PEM certificate".to_owned()).into());
    }
    Ok(found)
}

fn log_listener_end(ended: Result<Result<(), listen::ListenError>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "listener failed"),
        Err(error) => tracing::error!(%error, "listener task failed"),
    }
}

/// Refuses listen addresses that would expose an unauthenticated server, and logs warnings about risky ones. Returns
/// whether callers need a token.
async fn check_listeners(
    engine: &Engine,
    config: &Config,
    tls: Option<&Tls>,
    bound: &[BoundListener],
) -> anyhow::Result<bool> {
    let has_token = access::any_exist(engine).await?;
    let protection = tls.map_or(Protection::Plain, Tls::protection);
    for one in bound {
        let may = access::may_listen(one.address, has_token, protection, config.listen.insecure);
        let warnings =
            may.map_err(|refusal| CliError::new(FailureCode::Usage, refusal.to_string()))?;
        for warning in warnings {
            match warning {
                ListenWarning::OpenToAll(address) if config.runners.own_user().is_some() => {
                    tracing::warn!(
                        %address,
                        "`--insecure` has no effect: `runners.allow` lets jobs run programs, so callers need a token"
                    );
                }
                risk => tracing::warn!(%risk, "risky listen address"),
            }
        }
    }
    Ok(has_token)
}
