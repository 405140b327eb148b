//! All metrics: their names, labels, and what they mean. The guide shows this table, and a test holds both together.

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Its name, as it is queried.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub help: &'static str,
}

const fn row(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Row {
    Row { name, kind, labels, help }
}

/// All metrics.
#[rustfmt::skip]
pub const METRICS: &[Row] = &[
    row("crore_jobs", "gauge", &["queue", "state"], "Jobs that are there"),
    row("crore_oldest_job_age_seconds", "gauge", &["queue"], "For how long the job that has been ready longest could have been fetched"),
    row("crore_jobs_pushed_total", "counter", &["queue"], "Jobs that were stored: by callers, schedules and the ends of other jobs"),
    row("crore_job_wait_seconds", "histogram", &["queue"], "From when a job could have been fetched until it was"),
    row("crore_job_run_seconds", "histogram", &["queue"], "From when a job was handed out until its report, or until its lease lapsed"),
    row("crore_job_outcomes_total", "counter", &["queue", "outcome"], "What became of jobs: done, failed (and tried again), dead, cancelled"),
    row("crore_lapses_total", "counter", &["queue"], "Leases that ended without a report: their workers crashed, or were too slow"),
    row("crore_leases", "gauge", &[], "Jobs that workers hold"),
    row("crore_fetches_waiting", "gauge", &[], "Fetches that wait for a job"),
    row("crore_store_commit_seconds", "histogram", &[], "How long the commits of the embedded store took, write and sync"),
    row("crore_store_written_bytes_total", "counter", &[], "Bytes that commits of the embedded store wrote"),
    row("crore_store_disk_bytes", "gauge", &[], "Bytes that the embedded store takes up on the disk"),
    row("crore_store_faults", "gauge", &["fault"], "1 for what is wrong with the store: poisoned (it needs a restart), full, stuck (it grows until it is repaired)"),
    row("crore_http_requests_total", "counter", &["door", "method", "route", "status"], "Requests that were answered"),
    row("crore_http_request_seconds", "histogram", &["door", "route"], "How long answers took; waiting for a job or a result is part of it"),
    row("crore_grpc_calls_total", "counter", &["call", "status"], "Calls of gRPC that have ended, by their status; streams count when they end"),
    row("crore_rejected_total", "counter", &["door", "reason"], "Requests that were refused, by the code of the problem, and connections for which there was no room"),
    row("crore_connections", "gauge", &[], "Connections that are open"),
    row("crore_connections_accepted_total", "counter", &[], "Connections that were accepted"),
    row("crore_spans_total", "counter", &["outcome"], "Spans of traces that were sent, or dropped because their receiver is down or too slow"),
    row("crore_build_info", "gauge", &["version"], "1, for the version that runs"),
    row("process_cpu_seconds_total", "counter", &[], "Seconds of processor time that this process has taken; on Linux"),
    row("process_resident_memory_bytes", "gauge", &[], "Bytes of memory that this process takes up; on Linux"),
];

/// What a metric means; `name` may be without the `_total` of a counter.
pub(super) fn help(name: &str) -> &'static str {
    let is_it = |row: &&Row| row.name.strip_suffix("_total").unwrap_or(row.name) == name;
    METRICS.iter().find(is_it).map_or("", |row| row.help)
}

/// The same as a sentence, as the registry makes it of what it is given.
pub(super) fn sentence(name: &str) -> String {
    format!("{}.", help(name))
}
