//! Search by index: the first page of a list by key, the cost of a push with an indexed field, and the memory of an entry.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crore::search::{JobSearch, SearchBudget};
use crore::{Engine, block_on};
use crore_bench::report::{Goal, ReportRow, RunValues};
use crore_bench::work_dir::WorkDir;
use crore_core::{IndexKey, IndexedField, NewJob, Payload, QueueIndex, SearchFilter, Span, Spec};
use crore_store::registry::QueueSettings;

use crate::StoreBenchScale;
use crate::calls::{job, name, timed};

/// Distinct values of the indexed field.
const CUSTOMERS: u64 = 10_000;
const BATCH: u64 = 1000;
const PUSHED: usize = 500_000;

/// A job with the index key of a customer.
pub(crate) fn indexed_job(nth: u64) -> NewJob {
    let mut job = job("q", "k");
    job.spec.index = Some([IndexKey((nth % CUSTOMERS).wrapping_mul(0x9e37_79b9_7f4a_7c15))].into());
    job
}

fn customer_job(nth: u64) -> NewJob {
    let payload = format!(r#"{{"customer":{},"note":"{}"}}"#, nth % CUSTOMERS, "x".repeat(200));
    Spec::new(name("q"), name("k"), Payload::json(&payload)).into()
}

/// Makes the queue index the customer, and waits until the index is complete.
fn set_index(engine: &Engine) {
    let fields = vec![IndexedField::parse("payload.customer").unwrap()];
    let index = Arc::new(QueueIndex::new(fields).unwrap());
    let change = |settings: &mut QueueSettings| settings.index = Some(Arc::clone(&index));
    block_on(engine.queues().change(name("q"), change)).unwrap();
    loop {
        let settings = block_on(engine.queues().get(&name("q"))).unwrap();
        if settings.index.is_some_and(|index| index.is_complete()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn fill(engine: &Engine, jobs: u64) {
    for start in (0..jobs).step_by(BATCH as usize) {
        let batch: Vec<NewJob> = (start..start + BATCH).map(customer_job).collect();
        let pushed = block_on(engine.push_all(batch.into())).unwrap();
        assert_eq!(pushed.jobs.len(), BATCH as usize);
    }
}

/// The first page of a search by an indexed field, in the embedded store; the slowest of a hundred.
pub(crate) fn search_row(label: &'static str, scale: StoreBenchScale, dir: &Path) -> ReportRow {
    let work_dir = WorkDir::new(dir, "index");
    let engine = Engine::open(work_dir.fresh("store")).unwrap();
    set_index(&engine);
    fill(&engine, scale.of(10_000_000) as u64);
    let mut slowest = Duration::ZERO;
    for nth in 0..100 {
        let text = format!("queue:q payload.customer={}", nth * 97 % CUSTOMERS);
        let search = JobSearch {
            filter: SearchFilter::parse("filter", &text).unwrap(),
            within: None,
            after: None,
            n: 50,
            budget: SearchBudget { jobs: 10_000, time: Span::from_secs(1) },
        };
        let mut took = Duration::ZERO;
        let page = timed(&mut took, || block_on(engine.search(&search))).unwrap();
        assert_eq!(page.jobs.len(), 50, "a full page");
        slowest = slowest.max(took);
    }
    engine.stop().unwrap();
    ReportRow::with_bound(label, (slowest.as_secs_f64() * 1e3, "ms"), 10.0)
}

/// Pushes through the engine on the embedded store with one indexed field, compared with none.
pub(crate) fn push_row(label: &'static str, scale: StoreBenchScale, dir: &Path) -> ReportRow {
    let jobs = scale.of(PUSHED) as u64;
    let work_dir = WorkDir::new(dir, "push");
    let run = |is_indexed: bool| {
        let engine = Engine::open(work_dir.fresh("store")).unwrap();
        if is_indexed {
            set_index(&engine);
        }
        let start = Instant::now();
        fill(&engine, jobs);
        let rate = jobs as f64 / start.elapsed().as_secs_f64();
        engine.stop().unwrap();
        rate
    };
    let (mut plain, mut indexed) = (RunValues::default(), RunValues::default());
    for _ in 0..scale.runs {
        plain.0.push(run(false));
        indexed.0.push(run(true));
    }
    let baseline = ("without an index", &plain);
    ReportRow::compared((label, "jobs/s"), &indexed, baseline, Goal::AtLeast(0.97))
}
