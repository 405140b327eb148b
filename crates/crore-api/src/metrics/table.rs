//! Table of all metrics with their labels and help texts. The guide contains this table; a test compares them.

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricRow {
    /// Name, as used in queries.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Label names.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

const fn row(
    name: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricRow {
    MetricRow { name, kind, labels, help }
}

/// All metrics.
#[rustfmt::skip]
pub const METRICS: &[MetricRow] = &[
    row("crore_jobs", "gauge", &["queue", "state"], "Number of jobs"),
    row("crore_oldest_job_age_seconds", "gauge", &["queue"], "Time since the oldest ready job became available"),
    row("crore_unrunnable_jobs", "gauge", &["queue"], "Ready jobs that require a version of their kind that no connected worker runs"),
    row("crore_jobs_pushed_total", "counter", &["queue"], "Jobs pushed by callers, by schedules and as follow-ups of other jobs"),
    row("crore_job_wait_seconds", "histogram", &["queue"], "Time from when a job became available until it was fetched"),
    row("crore_key_wait_seconds", "gauge", &["queue", "key", "quantile"], "Recent waits of the twenty keys of a shared queue with most deliveries: median (0.5) and 99th percentile (0.99)"),
    row("crore_job_run_seconds", "histogram", &["queue"], "Time from the delivery of a job until its report or the end of its lease"),
    row("crore_job_outcomes_total", "counter", &["queue", "outcome"], "Outcomes of jobs: done, failed (and retried), dead, cancelled"),
    row("crore_lapses_total", "counter", &["queue"], "Leases that expired without a report: the worker crashed or was too slow"),
    row("crore_leases", "gauge", &[], "Jobs leased to workers"),
    row("crore_fetches_waiting", "gauge", &[], "Fetches waiting for a job"),
    row("crore_store_commit_seconds", "histogram", &[], "Duration of commits of the embedded store, write and sync"),
    row("crore_store_written_bytes_total", "counter", &[], "Bytes written by commits of the embedded store"),
    row("crore_store_disk_bytes", "gauge", &[], "Disk usage of the embedded store in bytes"),
    row("crore_store_faults", "gauge", &["fault"], "1 if the store has this fault: poisoned (needs a restart), full, stuck (a damaged segment cannot be compacted; disk usage grows until the store is repaired)"),
    row("crore_http_requests_total", "counter", &["door", "method", "route", "status"], "Completed HTTP requests"),
    row("crore_http_request_seconds", "histogram", &["door", "route"], "Duration of HTTP requests, including the wait for a job or a result"),
    row("crore_grpc_calls_total", "counter", &["call", "status"], "Completed gRPC calls by status; streams count when they end"),
    row("crore_rejected_total", "counter", &["door", "reason"], "Rejected requests by error code, and connections rejected for lack of capacity"),
    row("crore_connections", "gauge", &[], "Open connections"),
    row("crore_connections_accepted_total", "counter", &[], "Accepted connections"),
    row("crore_spans_total", "counter", &["outcome"], "Trace spans sent, or dropped because the collector is down or too slow"),
    row("crore_build_info", "gauge", &["version"], "1, labelled with the running version"),
    row("process_cpu_seconds_total", "counter", &[], "CPU time of this process in seconds; Linux only"),
    row("process_resident_memory_bytes", "gauge", &[], "Resident memory of this process in bytes; Linux only"),
];

/// Help text of a metric; `name` may omit the `_total` of a counter.
pub(super) fn help(name: &str) -> &'static str {
    let is_it = |row: &&MetricRow| row.name.strip_suffix("_total").unwrap_or(row.name) == name;
    METRICS.iter().find(is_it).map_or("", |row| row.help)
}

/// Help text with a full stop, as the registry formats it.
pub(super) fn sentence(name: &str) -> String {
    format!("{}.", help(name))
}
