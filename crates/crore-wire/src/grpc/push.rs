//! A job to push, and what it means to the rules.

use crore_core::job::{ClientId, Keep, Lapse, Spec, When};
use crore_core::push::{self, AfterRef};
use crore_core::{Code, Encoding, GroupId, Invalid, JobId, Name, Payload, Span, Time};
use crore_core::{retry, unique};

use super::v1::{self, after, group_ref, new_job};
use super::{at, millis};
use crate::api::push::{DOOR, MOST_CRASHES};

impl v1::NewJob {
    /// The job that is meant, in the words of the rules.
    pub fn read(self) -> Result<push::NewJob, Invalid> {
        let kind = Name::new("kind", &self.kind)?;
        let unsaid = push::Unsaid {
            queue: self.queue.is_empty(),
            retry: self.retry.is_none(),
            timeout: self.timeout_ms.is_none(),
            keep: self.keep_result_ms.is_none(),
        };
        let queue = match self.queue.as_str() {
            "" => kind.clone(),
            queue => Name::new("queue", queue)?,
        };
        let encoding = v1::Encoding::read(self.encoding)?;
        let mut spec = Spec::new(queue, kind, payload(self.payload.as_deref(), encoding));
        spec.priority = self.priority;
        if let Some(retry) = self.retry {
            spec.retry = retry.read()?;
        }
        if let Some(lease) = self.lease_ms {
            spec.lease = Some(Span::from_millis(lease));
        }
        spec.timeout = self.timeout_ms.map(Span::from_millis);
        spec.lapse = lapse(spec.lapse, self.max_crashes, self.any_crashes)?;
        spec.keep = keep(self.keep_result_ms, self.read_once)?;
        spec.retain = v1::Retain::read(self.retain)?;
        spec.unique = self.unique.map(v1::Unique::read).transpose()?;
        if !self.client_id.is_empty() {
            let door = Name::new("door", DOOR)?;
            spec.client_id = Some(ClientId { door, id: self.client_id.into() });
        }
        spec.labels = self.labels;
        spec.trace = (!self.trace.is_empty()).then(|| self.trace.into());
        let due = match self.when {
            None => When::Now,
            Some(new_job::When::DueMs(due)) => When::At(Time::from_millis(due)),
            Some(new_job::When::DelayMs(delay)) => When::After(Span::from_millis(delay)),
        };
        let group = self.group.map(v1::GroupRef::read).transpose()?;
        let after = self.after.into_iter().enumerate().map(|(n, after)| after.read(n));
        Ok(push::NewJob { spec, due, group, after: after.collect::<Result<_, _>>()?, unsaid })
    }

    /// A job as it would be pushed.
    pub fn of(job: &push::NewJob) -> Self {
        let spec = &job.spec;
        let (keep_result_ms, read_once) = match spec.keep {
            Keep::Discard => (None, false),
            Keep::Once(span) => (Some(millis(span)), true),
            Keep::For(span) => (Some(millis(span)), false),
        };
        let (max_crashes, any_crashes) = match spec.lapse {
            Lapse::Crash { quarantine } => (quarantine, quarantine.is_none()),
            _ => (None, false),
        };
        Self {
            kind: spec.kind.to_string(),
            queue: spec.queue.to_string(),
            payload: Some(spec.payload.bytes.to_vec().into()),
            encoding: v1::Encoding::from(spec.payload.encoding).into(),
            priority: spec.priority,
            when: match job.due {
                When::At(time) => Some(new_job::When::DueMs(at(time))),
                When::After(span) => Some(new_job::When::DelayMs(millis(span))),
                _ => None,
            },
            retry: Some((&spec.retry).into()),
            lease_ms: spec.lease.map(millis),
            timeout_ms: spec.timeout.map(millis),
            max_crashes,
            any_crashes,
            keep_result_ms,
            read_once,
            retain: v1::Retain::from(spec.retain).into(),
            unique: spec.unique.as_ref().map(Into::into),
            client_id: spec.client_id.as_ref().map_or_else(String::new, |id| id.id.to_string()),
            group: job.group.map(v1::GroupRef::of),
            after: job.after.iter().map(v1::After::of).collect(),
            labels: spec.labels.clone(),
            trace: spec.trace.as_ref().map_or_else(String::new, ToString::to_string),
        }
    }
}

/// A payload; one that is left out is `null`, where there is a word for that.
fn payload(bytes: Option<&[u8]>, encoding: Encoding) -> Payload {
    let nothing: &[u8] = match encoding {
        Encoding::Json => b"null",
        Encoding::Msgpack => &[0xc0],
        Encoding::Protobuf | Encoding::Text | Encoding::Bytes => b"",
    };
    Payload::new(encoding, bytes.unwrap_or(nothing))
}

