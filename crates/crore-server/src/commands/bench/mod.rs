//! `crore bench`: puts load on a server by any of its doors, and accounts for every job.
//!
//! ```text
//! plan      what can be said, and what it comes to
//! own       a server of its own, if none is named
//! drive     a run: everybody connects, pushes and works, until every job is accounted for
//!   doors/  how one pushes and works, a file for each door
//!   line    connections; load: what all share; source: what is pushed next, and when
//!   ledger  every job; times: how long everything took; payload: what a job carries
//! server    what it is, has cost, and still has; and tidying up
//! report    what came of it; page: the same for people
//! ```

mod doors;
mod drive;
mod ledger;
mod line;
mod load;
mod own;
mod page;
mod payload;
mod plan;
mod progress;
mod report;
mod server;
mod source;
mod times;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crore_api::metrics::Process;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::drive::drive;
use self::line::Line;
use self::load::Load;
use self::own::Own;
pub(crate) use self::plan::Args;
use self::report::{Report, Spent, Where};
use self::server::Server;
use crate::cli::Remote;
use crate::drain::Signals;
use crate::exit::{Failure, Why, eprint_or_ignore};
use crate::out::{Format, Out};
use crate::serve;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let runtime = serve::runtime()?;
    let name = fresh_name()?;
    let place = Arc::new(Place::default());
    let interrupt = listen(&runtime, &place)?;
    let remote = match args.remote() {
        Some(remote) => remote,
        None => place.start(args)?,
    };
    let mut server = Server::new(&remote, plan.door.queue(&name), &name)?;
    let info = server.info()?;
    let is_own = place.is_own();
    if !is_own {
        server.may_tidy()?;
        place.leaves(&remote, plan.door.queue(&name), &name);
    }
    let file_system = place.file_system();
    let load = Arc::new(Load::new(plan, Line::new(&remote)?, name));
    let (server_before, before) = (server.usage(), Process::own());
    let drove = runtime.block_on(drive(&load, &interrupt));
    let client = Spent { before, after: Process::own() };
    let at_server = Spent { before: server_before, after: server.usage() };
    let found = match server.left() {
        Ok(found) => found,
        // It is gone, as somebody has noticed before.
        Err(error) => return Err(drove.failure.unwrap_or(error)),
    };
    let place_of = Where { url: remote.server, is_own, info, file_system };
    let mut report = Report::new(&load, &drove, place_of, (at_server, client), found);
    if !is_own {
        report.left = server.tidy()?;
        report.ok &= report.left.is_empty();
        if report.left.is_empty() {
            place.leaves_nothing();
        }
    }
    place.end();
    // Where nothing could be pushed there is nothing to show.
    if report.tally.pushed > 0 || args.output != Format::Table {
        tell(&report, args.output)?;
    }
    match (report.ok, drove.failure) {
        (true, _) => Ok(ExitCode::SUCCESS),
        // What went wrong has a code of its own.
        (false, Some(error)) if report.faults().len() == 1 => Err(error),
        (false, _) => Err(Failure::new(Why::Failed, report.faults().join("\n       ")).into()),
    }
}

fn tell(report: &Report, format: Format) -> anyhow::Result<()> {
    let mut out = Out::new(format);
    match format {
        Format::Table => report.page().trim_end().lines().try_for_each(|line| out.line(line))?,
        Format::Json | Format::Jsonl => out.one(&serde_json::to_value(report)?, &[])?,
    }
    Ok(())
}

/// A name that nothing on any server has.
fn fresh_name() -> anyhow::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes)?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("crore-bench-{hex}"))
}

/// What has to be removed at the end, or told of if it cannot be.
#[derive(Debug, Default)]
struct Place(Mutex<Leaves>);

#[derive(Debug, Default)]
struct Leaves {
    own: Option<Own>,
    /// What is left on somebody else's server, in words.
    left: Option<String>,
}

impl Place {
    fn lock(&self) -> std::sync::MutexGuard<'_, Leaves> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a server of its own.
    fn start(&self, args: &Args) -> anyhow::Result<Remote> {
        let own = Own::start(args.data.as_deref())?;
        eprint_or_ignore(&format!("started a server of its own at {}\n", own.url));
        let remote = args.remote_at(own.url.clone());
        self.lock().own = Some(own);
        Ok(remote)
    }

    fn is_own(&self) -> bool {
        self.lock().own.is_some()
    }

    fn file_system(&self) -> Option<String> {
        self.lock().own.as_ref().and_then(Own::file_system)
    }

    fn leaves(&self, remote: &Remote, queue: &str, kind: &str) {
        let url = &remote.server;
        self.lock().left = Some(format!(
            "jobs may be left on {url}; `crore job rm --queue {queue} --kind {kind} --server {url}` removes them"
        ));
    }

    fn leaves_nothing(&self) {
        self.lock().left = None;
    }

    /// Ends a server of its own, and says what is left on another's.
    fn end(&self) {
        let Leaves { own, left } = std::mem::take(&mut *self.lock());
        drop(own);
        if let Some(left) = left {
            eprint_or_ignore(&format!("{left}\n"));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end();
    }
}

/// Listens to signals: the first one ends the run before its time, the second ends everything at once.
fn listen(runtime: &Runtime, place: &Arc<Place>) -> anyhow::Result<CancellationToken> {
    let interrupt = CancellationToken::new();
    let (told, place) = (interrupt.clone(), Arc::clone(place));
    let mut signals = runtime.block_on(async { Signals::new() })?;
    runtime.spawn(async move {
        signals.next().await;
        told.cancel();
        eprint_or_ignore("interrupted: tidying up; a second time leaves at once\n");
        signals.next().await;
        place.end();
        std::process::exit(Why::Failed as i32);
    });
    Ok(interrupt)
}
