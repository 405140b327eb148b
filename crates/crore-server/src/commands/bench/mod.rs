//! `crore bench`: puts load on a server through any of its doors, and accounts for every job.
//!
//! ```text
//! plan              arguments and parameters
//! temporary_server  a server for the run, if none is named
//! drive             a run: tasks connect, push and work until every job is accounted for
//!   doors/          protocol of each door
//!   target          connections; load: shared state; source: batches to push and their pace
//!   ledger          state of every job; latency: histograms; payload: content of a job
//! server            queries about the server, and clean-up
//! report            results as JSON; page: the same for people
//! ```

mod doors;
mod drive;
mod latency;
mod ledger;
mod load;
mod page;
mod payload;
mod plan;
mod progress;
mod report;
mod server;
mod source;
mod target;
mod temporary_server;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crore_api::metrics::ProcessUsage;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::drive::drive;
use self::load::LoadState;
pub(crate) use self::plan::LoadArgs;
use self::report::{LoadReport, TestedServer, UsageChange};
use self::server::ServerProbe;
use self::target::BenchTarget;
use self::temporary_server::TemporaryServer;
use crate::cli::RemoteArgs;
use crate::drain::Signals;
use crate::exit::{CliError, FailureCode, eprint_or_ignore};
use crate::output::{CommandOutput, OutputFormat};
use crate::serve;

pub(crate) fn run(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let runtime = serve::runtime()?;
    let name = fresh_name()?;
    let cleanup = Arc::new(Cleanup::default());
    let interrupt = listen(&runtime, &cleanup)?;
    let remote = match args.remote() {
        Some(remote) => remote,
        None => cleanup.start(args)?,
    };
    let mut server = ServerProbe::new(&remote, plan.door.queue(&name), &name)?;
    let info = server.info()?;
    let is_own = cleanup.is_own();
    if !is_own {
        server.check_clean_up()?;
        cleanup.remember_jobs(&remote, plan.door.queue(&name), &name);
    }
    let file_system = cleanup.file_system();
    let load = Arc::new(LoadState::new(plan, BenchTarget::new(&remote)?, name));
    let (server_before, before) = (server.usage(), ProcessUsage::own());
    let outcome = runtime.block_on(drive(&load, &interrupt));
    let client = UsageChange { before, after: ProcessUsage::own() };
    let at_server = UsageChange { before: server_before, after: server.usage() };
    let found = match server.remaining_jobs() {
        Ok(found) => found,
        // The server is gone; report the first failure of the run, if any.
        Err(error) => return Err(outcome.failure.unwrap_or(error)),
    };
    let tested = TestedServer { url: remote.server, is_own, info, file_system };
    let mut report = LoadReport::new(&load, &outcome, tested, (at_server, client), found);
    if !is_own {
        report.left = server.clean_up()?;
        report.ok &= report.left.is_empty();
        if report.left.is_empty() {
            cleanup.forget_jobs();
        }
    }
    cleanup.end();
    // If nothing was pushed, the table would be empty.
    if report.tally.pushed > 0 || args.output != OutputFormat::Table {
        print_report(&report, args.output)?;
    }
    match (report.ok, outcome.failure) {
        (true, _) => Ok(ExitCode::SUCCESS),
        // A single failure keeps its own exit code.
        (false, Some(error)) if report.faults().len() == 1 => Err(error),
        (false, _) => {
            Err(CliError::new(FailureCode::Failed, report.faults().join("\n       ")).into())
        }
    }
}

fn print_report(report: &LoadReport, format: OutputFormat) -> anyhow::Result<()> {
    let mut out = CommandOutput::new(format);
    match format {
        OutputFormat::Table => {
            report.page().trim_end().lines().try_for_each(|line| out.line(line))?;
        }
        OutputFormat::Json | OutputFormat::Jsonl => {
            out.object(&serde_json::to_value(report)?, &[])?;
        }
    }
    Ok(())
}

/// A random name that is not used on the server.
fn fresh_name() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("crore-bench-{hex}"))
}

/// Cleanup at the end of a run; reports what cannot be removed.
#[derive(Debug, Default)]
struct Cleanup(Mutex<CleanupState>);

#[derive(Debug, Default)]
struct CleanupState {
    own: Option<TemporaryServer>,
    /// Message about jobs that are left on an existing server.
    left: Option<String>,
}

impl Cleanup {
    fn lock(&self) -> std::sync::MutexGuard<'_, CleanupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a temporary server.
    fn start(&self, args: &LoadArgs) -> anyhow::Result<RemoteArgs> {
        let own = TemporaryServer::start(args.data.as_deref())?;
        eprint_or_ignore(&format!("started a temporary server at {}\n", own.url));
        let remote = args.remote_at(own.url.clone());
        self.lock().own = Some(own);
        Ok(remote)
    }

    fn is_own(&self) -> bool {
        self.lock().own.is_some()
    }

    fn file_system(&self) -> Option<String> {
        self.lock().own.as_ref().and_then(TemporaryServer::file_system)
    }

    fn remember_jobs(&self, remote: &RemoteArgs, queue: &str, kind: &str) {
        let url = &remote.server;
        self.lock().left = Some(format!(
            "jobs may be left on {url}; `crore job rm --queue {queue} --kind {kind} --server {url}` deletes them"
        ));
    }

    fn forget_jobs(&self) {
        self.lock().left = None;
    }

    /// Stops the temporary server and reports what is left on an existing one.
    fn end(&self) {
        let CleanupState { own, left } = std::mem::take(&mut *self.lock());
        drop(own);
        if let Some(left) = left {
            eprint_or_ignore(&format!("{left}\n"));
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.end();
    }
}

/// Handles signals: the first one ends the run early, the second exits immediately.
fn listen(runtime: &Runtime, cleanup: &Arc<Cleanup>) -> anyhow::Result<CancellationToken> {
    let interrupt = CancellationToken::new();
    let (cancel, cleanup) = (interrupt.clone(), Arc::clone(cleanup));
    let mut signals = runtime.block_on(async { Signals::new() })?;
    runtime.spawn(async move {
        signals.next_stop().await;
        cancel.cancel();
        eprint_or_ignore("interrupted: cleaning up; a second signal exits immediately\n");
        signals.next_stop().await;
        cleanup.end();
        std::process::exit(FailureCode::Failed as i32);
    });
    Ok(interrupt)
}
