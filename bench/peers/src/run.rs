//! One run: a fresh server after a warm-up, a client in a process of its own, and their processor time. A run that lost
//! a job is a failure without a figure.

use std::path::Path;

use crate::drive::{self, ClientReport};
use crate::ledger::{JobAccount, LedgerPlan};
use crate::peer::{PeerFault, PeerSetting, QueuePeer};
use crate::server;

/// Duration of the warm-up, as a share of a run: the server creates its first files and reaches its working size. Its
/// figures are discarded, but no job may be lost.
const WARM_UP: f64 = 0.4;

/// The figures of one run.
#[derive(Debug, Clone)]
pub(crate) struct PeerRun {
    /// Jobs per second, from the first push to the last finish.
    pub(crate) rate: f64,
    /// Processor time per job, in microseconds: of the server, and of the client.
    pub(crate) server: f64,
    pub(crate) client: f64,
    pub(crate) doubled: u64,
    /// Pick-up latency of each job, in microseconds; empty under load.
    pub(crate) micros: Vec<f64>,
}

/// Runs a plan, and checks its account.
pub(crate) fn run(
    peer: &dyn QueuePeer,
    setting: &PeerSetting,
    plan: LedgerPlan,
    below: &Path,
) -> Result<PeerRun, PeerFault> {
    let name = format!("{} {}", peer.name(), setting.name);
    let failed = |fault: PeerFault| format!("{name}: {fault}");
    let server = peer.start(setting, below).map_err(failed)?;
    let drive = |plan| {
        let before = server::cpu_seconds(&server);
        let driven = drive::run(peer.driver(setting, &server, plan)?)?;
        figures(driven, server::cpu_seconds(&server) - before)
    };
    if let LedgerPlan::Load(span) = plan {
        drive(LedgerPlan::Load(span.mul_f64(WARM_UP))).map_err(failed)?;
    }
    drive(plan).map_err(|fault| failed(fault).into())
}

fn figures(driven: ClientReport, server_cpu: f64) -> Result<PeerRun, PeerFault> {
    let ClientReport { account, seconds, cpu_seconds, micros } = driven;
    if !account.is_balanced() {
        let JobAccount { given, pushed, run, finished, doubled, strange, left } = account;
        let lost = account.lost();
        return Err(format!(
            "jobs are missing: of {given} given, {pushed} pushed, {run} run, {finished} finished, {doubled} doubled, \
             {strange} strange, {left} left, {lost} lost"
        )
        .into());
    }
    let jobs = account.finished as f64;
    Ok(PeerRun {
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

    fn driven(finished: u64) -> ClientReport {
        let account =
            JobAccount { given: 1000, pushed: 1000, run: 1000, finished, ..JobAccount::default() };
        ClientReport { account, seconds: 0.5, cpu_seconds: 0.002, micros: Vec::new() }
    }

    #[test]
    fn figures_are_those_of_one_job() {
        let ran = figures(driven(1000), 0.004).expect("balanced");
        assert_eq!((ran.rate, ran.server, ran.client), (2000.0, 4.0, 2.0));
    }

    #[test]
    fn a_run_with_a_missing_job_fails_with_the_counts() {
        let fault = figures(driven(999), 0.004).expect_err("a failure").to_string();
        assert!(fault.contains("1000 run, 999 finished"), "{fault}");
    }
}