fn lapse(usual: Lapse, most: Option<u32>, any: bool) -> Result<Lapse, Invalid> {
    let wrong = |why: String| Err(Invalid::new(Code::RetryRange, "max_crashes", why));
    match (most, any) {
        (None, false) => Ok(usual),
        (None, true) => Ok(Lapse::Crash { quarantine: None }),
        (Some(_), true) => wrong("either `max_crashes` or `any_crashes`, not both".to_owned()),
        (Some(most), false) if most > MOST_CRASHES => {
            wrong(format!("`{most}` is more than {MOST_CRASHES}, which are allowed"))
        }
        (quarantine, false) => Ok(Lapse::Crash { quarantine }),
    }
}

fn keep(keep: Option<u64>, once: bool) -> Result<Keep, Invalid> {
    match keep.map(Span::from_millis) {
        Some(span) if once => Ok(Keep::Once(span)),
        Some(span) => Ok(Keep::For(span)),
        None if once => {
            let why = "a result that is read once needs a `keep_result_ms` too";
            Err(Invalid::new(Code::Malformed, "read_once", why))
        }
        None => Ok(Keep::Discard),
    }
}

impl v1::Retry {
    fn read(self) -> Result<retry::Retry, Invalid> {
        let usual = retry::Retry::default();
        let unless_none = |n: u32| (n > 0).then_some(n);
        let jitter = self.jitter.map_or(Ok(usual.jitter), |jitter| {
            u8::try_from(jitter).map_err(|_| {
                let why = format!("`{jitter}` lies outside 0 to 100");
                Invalid::new(Code::RetryRange, "retry.jitter", why)
            })
        });
        Ok(retry::Retry {
            backoff: self.shape()?,
            max_attempts: self.max_attempts.map_or(usual.max_attempts, unless_none),
            max_interval: match self.max_interval_ms {
                None => usual.max_interval,
                Some(0) => None,
                Some(most) => Some(Span::from_millis(most)),
            },
            jitter: jitter?,
        })
    }

    fn shape(&self) -> Result<retry::Backoff, Invalid> {
        let wrong = |field: &str, why: String| Err(Invalid::new(Code::RetryRange, field, why));
        let base = Span::from_millis(self.base_ms.unwrap_or(1000));
        let shape = match v1::Backoff::try_from(self.backoff) {
            Ok(v1::Backoff::Unspecified) => v1::Backoff::Exponential,
            Ok(shape) => shape,
            Err(_) => {
                let why = format!("`{}` stands for nothing", self.backoff);
                return Err(Invalid::new(Code::Malformed, "retry.backoff", why));
            }
        };
        if self.factor.is_some() && shape != v1::Backoff::Exponential {
            return wrong("retry.factor", "only exponential delays have a factor".to_owned());
        }
        Ok(match shape {
            v1::Backoff::None | v1::Backoff::Polynomial if self.base_ms.is_some() => {
                return wrong("retry.base_ms", "such delays have no base".to_owned());
            }
            v1::Backoff::None => retry::Backoff::None,
            v1::Backoff::Polynomial => retry::Backoff::Polynomial,
            v1::Backoff::Constant => retry::Backoff::Constant { every: base },
            v1::Backoff::Linear => retry::Backoff::Linear { step: base },
            v1::Backoff::Exponential | v1::Backoff::Unspecified => {
                let factor = self.factor.unwrap_or(2.0);
                if !(1.0..=1000.0).contains(&factor) {
                    return wrong("retry.factor", format!("`{factor}` lies outside 1 to 1000"));
                }
                retry::Backoff::Exponential { base, factor: (factor * 1000.0).round() as u32 }
            }
        })
    }
}

impl From<&retry::Retry> for v1::Retry {
    fn from(retry: &retry::Retry) -> Self {
        let (shape, base, factor) = match retry.backoff {
            retry::Backoff::None => (v1::Backoff::None, None, None),
            retry::Backoff::Polynomial => (v1::Backoff::Polynomial, None, None),
            retry::Backoff::Constant { every } => (v1::Backoff::Constant, Some(every), None),
            retry::Backoff::Linear { step } => (v1::Backoff::Linear, Some(step), None),
            retry::Backoff::Exponential { base, factor } => {
                (v1::Backoff::Exponential, Some(base), Some(f64::from(factor) / 1000.0))
            }
        };
        Self {
            max_attempts: Some(retry.max_attempts.unwrap_or(0)),
            backoff: shape.into(),
            base_ms: base.map(millis),
            factor,
            max_interval_ms: Some(retry.max_interval.map_or(0, millis)),
            jitter: Some(retry.jitter.into()),
        }
    }
}

impl v1::Unique {
    fn read(self) -> Result<unique::Unique, Invalid> {
        let hold = v1::Hold::read(self.hold).map_err(|invalid| invalid.inside("unique"))?;
        let window = self.window_ms.map(Span::from_millis);
        Ok(unique::Unique { key: self.key.into(), hold, window })
    }
}

impl From<&unique::Unique> for v1::Unique {
    fn from(unique: &unique::Unique) -> Self {
        Self {
            key: unique.key.to_string(),
            hold: v1::Hold::from(unique.hold).into(),
            window_ms: unique.window.map(millis),
        }
    }
}

