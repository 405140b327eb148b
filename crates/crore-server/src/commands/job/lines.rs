//! Reads jobs from the lines of standard input.

use std::io::{self, BufRead, StdinLock};

use serde::Serialize;
use serde_json::value::RawValue;

use super::new::{JobBody, NewJobArgs};

/// Content of each line.
#[derive(Debug)]
pub(super) enum LineContent {
    /// A complete job.
    Job,
    /// The payload of a job with these flags.
    Payload(Box<NewJobArgs>),
}

/// Jobs in the lines of standard input, in batches. Empty lines are skipped.
#[derive(Debug)]
pub(super) struct JobLines {
    line: LineContent,
    input: io::Lines<StdinLock<'static>>,
    /// Number of the current line, from 1.
    number: u64,
    /// Lines that are not a job, with the reason.
    errors: Vec<(u64, String)>,
}

/// A job with its line number.
pub(super) type NumberedJob = (u64, InputJob);

/// A job as it was read, or built from flags.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum InputJob {
    Written(Box<RawValue>),
    Made(Box<JobBody>),
}

/// Maximum jobs and bytes per batch; well below the server's limits.
const MAX_BATCH_JOBS: usize = 500;
const MAX_BATCH_BYTES: usize = 2 << 20;

impl LineContent {
    /// The job in a line.
    fn job(&self, line: &str) -> Result<InputJob, String> {
        match self {
            Self::Job => match serde_json::from_str(line) {
                Ok(parsed) => Ok(InputJob::Written(parsed)),
                Err(error) => Err(format!("not JSON: {error}")),
            },
            Self::Payload(job) => {
                (**job).clone().body_of_line(line).map(|body| InputJob::Made(Box::new(body)))
            }
        }
    }
}

impl JobLines {
    pub(super) fn new(line: LineContent) -> Self {
        Self { line, input: io::stdin().lock().lines(), number: 0, errors: Vec::new() }
    }

    /// Removes and returns the lines that were not a job.
    pub(super) fn take_errors(&mut self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.errors)
    }

    /// Reads the next batch; empty at the end. Lines that are not a job are skipped and [recorded](Self::take_errors).
    pub(super) fn batch(&mut self) -> anyhow::Result<Vec<NumberedJob>> {
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        while jobs.len() < MAX_BATCH_JOBS && bytes < MAX_BATCH_BYTES {
            let Some(text) = self.input.next().transpose()? else { break };
            self.number += 1;
            if text.trim().is_empty() {
                continue;
            }
            match self.line.job(&text) {
                Ok(job) => {
                    bytes += text.len();
                    jobs.push((self.number, job));
                }
                Err(why) => self.errors.push((self.number, why)),
            }
        }
        Ok(jobs)
    }
}
