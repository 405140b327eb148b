//! Report of a run: JSON for programs, a page for people. The field names are part of the interface.

use crore_api::metrics::ProcessUsage;
use crore_wire::api::info::Info;
use serde::Serialize;

use super::drive::RunOutcome;
use super::latency::LatencySummary;
use super::ledger::RunTally;
use super::load::LoadState;
use super::page::counted;
use super::plan::{PushEnd, RunPlan};
use super::server::StateCounts;

/// Report of a run.
#[derive(Debug, Serialize)]
pub(super) struct LoadReport {
    pub(super) door: String,
    pub(super) settings: ReportSettings,
    pub(super) server: ReportServer,
    pub(super) client: ReportClient,
    /// From the first push to the last acknowledged one.
    pub(super) push_seconds: f64,
    /// From the first push to the last report.
    pub(super) seconds: f64,
    pub(super) pushed_per_second: f64,
    pub(super) finished_per_second: f64,
    #[serde(flatten)]
    pub(super) tally: RunTally,
    pub(super) latency_us: Latency,
    /// Jobs by state that the server had at the end of the run, before the clean-up.
    pub(super) found: StateCounts,
    /// Jobs by state that could not be deleted.
    pub(super) left: StateCounts,
    pub(super) interrupted: bool,
    pub(super) error: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) ok: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ReportSettings {
    pub(super) producers: usize,
    pub(super) workers: usize,
    pub(super) slots: u32,
    pub(super) payload_bytes: usize,
    pub(super) batch: u64,
    pub(super) in_flight: usize,
    pub(super) rate: Option<f64>,
    pub(super) duration_seconds: Option<f64>,
    pub(super) jobs: Option<u64>,
    pub(super) backlog: Option<usize>,
    pub(super) discard: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct ReportServer {
    pub(super) url: String,
    /// Whether it is a temporary server.
    pub(super) own: bool,
    pub(super) version: String,
    pub(super) durability: String,
    pub(super) file_system: Option<String>,
    #[serde(flatten)]
    pub(super) cost: Cost,
}

#[derive(Debug, Serialize)]
pub(super) struct ReportClient {
    pub(super) version: &'static str,
    #[serde(flatten)]
    pub(super) cost: Cost,
}

/// Resource usage of a process; empty if unknown.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) cpu_us_per_job: Option<f64>,
    pub(super) rss_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Latency {
    /// From the start of a push to its acknowledgement.
    pub(super) push: Option<LatencySummary>,
    /// From the start of a push to the delivery of the job.
    pub(super) handed: Option<LatencySummary>,
    /// From the start of a push to the acknowledgement of the report.
    pub(super) finished: Option<LatencySummary>,
}

/// Resource usage of a process before and after the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageChange {
    pub(super) before: Option<ProcessUsage>,
    pub(super) after: Option<ProcessUsage>,
}

/// The server under test.
#[derive(Debug)]
pub(super) struct TestedServer {
    pub(super) url: String,
    pub(super) is_own: bool,
    pub(super) info: Info,
    pub(super) file_system: Option<String>,
}

impl LoadReport {
    pub(super) fn new(
        load: &LoadState,
        outcome: &RunOutcome,
        tested: TestedServer,
        (server, client): (UsageChange, UsageChange),
        found: StateCounts,
    ) -> Self {
        let tally = tally(load, &found);
        let since = |last: u64| last.saturating_sub(outcome.began) as f64 / 1e9;
        let push_seconds = since(load.pushed.last());
        let seconds = since(load.finished.last().max(load.pushed.last()));
        let a_second = |n: u64, seconds: f64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let plan = &load.plan;
        let jobs = if plan.workers == 0 { tally.pushed } else { tally.finished };
        let is_sound = tally.lost == 0 && tally.doubled == 0 && tally.strangers == 0;
        let is_whole = plan.workers == 0 || tally.is_sound();
        Self {
            door: load.door().to_string(),
            settings: ReportSettings::of(plan),
            notes: notes(plan, &tested, &tally),
            server: ReportServer {
                url: tested.url,
                own: tested.is_own,
                version: tested.info.version,
                durability: tested.info.durability,
                file_system: tested.file_system,
                cost: Cost::of(server, jobs),
            },
            client: ReportClient {
                version: env!("CARGO_PKG_VERSION"),
                cost: Cost::of(client, jobs),
            },
            push_seconds: round(push_seconds),
            seconds: round(seconds),
            pushed_per_second: round(a_second(tally.pushed, push_seconds)),
            finished_per_second: round(a_second(tally.finished, seconds)),
            latency_us: Latency {
                push: outcome.acknowledged.summary(),
                handed: outcome.delivered.summary(),
                finished: outcome.finished.summary(),
            },
            ok: is_sound && is_whole && outcome.failure.is_none() && !outcome.is_interrupted,
            tally,
            found,
            left: StateCounts::new(),
            interrupted: outcome.is_interrupted,
            error: outcome.failure.as_ref().map(|error| format!("{error:#}")),
        }
    }

