//! Converts reports to core types.

use crore_core::limit::PauseEnd;
use crore_core::machine::{self, Outcome, RetryDirective};
use crore_core::{Code, Invalid, Name, Payload, Span, Time, push};

use super::v1::{self, exhausted, report};

impl v1::Report {
    /// Converts to the core type.
    pub fn read(self) -> Result<machine::Report, Invalid> {
        let outcome = match self.outcome {
            Some(report::Outcome::Done(done)) => Outcome::Done { result: done.read()? },
            Some(report::Outcome::Failed(failed)) => failed.read()?,
            Some(report::Outcome::SnoozeMs(span)) => Outcome::Snooze(Span::from_millis(span)),
            Some(report::Outcome::Cancelled(_)) => Outcome::Cancel,
            Some(report::Outcome::Interrupted(_)) => Outcome::Interrupted,
            Some(report::Outcome::Exhausted(exhausted)) => exhausted.read()?,
            None => return Err(Invalid::new(Code::Malformed, "outcome", "is required")),
        };
        let on_done = follow_ups("on_done", self.on_done)?;
        let on_dead = follow_ups("on_dead", self.on_dead)?;
        let cost = |(limit, cost): (String, u32)| Ok((Name::new("costs", &limit)?, cost));
        let costs = self.costs.into_iter().map(cost).collect::<Result<_, Invalid>>()?;
        Ok(machine::Report { on_done, on_dead, costs, ..outcome.into() })
    }
}

impl v1::Exhausted {
    fn read(self) -> Result<Outcome, Invalid> {
        let limit =
            Name::new("limit", &self.limit).map_err(|invalid| invalid.inside("exhausted"))?;
        let until = match self.end {
            Some(exhausted::End::AfterMs(span)) => PauseEnd::After(Span::from_millis(span)),
            Some(exhausted::End::UntilMs(at)) => PauseEnd::At(Time::from_millis(at)),
            None => return Err(Invalid::new(Code::Malformed, "exhausted.end", "is required")),
        };
        Ok(Outcome::Exhausted { limit, until })
    }
}

impl v1::Done {
    fn read(self) -> Result<Option<Payload>, Invalid> {
        payload("done", self.result, self.encoding)
    }
}

impl v1::Failed {
    fn read(self) -> Result<Outcome, Invalid> {
        let detail = payload("failed", self.detail, self.encoding)?;
        let again = match (self.never, self.after_ms) {
            (true, _) => RetryDirective::Never,
            (false, Some(after)) => RetryDirective::After(Span::from_millis(after)),
            (false, None) => RetryDirective::ByPolicy,
        };
        Ok(Outcome::Failed { error: self.error.into(), detail, again })
    }
}

fn payload(
    inside: &str,
    bytes: Option<bytes::Bytes>,
    encoding: i32,
) -> Result<Option<Payload>, Invalid> {
    let encoding = v1::Encoding::read(encoding).map_err(|invalid| invalid.inside(inside))?;
    Ok(bytes.map(|bytes| Payload::new(encoding, &*bytes)))
}

/// Converts the follow-ups of a report; errors name `field`.
pub fn follow_ups(field: &str, jobs: Vec<v1::NewJob>) -> Result<Vec<push::NewJob>, Invalid> {
    let read = |(n, job): (usize, v1::NewJob)| {
        job.read().map_err(|invalid| invalid.inside(&format!("{field}[{n}]")))
    };
    jobs.into_iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_an_outcome_is_refused() {
        assert_eq!(v1::Report::default().read().unwrap_err().field, "outcome");
    }

    #[test]
    fn an_error_names_the_full_path_of_the_field() {
        let failed = v1::Failed { encoding: 77, ..v1::Failed::default() };
        let outcome = Some(report::Outcome::Failed(failed));
        let report = v1::Report { outcome, ..v1::Report::default() };
        assert_eq!(report.read().unwrap_err().field, "failed.encoding");
        let outcome = Some(report::Outcome::Cancelled(v1::Cancelled {}));
        let on_done = vec![v1::NewJob::default()];
        let report = v1::Report { outcome, on_done, ..v1::Report::default() };
        assert_eq!(report.read().unwrap_err().field, "on_done[0].kind");
    }
}
