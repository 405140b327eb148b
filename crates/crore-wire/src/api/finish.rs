//! Reports: the outcomes of deliveries.

use std::collections::BTreeMap;

use crore_core::limit::PauseEnd;
use crore_core::machine::{self, Report, RetryDirective};
use crore_core::push;
use crore_core::{Code, Invalid, Name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::enums::{Encoding, State};
use super::payload::WirePayload;
use super::push::{NewJob, Pushed};
use super::{DeliveryId, Id};
use crate::units::{Moment, Period};
use crate::{Format, Raw};

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Success.
    Done,
    /// Failure: retried by the job's policy, after `after`, or not at all (`retry: false`).
    Failed,
    /// Run again after `after`, without using an attempt.
    Snooze,
    /// The worker cancelled the job, or stopped it on request.
    Cancel,
    /// The worker returns the job unfinished, without using an attempt.
    Interrupted,
    /// The job's key under the limit `limit` is exhausted until `until`, or for `after`, at most 31 days: no job under
    /// this key starts before. The job returns to its place without using an attempt. If the job does not count
    /// against the limit, only the job waits.
    Exhausted,
}

/// Reports about deliveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The reports; each is applied separately.
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
    /// The delivery.
    pub delivery: DeliveryId,
    /// The outcome.
    pub outcome: Outcome,
    /// Result of a successful run: any value, at most 1 MiB by default (`caps.result`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub result: Option<Raw>,
    /// Result as Base64-encoded bytes, instead of `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Encoding of the bytes in `result_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Error message; truncated at 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Machine-readable error detail; stored like a result if the job becomes dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Raw, required = false)]
    pub detail: Option<Raw>,
    /// Delay before the next run, for `failed` and `snooze`; length of the pause, for `exhausted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Period>,
    /// The exhausted limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// End of the pause of an exhausted key, instead of `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// The real cost of the run, by limit. The difference from what the limits were charged at the start is given back,
    /// or charged as a debt of at most one burst.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, u32>,
    /// `false`: do not retry a failed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
    /// Jobs to push if the job becomes done.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub on_done: Vec<NewJob>,
    /// Jobs to push if the job becomes dead.
    #[serde(
        default,
        deserialize_with = "crate::object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub on_dead: Vec<NewJob>,
}

impl FinishOne {
    /// Converts to the core type.
    pub fn read(self, format: Format) -> Result<Report, Invalid> {
        self.check_fields()?;
        let fields =
            WirePayload { value: self.result, base64: self.result_base64, encoding: self.encoding };
        let result = fields.read("result", format)?;
        let outcome = match self.outcome {
            Outcome::Done => machine::Outcome::Done { result },
            Outcome::Failed => machine::Outcome::Failed {
                error: self.error.unwrap_or_default().into(),
                detail: self.detail.map(|detail| detail.into_payload("detail")).transpose()?,
                again: match (self.retry, self.after) {
                    (Some(false), _) => RetryDirective::Never,
                    (_, Some(after)) => RetryDirective::After(after.0),
                    (_, None) => RetryDirective::ByPolicy,
                },
            },
            Outcome::Snooze => {
                let why = "required for the outcome `snooze`";
                let missing = || Invalid::new(Code::Malformed, "after", why);
                machine::Outcome::Snooze(self.after.ok_or_else(missing)?.0)
            }
            Outcome::Exhausted => exhausted(self.limit, self.until, self.after)?,
            Outcome::Cancel => machine::Outcome::Cancel,
            Outcome::Interrupted => machine::Outcome::Interrupted,
        };
        let on_done = follow_ups("on_done", self.on_done, format)?;
        let on_dead = follow_ups("on_dead", self.on_dead, format)?;
        let cost = |(limit, cost): (String, u32)| Ok((Name::new("costs", &limit)?, cost));
        let costs = self.costs.into_iter().map(cost).collect::<Result<_, Invalid>>()?;
        Ok(Report { on_done, on_dead, costs, ..outcome.into() })
    }

    /// Refuses fields that do not apply to the outcome.
    fn check_fields(&self) -> Result<(), Invalid> {
        use Outcome::{Done, Exhausted, Failed, Snooze};
        let rows: [(&str, bool, &[Outcome]); 8] = [
            ("result", self.result.is_some(), &[Done]),
            ("result_base64", self.result_base64.is_some(), &[Done]),
            ("error", self.error.is_some(), &[Failed]),
            ("detail", self.detail.is_some(), &[Failed]),
            ("after", self.after.is_some(), &[Failed, Snooze, Exhausted]),
            ("limit", self.limit.is_some(), &[Exhausted]),
            ("until", self.until.is_some(), &[Exhausted]),
            ("retry", self.retry.is_some(), &[Failed]),
        ];
        match rows.iter().find(|(_, is_set, outcomes)| *is_set && !outcomes.contains(&self.outcome))
        {
            None => Ok(()),
            Some((field, ..)) => {
                let why = format!("`{field}` does not apply to this outcome");
                Err(Invalid::new(Code::Malformed, *field, why))
            }
        }
    }
}

fn exhausted(
    limit: Option<String>,
    until: Option<Moment>,
    after: Option<Period>,
) -> Result<machine::Outcome, Invalid> {
    let required = |field: &str, what: &str| {
        Invalid::new(Code::Malformed, field, format!("{what} required for the outcome `exhausted`"))
    };
    let limit = Name::new("limit", &limit.ok_or_else(|| required("limit", "is"))?)?;
    let until = match (until, after) {
        (Some(until), None) => PauseEnd::At(until.0),
        (None, Some(after)) => PauseEnd::After(after.0),
        _ => return Err(required("until", "either `until` or `after` is")),
    };
    Ok(machine::Outcome::Exhausted { limit, until })
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

/// Results of reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finished {
    /// One result per report, in order.
    pub jobs: Vec<FinishedOne>,
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum FinishedOne {
    /// The report was applied.
    Finished {
        /// The new state; absent if the job was removed.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// The pushed follow-ups, in order.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        pushed: Vec<Pushed>,
    },
    /// The delivery no longer holds the lease: the lease expired, or the delivery was reported before.
    Stale,
    /// The job does not exist.
    NotFound,
}
