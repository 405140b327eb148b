//! Search: pages, budgets, ranges of time, and restrictions.

use std::sync::Arc;

use crore::block_on;
use crore::core::machine::{Outcome, RetryDirective};
use crore::core::{JobId, NewJob, Payload, Restriction, SearchFilter, Span, Spec, State};
use crore::search::{JobSearch, SearchBudget, SearchPage};

use crate::test_engine::{HOUR, MINUTE, SECOND, TestEngine, job, jobs, name, on_both, spec};

fn search(text: &str, n: usize) -> JobSearch {
    let filter = SearchFilter::parse("q", text).expect(text);
    JobSearch { filter, within: None, after: None, n, budget: SearchBudget::default() }
}

fn page(scene: &TestEngine, search: &JobSearch) -> SearchPage {
    block_on(scene.engine.search(search)).expect("searched")
}

/// The ids of all pages, and the sizes of the pages.
fn all(scene: &TestEngine, mut search: JobSearch) -> (Vec<JobId>, Vec<usize>) {
    let (mut ids, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let found = page(scene, &search);
        assert!(found.jobs.len() <= search.n);
        sizes.push(found.jobs.len());
        ids.extend(found.jobs.iter().map(|job| job.id));
        search.after = found.next;
        if search.after.is_none() {
            return (ids, sizes);
        }
    }
}

fn to(queue: &str, to: usize) -> NewJob {
    Spec { payload: Payload::json(&format!(r#"{{"to":{to}}}"#)), ..spec(queue) }.into()
}

fn fail(scene: &TestEngine, queue: &str, error: &str) -> JobId {
    let job = scene.fetch(queue);
    let again = RetryDirective::Never;
    scene.finish(&job, Outcome::Failed { error: error.into(), detail: None, again });
    job.id
}

#[test]
fn pages_have_each_matching_job_once_whatever_their_size() {
    on_both(|scene| {
        let pushed: Vec<JobId> = (0..1000).map(|nth| scene.push(to("q", nth % 7))).collect();
        let expected: Vec<JobId> =
            pushed.iter().enumerate().filter(|(nth, _)| nth % 7 == 3).map(|(_, id)| *id).collect();
        for n in [1, 2, 30, 200, 1000] {
            let (ids, sizes) = all(scene, search("payload.to=3", n));
            assert_eq!(ids, expected, "{n} at once: {sizes:?}");
            assert!(sizes.iter().rev().skip(1).all(|size| *size == n), "full pages: {sizes:?}");
        }
    });
}

#[test]
fn a_page_reads_no_more_than_its_budget_and_says_how_far_it_came() {
    on_both(|scene| {
        scene.push_all(jobs("q", 950));
        let last = scene.push(to("q", 1));
        let budget = SearchBudget { jobs: 300, time: HOUR };
        let mut search = JobSearch { budget, ..search("payload.to=1", 10) };
        for scanned in [300, 300, 300] {
            let found = page(scene, &search);
            assert_eq!((found.jobs.len(), found.scanned), (0, scanned));
            search.after = found.next;
            assert!(search.after.is_some());
        }
        let found = page(scene, &search);
        assert_eq!(found.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [last]);
        assert_eq!((found.scanned, found.next), (51, None));
        search.budget = SearchBudget { jobs: 1000, time: Span::ZERO };
        search.after = None;
        let found = page(scene, &search);
        assert!(found.scanned == 200 && found.next.is_some(), "time is checked after a page");
    });
}

#[test]
fn an_indexed_search_reads_only_the_jobs_that_it_returns() {
    on_both(|scene| {
        scene.push_all(jobs("q", 500));
        scene.push_all(jobs("other", 50));
        let dead = fail(scene, "other", "no");
        let found = page(scene, &search("queue:other state:ready", 20));
        assert_eq!((found.jobs.len(), found.scanned), (20, 20));
        let (ids, _) = all(scene, search("queue:other,none kind:work", 30));
        assert_eq!(ids.len(), 50);
        let found = page(scene, &search("state:dead,cancelled", 20));
        assert_eq!((found.jobs[0].id, found.scanned, found.next), (dead, 1, None));
        let text = format!("id:{},1,{},999999", dead.0, dead.0);
        let found = page(scene, &search(&text, 1));
        assert_eq!((found.jobs[0].id, found.scanned), (JobId(1), 1));
        assert_eq!(all(scene, search(&text, 1)).0, [JobId(1), dead]);
        assert_eq!(all(scene, search(&format!("{text} state:dead"), 1)).0, [dead]);
        assert_eq!(all(scene, search("state:dead state:done", 1)).0, []);
    });
}

#[test]
fn ranges_of_time_are_served_by_the_order_of_the_list() {
    on_both(|scene| {
        let mut dead = Vec::new();
        for nth in 0..10 {
            scene.push(job("q"));
            dead.push(fail(scene, "q", &format!("timeout {nth}")));
            scene.pass(MINUTE);
        }
        // Ended 10, 9, … 1 minutes ago.
        let found = page(scene, &search("state:dead ended>=-3m", 3));
        assert_eq!(
            found.jobs.iter().map(|job| job.id).collect::<Vec<_>>(),
            [dead[9], dead[8], dead[7]]
        );
        let found = page(scene, &search("ended<=-2m ended>-4m", 10));
        assert_eq!(found.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [dead[8], dead[7]]);
        assert!(found.scanned < 10 && found.next.is_none());
        let fingerprint = crore::core::Fingerprint::of("timeout 77");
        assert_eq!(all(scene, search(&format!("error={fingerprint}"), 4)).0.len(), 10);
        assert_eq!(all(scene, search("error~\"timeout 4\"", 4)).0, [dead[4]]);
        for nth in 1..=5 {
            let mut new = job("later");
            new.due = crore::core::job::DueTime::After(MINUTE.times(nth));
            scene.push(new);
        }
        let found = page(scene, &search("due>+90s due<=+3m", 10));
        assert_eq!((found.jobs.len(), found.next), (2, None));
        scene.pass(SECOND);
        assert_eq!(all(scene, search("state:scheduled age<1h due<+1m", 10)).0.len(), 1);
    });
}

#[test]
fn jobs_outside_a_restriction_are_neither_returned_nor_counted() {
    on_both(|scene| {
        for _ in 0..50 {
            scene.push_all(jobs("other", 5));
            scene.push(to("mail", 1));
        }
        let only = Restriction::new(&["mail*".to_owned()], &[]).expect("a restriction");
        let within = JobSearch { within: Some(Arc::new(only)), ..search("", 20) };
        let (ids, sizes) = all(scene, within.clone());
        assert_eq!((ids.len(), &sizes[..2]), (50, &[20, 20][..]));
        let found = page(scene, &JobSearch { n: 100, ..within });
        assert_eq!((found.jobs.len(), found.scanned), (50, 50));
        assert!(found.jobs.iter().all(|job| job.spec.queue == name("mail")));
        assert!(found.jobs.iter().all(|job| job.live.state == State::Ready));
    });
}

#[test]
fn a_search_with_a_page_out_of_range_is_refused() {
    let scene = TestEngine::memory();
    for n in [0, 1001] {
        assert!(block_on(scene.engine.search(&search("", n))).is_err());
    }
}
