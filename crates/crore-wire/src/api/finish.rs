//! Reports: how deliveries went.

use crore_core::machine::{self, Again, Report};
use crore_core::push;
use crore_core::{Code, Invalid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::payload::Said;
use super::push::{NewJob, Pushed};
use super::words::{Encoding, State};
use super::{DeliveryId, Id};
use crate::words::Period;
use crate::{Format, Raw};

/// How a delivery went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Well.
    Done,
    /// Badly: it is tried again as its policy says, or after `after`, or not at all (`retry: false`).
    Failed,
    /// Not yet: it is to run again after `after`, at no cost in attempts.
    Snooze,
    /// It was given up, or stopped because it was asked to.
    Cancel,
    /// It is handed back unfinished, at no cost in attempts.
    Interrupted,
}

/// Reports about deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The reports, each on its own.
    #[schema(max_items = 1000)]
    #[serde(deserialize_with = "crate::object::list")]
    pub jobs: Vec<FinishOne>,
}

/// A report about one delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishOne {
    /// The job.
    pub id: Id,
    /// The number of the hand-over.
    pub delivery: DeliveryId,
    /// How it went.
    pub outcome: Outcome,
    /// What a job that is done gave: any value, at most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    /// The same as bytes, in Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// What the bytes of `result_base64` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// What went wrong, in words; longer than 64 KiB, it is cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What went wrong, for programs; kept like a result if the job dies of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub detail: Option<Raw>,
    /// When to run it again: for `failed` and `snooze`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Period>,
    /// Whether a failed job is tried again at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// Jobs to push if this makes the job done.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub on_done: Vec<NewJob>,
    /// Jobs to push if this makes the job dead.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub on_dead: Vec<NewJob>,
}

impl FinishOne {
    /// The report that is meant, in the words of the rules.
    pub fn read(self, format: Format) -> Result<Report, Invalid> {
        self.check_fields()?;
        let said = Said { value: self.result, base64: self.result_base64, encoding: self.encoding };
        let result = said.read("result", format)?;
        let outcome = match self.outcome {
            Outcome::Done => machine::Outcome::Done { result },
            Outcome::Failed => machine::Outcome::Failed {
                error: self.error.unwrap_or_default().into(),
                detail: self.detail.map(|detail| detail.into_payload("detail")).transpose()?,
                again: match (self.retry, self.after) {
                    (Some(false), _) => Again::Never,
                    (_, Some(after)) => Again::After(after.0),
                    (_, None) => Again::ByPolicy,
                },
            },
            Outcome::Snooze => {
                let why = "how long to snooze has to be said";
                let missing = || Invalid::new(Code::Malformed, "after", why);
                machine::Outcome::Snooze(self.after.ok_or_else(missing)?.0)
            }
            Outcome::Cancel => machine::Outcome::Cancel,
            Outcome::Interrupted => machine::Outcome::Interrupted,
        };
        let on_done = follow_ups("on_done", self.on_done, format)?;
        let on_dead = follow_ups("on_dead", self.on_dead, format)?;
        Ok(Report { outcome, on_done, on_dead })
    }

    /// Refuses what would say nothing for this outcome.
    fn check_fields(&self) -> Result<(), Invalid> {
        use Outcome::{Done, Failed, Snooze};
        let rows: [(&str, bool, &[Outcome]); 6] = [
            ("result", self.result.is_some(), &[Done]),
            ("result_base64", self.result_base64.is_some(), &[Done]),
            ("error", self.error.is_some(), &[Failed]),
            ("detail", self.detail.is_some(), &[Failed]),
            ("after", self.after.is_some(), &[Failed, Snooze]),
            ("retry", self.retry.is_some(), &[Failed]),
        ];
        match rows.iter().find(|(_, said, of)| *said && !of.contains(&self.outcome)) {
            None => Ok(()),
            Some((field, ..)) => {
                let why = format!("`{field}` means nothing for this outcome");
                Err(Invalid::new(Code::Malformed, *field, why))
            }
        }
    }
}

fn follow_ups(
    field: &str,
    jobs: Vec<NewJob>,
    format: Format,
) -> Result<Vec<push::NewJob>, Invalid> {
    let read = |(n, job): (usize, NewJob)| {
        job.read(format).map_err(|invalid| invalid.inside(&format!("{field}[{n}]")))
    };
    jobs.into_iter().enumerate().map(read).collect()
}

/// What became of reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finished {
    /// One answer for each, in order.
    pub jobs: Vec<FinishedOne>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum FinishedOne {
    /// It counts.
    Finished {
        /// The job's state; without it, the job is gone.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The follow-ups, in order.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        pushed: Vec<Pushed>,
    },
    /// The delivery does not count any more: its lease has ended, or it was reported before.
    Stale,
    /// There is no such job.
    NotFound,
}
