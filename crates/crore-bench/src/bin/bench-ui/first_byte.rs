//! The time from a request until the first byte of the page: under load, and without it in stores of two sizes.

use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::UiBench;
use crate::connection::PageConnection;
use crate::load::{BackgroundLoad, SETTLE};
use crate::set_up::{SampleData, queue};
use crore_bench::interleave::short;
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::server::measurement::quantile_micros;

/// Bound of the 99th percentile, in milliseconds.
const MAX_MILLIS: f64 = 20.0;
/// A page that reads all jobs takes a hundred times as long in the large store.
const MAX_GROWTH: f64 = 2.0;
/// Pause of the viewer between two pages.
const PAUSE: Duration = Duration::from_millis(2);

/// A page, and whether the goals apply to it.
#[derive(Debug, Clone)]
pub(crate) struct BenchPage {
    pub(crate) name: &'static str,
    pub(crate) path: String,
    has_goal: bool,
}

/// All pages that show data.
pub(crate) fn pages(data: &SampleData) -> Vec<BenchPage> {
    let (job, group, error) = (data.job, &data.group, &data.error);
    let page = |name, path: String| BenchPage { name, path: format!("/ui/{path}"), has_goal: true };
    let fixed = |name, path: &str| page(name, path.to_owned());
    vec![
        fixed("overview", ""),
        fixed("overview, 24 hours", "?range=24h"),
        fixed("jobs", "jobs"),
        fixed("jobs, dead", "jobs?state=dead"),
        page("jobs of a queue", format!("jobs?q=queue:{}", queue(1))),
        fixed("jobs by label", "jobs?q=label:order=100"),
        fixed("jobs by error", "jobs?q=error~answer&state=dead"),
        // Reads up to 10,000 jobs, and says how many: it is a search, not a list.
        BenchPage {
            has_goal: false,
            ..fixed("search by a field without index", "jobs?q=payload.n=-1")
        },
        page("job", format!("jobs/{job}")),
        page("job, history", format!("jobs/{job}?tab=history")),
        page("job, related", format!("jobs/{job}?tab=related")),
        page("job, replay", format!("jobs/{job}/replay")),
        fixed("queues", "queues"),
        page("queue", format!("queues/{}", queue(1))),
        fixed("workers", "workers"),
        fixed("worker", "workers/worker-0001"),
        fixed("schedules", "schedules"),
        fixed("schedule", "schedules/schedule-1"),
        fixed("handlers", "handlers"),
        fixed("limits", "limits"),
        fixed("limit", "limits/limit-1"),
        fixed("errors", "errors"),
        page("group of errors", format!("errors/{error}")),
        page(
            "retry of a group of errors",
            format!("jobs/act?act=retry&state=dead&q=error={error}"),
        ),
        fixed("groups", "groups"),
        page("group", format!("groups/{group}")),
        fixed("bulk actions", "operations"),
        fixed("system", "system"),
    ]
}

/// Times of each page.
#[derive(Debug)]
pub(crate) struct PageTimes(Vec<Vec<Duration>>);

/// Loads all pages in turn until `is_over`, which gets the number of rounds.
fn load_pages(bench: &UiBench, pages: &[BenchPage], is_over: impl Fn(usize) -> bool) -> PageTimes {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut times = vec![Vec::new(); pages.len()];
    runtime.block_on(async {
        let mut connection = PageConnection::open(bench.server.address).await;
        for round in 0.. {
            if is_over(round) {
                return;
            }
            for (page, times) in pages.iter().zip(&mut times) {
                sleep(PAUSE).await;
                times.push(connection.get(&page.path, "").await.first_byte);
            }
        }
    });
    PageTimes(times)
}

/// Times without load.
pub(crate) fn at_rest(bench: &UiBench) -> PageTimes {
    let requests = bench.scale.requests;
    load_pages(bench, &pages(&bench.data), |round| round == requests)
}

/// Compares the pages of the large store with those of the small one.
pub(crate) fn compare(bench: &mut UiBench, small: &PageTimes) {
    let large = at_rest(bench);
    let pages = pages(&bench.data);
    let median = |times: &Vec<Duration>| quantile_micros(times, 0.5) / 1e3;
    let all = pages.iter().zip(small.0.iter().map(median).zip(large.0.iter().map(median)));
    let few = short(bench.scale.few as u64);
    let worst = all
        .clone()
        .filter(|(page, _)| page.has_goal)
        .max_by(|(_, one), (_, other)| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
    if let Some((page, (small, large))) = worst {
        bench.report.rows.push(ReportRow::compared(
            (format!("no page scans; largest growth: {}, p50", page.name), "ms"),
            &RunValues(vec![large]),
            (format!("with {few} jobs"), &RunValues(vec![small])),
            Goal::AtMost(MAX_GROWTH),
        ));
    }
    bench.report.notes.extend(all.map(|(page, (small, large))| {
        format!("{} without load: p50 {large:.2} ms; with {few} jobs {small:.2} ms", page.name)
    }));
}

/// The first byte of each page while jobs flow.
pub(crate) fn under_load(bench: &mut UiBench) {
    let pages = pages(&bench.data);
    let load =
        BackgroundLoad::start(&bench.server, bench.scale.rate, bench.scale.loaded + SETTLE * 2);
    let end = Instant::now() + bench.scale.loaded;
    let times = load_pages(bench, &pages, |_| Instant::now() >= end);
    bench.report.notes.push(load.end("pages under load"));
    for (page, times) in pages.iter().zip(&times.0) {
        let [p50, p99] = [0.5, 0.99].map(|share| quantile_micros(times, share) / 1e3);
        let name = format!("first byte of {}, p99", page.name);
        let row = ReportRow::with_bound(name, (p99, "ms"), MAX_MILLIS);
        bench.report.rows.push(if page.has_goal { row } else { row.without_goal() });
        let (n, max) = (times.len(), times.iter().max().copied().unwrap_or_default());
        bench.report.notes.push(format!(
            "{} under load: p50 {p50:.2}, p99 {p99:.2}, maximum {:.1} ms of {n} requests",
            page.name,
            max.as_secs_f64() * 1e3
        ));
    }
}
