//! Jobs from the lines of the standard input.

use std::io::{self, BufRead, StdinLock};

use serde::Serialize;
use serde_json::value::RawValue;

use super::NewJob;
use super::new::Body;

/// What each line is.
#[derive(Debug)]
pub(super) enum Line {
    /// A whole job.
    Job,
    /// The payload of such a job.
    Payload(Box<NewJob>),
}

/// The jobs in the lines of the standard input, in batches. Empty lines are passed over.
#[derive(Debug)]
pub(super) struct Lines {
    line: Line,
    input: io::Lines<StdinLock<'static>>,
    /// The number of the newest line, from 1.
    number: u64,
    /// Lines that are no JSON, and why.
    faults: Vec<(u64, String)>,
}

/// A job, and the line that it stands in.
pub(super) type Numbered = (u64, Job);

/// A job as it was written, or made from flags.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Job {
    Written(Box<RawValue>),
    Made(Box<Body>),
}

/// How many jobs go in one batch, and how many bytes: well below what a server takes.
const MOST_JOBS: usize = 500;
const MOST_BYTES: usize = 2 << 20;

impl Lines {
    pub(super) fn new(line: Line) -> Self {
        Self { line, input: io::stdin().lock().lines(), number: 0, faults: Vec::new() }
    }

    /// The lines of the newest batches that are no JSON.
    pub(super) fn take_faults(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.faults)
    }

    /// The next batch; empty at the end. A line that is no JSON is passed over, and [told](Self::take_faults).
    pub(super) fn batch(&mut self) -> anyhow::Result<Vec<Numbered>> {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < MOST_JOBS && bytes < MOST_BYTES {
            let Some(text) = self.input.next().transpose()? else { break };
            self.number += 1;
            if text.trim().is_empty() {
                continue;
            }
            let parsed: Box<RawValue> = match serde_json::from_str(&text) {
                Ok(parsed) => parsed,
                Err(error) => {
                    self.faults.push((self.number, format!("not JSON: {error}")));
                    continue;
                }
            };
            let job = match &self.line {
                Line::Job => Job::Written(parsed),
                Line::Payload(job) => Job::Made(Box::new((**job).clone().body_with(Some(parsed)))),
            };
            bytes += text.len();
            jobs.push((self.number, job));
        }
        Ok(jobs)
    }
}