impl v1::GroupRef {
    fn read(self) -> Result<push::GroupRef, Invalid> {
        match self.group {
            Some(group_ref::Group::Id(id)) => Ok(push::GroupRef::Id(GroupId(id))),
            Some(group_ref::Group::New(n)) => Ok(push::GroupRef::New(n as usize)),
            None => Err(Invalid::new(Code::Malformed, "group", "needs either `id` or `new`")),
        }
    }

    fn of(group: push::GroupRef) -> Self {
        let group = match group {
            push::GroupRef::Id(id) => group_ref::Group::Id(id.0),
            push::GroupRef::New(n) => group_ref::Group::New(place(n)),
        };
        Self { group: Some(group) }
    }
}

impl v1::After {
    fn read(self, nth: usize) -> Result<push::After, Invalid> {
        let inside = || format!("after[{nth}]");
        let on = match self.on {
            Some(after::On::Job(id)) => AfterRef::Job(JobId(id)),
            Some(after::On::Earlier(n)) => AfterRef::Earlier(n as usize),
            Some(after::On::Group(id)) => AfterRef::Group(push::GroupRef::Id(GroupId(id))),
            Some(after::On::NewGroup(n)) => AfterRef::Group(push::GroupRef::New(n as usize)),
            None => {
                let why = "needs one of `job`, `earlier`, `group` and `new_group`";
                return Err(Invalid::new(Code::Malformed, inside(), why));
            }
        };
        let needs = v1::Needs::read(self.needs).map_err(|invalid| invalid.inside(&inside()))?;
        Ok(push::After { on, needs })
    }

    fn of(after: &push::After) -> Self {
        let on = match after.on {
            AfterRef::Job(id) => after::On::Job(id.0),
            AfterRef::Earlier(n) => after::On::Earlier(place(n)),
            AfterRef::Group(push::GroupRef::Id(id)) => after::On::Group(id.0),
            AfterRef::Group(push::GroupRef::New(n)) => after::On::NewGroup(place(n)),
        };
        Self { on: Some(on), needs: v1::Needs::from(after.needs).into() }
    }
}

fn place(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_as_in_the_other_encodings() {
        let said = v1::NewJob { kind: "mail".into(), ..v1::NewJob::default() };
        let json = crate::api::push::NewJob { kind: "mail".into(), ..Default::default() };
        assert_eq!(said.read(), json.read(crate::Format::Json));
    }

    #[test]
    fn a_job_comes_back_as_it_was_said() {
        let said = v1::NewJob {
            kind: "mail".into(),
            queue: "post".into(),
            payload: Some(vec![1, 2, 3].into()),
            encoding: v1::Encoding::Bytes.into(),
            priority: -3,
            when: Some(new_job::When::DelayMs(7)),
            retry: Some(v1::Retry {
                max_attempts: Some(0),
                backoff: v1::Backoff::Linear.into(),
                base_ms: Some(5),
                factor: None,
                max_interval_ms: Some(0),
                jitter: Some(3),
            }),
            lease_ms: Some(2000),
            timeout_ms: Some(3000),
            max_crashes: None,
            any_crashes: true,
            keep_result_ms: Some(1),
            read_once: true,
            retain: v1::Retain::Nothing.into(),
            unique: Some(v1::Unique {
                key: "k".into(),
                hold: v1::Hold::Window.into(),
                window_ms: Some(9),
            }),
            client_id: "mine".into(),
            group: Some(v1::GroupRef { group: Some(group_ref::Group::New(1)) }),
            after: vec![v1::After {
                on: Some(after::On::Earlier(0)),
                needs: v1::Needs::End.into(),
            }],
            labels: [("a".to_owned(), "b".to_owned())].into(),
            trace: "00-1-2-3".into(),
        };
        let read = said.clone().read().unwrap();
        assert_eq!(v1::NewJob::of(&read), said);
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        let job = || v1::NewJob { kind: "mail".into(), ..v1::NewJob::default() };
        let retry = |retry| v1::NewJob { retry: Some(retry), ..job() };
        for (field, bad) in [
            ("kind", v1::NewJob::default()),
            ("encoding", v1::NewJob { encoding: 9, ..job() }),
            ("retain", v1::NewJob { retain: 9, ..job() }),
            ("read_once", v1::NewJob { read_once: true, ..job() }),
            ("max_crashes", v1::NewJob { max_crashes: Some(1001), ..job() }),
            ("max_crashes", v1::NewJob { max_crashes: Some(1), any_crashes: true, ..job() }),
            ("group", v1::NewJob { group: Some(v1::GroupRef::default()), ..job() }),
            ("after[0]", v1::NewJob { after: vec![v1::After::default()], ..job() }),
            ("retry.jitter", retry(v1::Retry { jitter: Some(256), ..v1::Retry::default() })),
            ("retry.factor", retry(v1::Retry { factor: Some(f64::NAN), ..v1::Retry::default() })),
            ("retry.backoff", retry(v1::Retry { backoff: 99, ..v1::Retry::default() })),
        ] {
            assert_eq!(bad.read().unwrap_err().field, field);
        }
    }
}