    /// Descriptions of everything that went wrong.
    pub(super) fn faults(&self) -> Vec<String> {
        let RunTally { lost, unfinished, doubled, strangers, .. } = self.tally;
        let mut faults = Vec::new();
        faults.extend(self.error.clone());
        if self.interrupted {
            faults.push("the run was interrupted".to_owned());
        }
        // After an interruption or failure, the state of jobs in flight is unknown.
        if !self.interrupted && self.error.is_none() {
            let still = |n: u64| match self.found.iter().find(|(state, _)| *state != "done") {
                Some((state, there)) if n > 0 => {
                    format!(" (the server still has {there} in state {state})")
                }
                _ => String::new(),
            };
            let lots = [
                (lost, "LOST: push acknowledged, but never delivered", still(lost)),
                (
                    unfinished,
                    "NOT FINISHED: delivered, but the report was not accepted",
                    String::new(),
                ),
            ];
            let lots = lots.into_iter().filter(|(n, ..)| *n > 0);
            faults.extend(lots.map(|(n, what, more)| format!("{} {what}{more}", counted(n))));
        }
        if doubled > 0 {
            let what = "DOUBLED: delivered again while leased, or finished twice";
            faults.push(format!("{} {what}", counted(doubled)));
        }
        if strangers > 0 {
            faults.push(format!("{} delivered that this run did not push", counted(strangers)));
        }
        if !self.left.is_empty() {
            let left: Vec<_> = self.left.iter().map(|(state, n)| format!("{n} {state}")).collect();
            faults.push(format!("jobs that could not be deleted: {}", left.join(", ")));
        }
        faults
    }
}

/// The totals of a run. Without workers, every pushed job has to be on the server.
fn tally(load: &LoadState, found: &StateCounts) -> RunTally {
    let tally = load.ledger.tally(load.source.handed_out());
    match load.plan.workers {
        0 => RunTally { lost: tally.pushed.saturating_sub(found.values().sum()), ..tally },
        _ => tally,
    }
}

fn notes(plan: &RunPlan, tested: &TestedServer, tally: &RunTally) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(tested.file_system.as_deref(), Some("tmpfs" | "ramfs")) {
        notes.push(
            "the server's directory is on a memory file system; choose another with --data"
                .to_owned(),
        );
    }
    if !plan.door.acknowledges_reports() && plan.workers > 0 {
        let door = plan.door;
        notes.push(format!(
            "{door} does not acknowledge reports: a job counts as finished when it is reported; the server's counts were checked at the end"
        ));
    }
    if plan.rate.is_some() && tally.pushed < plan.max_jobs() {
        let (pushed, due) = (tally.pushed, plan.max_jobs());
        notes.push(format!("the rate was not reached: {pushed} of {due} due jobs were pushed"));
    }
    if tally.again > 0 {
        notes.push(format!("{} delivered again after the lease had ended", counted(tally.again)));
    }
    notes
}

impl ReportSettings {
    fn of(plan: &RunPlan) -> Self {
        let (duration_seconds, jobs) = match plan.end {
            PushEnd::After(span) => (Some(span.as_secs_f64()), None),
            PushEnd::Jobs(jobs) => (None, Some(jobs)),
        };
        Self {
            producers: plan.producers,
            workers: plan.workers,
            slots: plan.slots,
            payload_bytes: plan.payload,
            batch: plan.batch,
            in_flight: plan.in_flight,
            rate: plan.rate,
            duration_seconds,
            jobs,
            backlog: plan.backlog,
            discard: plan.discard,
        }
    }
}

impl Cost {
    fn of(spent: UsageChange, jobs: u64) -> Self {
        let cpu = spent
            .before
            .zip(spent.after)
            .map(|(before, after)| after.cpu_seconds - before.cpu_seconds);
        Self {
            cpu_seconds: cpu.map(round),
            cpu_us_per_job: cpu.filter(|_| jobs > 0).map(|cpu| round(cpu * 1e6 / jobs as f64)),
            rss_bytes: spent.after.map(|after| after.resident_bytes),
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
