//! What a run has shown: one document for programs, a page for people. The names of its fields are part of the
//! interface.

use crore_api::metrics::Process;
use crore_wire::api::info::Info;
use serde::Serialize;

use super::drive::Drove;
use super::ledger::Tally;
use super::load::Load;
use super::page::counted;
use super::plan::{End, Plan};
use super::server::Left;
use super::times::Spread;

/// What a run has shown.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) door: String,
    pub(super) settings: Settings,
    pub(super) server: Server,
    pub(super) client: Client,
    /// From the first push to the last answer to one.
    pub(super) push_seconds: f64,
    /// From the first push to the last report.
    pub(super) seconds: f64,
    pub(super) pushed_per_second: f64,
    pub(super) finished_per_second: f64,
    #[serde(flatten)]
    pub(super) tally: Tally,
    pub(super) latency_us: Latency,
    /// What the server still had when the run was over, and what has been removed since.
    pub(super) found: Left,
    /// What could not be removed.
    pub(super) left: Left,
    pub(super) interrupted: bool,
    pub(super) error: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) ok: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Settings {
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
pub(super) struct Server {
    pub(super) url: String,
    /// Whether it was started for this run.
    pub(super) own: bool,
    pub(super) version: String,
    pub(super) durability: String,
    pub(super) file_system: Option<String>,
    #[serde(flatten)]
    pub(super) cost: Cost,
}

#[derive(Debug, Serialize)]
pub(super) struct Client {
    pub(super) version: &'static str,
    #[serde(flatten)]
    pub(super) cost: Cost,
}

/// What a process has cost; nothing that is not told.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub(super) cpu_seconds: Option<f64>,
    pub(super) cpu_us_per_job: Option<f64>,
    pub(super) rss_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Latency {
    /// From the beginning of a push until it was answered.
    pub(super) push: Option<Spread>,
    /// Until a worker had the job.
    pub(super) handed: Option<Spread>,
    /// Until its report was answered.
    pub(super) finished: Option<Spread>,
}

/// What a process had cost before the run, and after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) before: Option<Process>,
    pub(super) after: Option<Process>,
}

/// Where the run was.
#[derive(Debug)]
pub(super) struct Where {
    pub(super) url: String,
    pub(super) is_own: bool,
    pub(super) info: Info,
    pub(super) file_system: Option<String>,
}

impl Report {
    pub(super) fn new(
        load: &Load,
        drove: &Drove,
        place: Where,
        (server, client): (Spent, Spent),
        found: Left,
    ) -> Self {
        let tally = tally(load, &found);
        let since = |last: u64| last.saturating_sub(drove.began) as f64 / 1e9;
        let push_seconds = since(load.pushed.last());
        let seconds = since(load.finished.last().max(load.pushed.last()));
        let a_second = |n: u64, seconds: f64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let plan = &load.plan;
        let jobs = if plan.workers == 0 { tally.pushed } else { tally.finished };
        let is_sound = tally.lost == 0 && tally.doubled == 0 && tally.strangers == 0;
        let is_whole = plan.workers == 0 || tally.is_sound();
        Self {
            door: load.door().to_string(),
            settings: Settings::of(plan),
            notes: notes(plan, &place, &tally),
            server: Server {
                url: place.url,
                own: place.is_own,
                version: place.info.version,
                durability: place.info.durability,
                file_system: place.file_system,
                cost: Cost::of(server, jobs),
            },
            client: Client { version: env!("CARGO_PKG_VERSION"), cost: Cost::of(client, jobs) },
            push_seconds: round(push_seconds),
            seconds: round(seconds),
            pushed_per_second: round(a_second(tally.pushed, push_seconds)),
            finished_per_second: round(a_second(tally.finished, seconds)),
            latency_us: Latency {
                push: drove.answered.spread(),
                handed: drove.handed.spread(),
                finished: drove.finished.spread(),
            },
            ok: is_sound && is_whole && drove.failure.is_none() && !drove.is_interrupted,
            tally,
            found,
            left: Left::new(),
            interrupted: drove.is_interrupted,
            error: drove.failure.as_ref().map(|error| format!("{error:#}")),
        }
    }

    /// What is wrong, in words.
    pub(super) fn faults(&self) -> Vec<String> {
        let Tally { lost, unfinished, doubled, strangers, .. } = self.tally;
        let mut faults = Vec::new();
        faults.extend(self.error.clone());
        if self.interrupted {
            faults.push("it was interrupted".to_owned());
        }
        // What was under way when it was cut short is not known.
        if !self.interrupted && self.error.is_none() {
            let still = |n: u64| match self.found.iter().find(|(state, _)| *state != "done") {
                Some((state, there)) if n > 0 => {
                    format!(" (the server still has {there} that are {state})")
                }
                _ => String::new(),
            };
            let lots = [
                (lost, "LOST: pushed, answered, and never given to a worker", still(lost)),
                (
                    unfinished,
                    "NOT FINISHED: given to a worker, whose report did not count",
                    String::new(),
                ),
            ];
            let lots = lots.into_iter().filter(|(n, ..)| *n > 0);
            faults.extend(lots.map(|(n, what, more)| format!("{} {what}{more}", counted(n))));
        }
        if doubled > 0 {
            let what =
                "DOUBLED: given to a second worker while the first had it, or finished twice";
            faults.push(format!("{} {what}", counted(doubled)));
        }
        if strangers > 0 {
            faults.push(format!("{} that nobody here has pushed", counted(strangers)));
        }
        if !self.left.is_empty() {
            let left: Vec<_> = self.left.iter().map(|(state, n)| format!("{n} {state}")).collect();
            faults.push(format!("jobs that could not be removed: {}", left.join(", ")));
        }
        faults
    }
}

/// What became of all jobs. Where nobody works, what was pushed has to be there.
fn tally(load: &Load, found: &Left) -> Tally {
    let tally = load.ledger.tally(load.source.given_out());
    match load.plan.workers {
        0 => Tally { lost: tally.pushed.saturating_sub(found.values().sum()), ..tally },
        _ => tally,
    }
}

fn notes(plan: &Plan, place: &Where, tally: &Tally) -> Vec<String> {
    let mut notes = Vec::new();
    if matches!(place.file_system.as_deref(), Some("tmpfs" | "ramfs")) {
        notes.push(
            "the server's directory is in memory and not on a disk; --data names another"
                .to_owned(),
        );
    }
    if !plan.door.answers_reports() && plan.workers > 0 {
        let door = plan.door;
        notes.push(format!(
            "{door} does not answer reports: a job counts as finished when it is reported, and the server was asked at the end"
        ));
    }
    if plan.rate.is_some() && tally.pushed < plan.most() {
        let (pushed, due) = (tally.pushed, plan.most());
        notes.push(format!(
            "the rate was not reached: {pushed} jobs were pushed of {due} that were due"
        ));
    }
    if tally.again > 0 {
        notes.push(format!("{} again because a lease had ended", counted(tally.again)));
    }
    notes
}

impl Settings {
    fn of(plan: &Plan) -> Self {
        let (duration_seconds, jobs) = match plan.end {
            End::After(span) => (Some(span.as_secs_f64()), None),
            End::Jobs(jobs) => (None, Some(jobs)),
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
    fn of(spent: Spent, jobs: u64) -> Self {
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
