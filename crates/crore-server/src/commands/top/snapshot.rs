//! The result of one poll of the server.

use crore_core::{Clock, Span, Time};
use crore_store::SystemClock;
use crore_wire::units::Moment;
use serde_json::Value;

use super::super::client::{ApiClient, list_field, path_segment, with_query};

/// Statistics look this far back.
const PAST: Span = Span::from_secs(60 * 60);
/// Maximum number of jobs in the list.
const JOBS: usize = 200;

/// The selection that is polled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TopQuery {
    pub(super) view: View,
    /// Filter of jobs.
    pub(super) filter: String,
    /// The job whose details are shown.
    pub(super) job: Option<String>,
}

/// A page of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum View {
    #[default]
    Overview,
    Queues,
    Jobs,
    Workers,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Overview, Self::Queues, Self::Jobs, Self::Workers];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Queues => "Queues",
            Self::Jobs => "Jobs",
            Self::Workers => "Workers",
        }
    }
}

/// The server's answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Snapshot {
    /// When it was taken; `None`: there was no answer yet.
    pub(super) at: Option<Time>,
    pub(super) query: TopQuery,
    pub(super) version: String,
    pub(super) durability: String,
    pub(super) queues: Vec<ShownQueue>,
    /// Whether the server has more queues.
    pub(super) more_queues: bool,
    pub(super) minutes: Vec<MinuteRow>,
    pub(super) total: Value,
    pub(super) jobs: Vec<Value>,
    /// An error of the filter.
    pub(super) jobs_error: Option<String>,
    pub(super) workers: Vec<Value>,
    pub(super) detail: Option<Value>,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ShownQueue {
    pub(super) name: String,
    pub(super) is_paused: bool,
    pub(super) counts: Value,
    /// Statistics of the last hour.
    pub(super) stats: Value,
}

impl ShownQueue {
    pub(super) fn count(&self, state: &str) -> u64 {
        number(&self.counts, state)
    }
}

/// The jobs of one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MinuteRow {
    pub(super) at: Time,
    pub(super) pushed: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
}

/// A number in an object; 0 if there is none.
pub(super) fn number(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_default()
}

/// A text in an object; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// An instant in an object.
pub(super) fn moment(object: &Value, pointer: &str) -> Option<Time> {
    text(object, pointer).parse::<Moment>().ok().map(|moment| moment.0)
}

impl Snapshot {
    /// Number of jobs in a state, in all queues of the snapshot.
    pub(super) fn count(&self, state: &str) -> u64 {
        self.queues.iter().map(|queue| queue.count(state)).sum()
    }

    /// Slots in use, and all slots, of connected workers.
    pub(super) fn slots(&self) -> (u64, u64) {
        let streams = self.workers.iter().map(|worker| &worker["stream"]);
        streams.fold((0, 0), |(running, slots), stream| {
            (running + number(stream, "running"), slots + number(stream, "slots"))
        })
    }
}

/// Polls the server.
pub(super) fn poll(client: &mut ApiClient, query: &TopQuery) -> anyhow::Result<Snapshot> {
    let now = SystemClock.now();
    let info = client.get("/v1/info")?;
    let mut snapshot = Snapshot {
        at: Some(now),
        query: query.clone(),
        version: text(&info, "/version").to_owned(),
        durability: text(&info, "/durability").to_owned(),
        ..Snapshot::default()
    };
    match query.view {
        View::Overview | View::Queues => {
            poll_queues(client, &mut snapshot, now)?;
            poll_minutes(client, &mut snapshot, now)?;
            snapshot.workers = list_field(client.get("/v1/workers")?, "workers");
        }
        View::Workers => snapshot.workers = list_field(client.get("/v1/workers")?, "workers"),
        View::Jobs => poll_jobs(client, &mut snapshot),
    }
    if let Some(job) = &query.job {
        let path = format!("/v1/jobs/{}", path_segment(job));
        let mut detail = client.get(&path)?;
        detail["explained"] = client.get(&format!("{path}/explain")).unwrap_or_default();
        snapshot.detail = Some(detail);
    }
    Ok(snapshot)
}

fn poll_queues(client: &mut ApiClient, snapshot: &mut Snapshot, now: Time) -> anyhow::Result<()> {
    let page = client.get("/v1/queues")?;
    snapshot.more_queues = page["next"].is_string();
    let stats = client.get(&with_query("/v1/stats", &since(now, "queue")))?;
    let mut queues: Vec<ShownQueue> = list_field(page, "queues")
        .into_iter()
        .map(|mut queue| {
            let name = text(&queue, "/name").to_owned();
            let rows = stats["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
            let row = rows.iter().find(|row| row["queue"] == *name);
            ShownQueue {
                is_paused: queue["paused"] == true,
                counts: queue["counts"].take(),
                stats: row.cloned().unwrap_or_default(),
                name,
            }
        })
        .collect();
    queues.sort_by_key(|queue| {
        let waits = queue.count("ready");
        (std::cmp::Reverse(waits), std::cmp::Reverse(queue.count("running")))
    });
    snapshot.queues = queues;
    Ok(())
}

fn poll_minutes(client: &mut ApiClient, snapshot: &mut Snapshot, now: Time) -> anyhow::Result<()> {
    let mut stats = client.get(&with_query("/v1/stats", &since(now, "time")))?;
    snapshot.total = stats["total"].take();
    let rows = list_field(stats, "rows");
    snapshot.minutes = rows
        .iter()
        .map(|row| MinuteRow {
            at: moment(row, "/at").unwrap_or_default(),
            pushed: number(row, "pushed"),
            done: number(row, "done"),
            failed: number(row, "failed"),
        })
        .collect();
    Ok(())
}

fn since(now: Time, by: &str) -> [(&'static str, Option<String>); 3] {
    [
        ("by", Some(by.to_owned())),
        ("step", Some("minute".to_owned())),
        ("from", Some(Moment(now.before(PAST)).to_string())),
    ]
}

/// A wrong filter is shown beside the list; it must not end the polls.
fn poll_jobs(client: &mut ApiClient, snapshot: &mut Snapshot) {
    let filter = snapshot.query.filter.trim();
    let q = (!filter.is_empty()).then(|| filter.to_owned());
    let path = with_query("/v1/jobs", &[("q", q), ("limit", Some(JOBS.to_string()))]);
    match client.get(&path) {
        Ok(page) => snapshot.jobs = list_field(page, "jobs"),
        Err(error) => snapshot.jobs_error = Some(format!("{error:#}")),
    }
}
