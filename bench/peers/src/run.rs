//! One run: a fresh server that was warmed up, a client in a process of its own, and what both took. One that lost
//! a job is a failure and no figure.

use std::path::Path;

use crate::drive::{self, Driven};
use crate::ledger::{Account, Plan};
use crate::peer::{Fault, Peer, Setting};
use crate::server;

/// How long a fresh server is driven first, as a share of a run: it makes its first files then, and grows to the
/// size that it keeps. What it does counts for nothing, but that no job may be lost.
const WARM_UP: f64 = 0.4;

/// What came of one run.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    /// Jobs in a second, from the first push to the last finish.
    pub(crate) rate: f64,
    /// Processor time of a job, in microseconds: the server's, and the client's.
    pub(crate) server: f64,
    pub(crate) client: f64,
    pub(crate) doubled: u64,
    /// How long each job took to reach a worker, in microseconds; empty unless they went one at a time.
    pub(crate) micros: Vec<f64>,
}

/// Runs a plan, and holds what became of it to account.
pub(crate) fn run(
    peer: &dyn Peer,
    setting: &Setting,
    plan: Plan,
    below: &Path,
) -> Result<Ran, Fault> {
    let name = format!("{} {}", peer.name(), setting.name);
    let failed = |fault: Fault| format!("{name}: {fault}");
    let server = peer.start(setting, below).map_err(failed)?;
    let drive = |plan| {
        let before = server::cpu_seconds(&server);
        let driven = drive::run(peer.driver(setting, &server, plan)?)?;
        counted(driven, server::cpu_seconds(&server) - before)
    };
    if let Plan::Load(span) = plan {
        drive(Plan::Load(span.mul_f64(WARM_UP))).map_err(failed)?;
    }
    drive(plan).map_err(|fault| failed(fault).into())
}

fn counted(driven: Driven, server_cpu: f64) -> Result<Ran, Fault> {
    let Driven { account, seconds, cpu_seconds, micros } = driven;
    if !account.is_balanced() {
        let Account { given, pushed, run, finished, doubled, strange, left } = account;
        let lost = account.lost();
        return Err(format!(
            "jobs are missing: of {given} given, {pushed} pushed, {run} run, {finished} finished, {doubled} doubled, \
             {strange} strange, {left} left, {lost} lost"
        )
        .into());
    }
    let jobs = account.finished as f64;
    Ok(Ran {
        rate: jobs / seconds,
        server: server_cpu * 1e6 / jobs,
        client: cpu_seconds * 1e6 / jobs,
        doubled: account.doubled,
        micros,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driven(finished: u64) -> Driven {
        let account =
            Account { given: 1000, pushed: 1000, run: 1000, finished, ..Account::default() };
        Driven { account, seconds: 0.5, cpu_seconds: 0.002, micros: Vec::new() }
    }

    #[test]
    fn figures_are_those_of_one_job() {
        let ran = counted(driven(1000), 0.004).expect("balanced");
        assert_eq!((ran.rate, ran.server, ran.client), (2000.0, 4.0, 2.0));
    }

    #[test]
    fn a_run_with_a_missing_job_is_a_failure_that_says_what_is_missing() {
        let fault = counted(driven(999), 0.004).expect_err("a failure").to_string();
        assert!(fault.contains("1000 run, 999 finished"), "{fault}");
    }
}
