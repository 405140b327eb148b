//! Complete content of a store.

use std::collections::BTreeMap;

use crore_core::{Job, State};
use crore_store::embedded::Embedded;
use crore_store::views::ListQuery;
use crore_store::{Error, Views};

use super::wait::wait;

/// Every job of a store, and the counts that the store reports.
#[derive(Debug)]
pub(crate) struct Dump {
    pub(crate) jobs: Vec<Job>,
    pub(crate) counts: BTreeMap<State, u64>,
}

impl Dump {
    pub(crate) fn of(store: &Embedded) -> Result<Self, Error> {
        let mut jobs = Vec::new();
        for state in State::ALL {
            let mut after = None;
            loop {
                let query = ListQuery { state, queue: None, kind: None, key: None, after, n: 1000 };
                let page = wait(store.list(query))?;
                jobs.extend(page.jobs);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        let mut counts = BTreeMap::new();
        for count in wait(store.counts(None))? {
            *counts.entry(count.state).or_default() += count.n;
        }
        Ok(Self { jobs, counts })
    }
}
