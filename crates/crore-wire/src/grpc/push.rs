//! Converts jobs to push to and from core types.

use crore_core::job::{ClientId, DueTime, Lapse, ResultRetention, Spec, StartDeadline};
use crore_core::push::{self, NewDependencyTarget};
use crore_core::version::VersionRequirement;
use crore_core::{
    AwaitedEvent, Code, Encoding, GroupId, Invalid, JobId, Name, Payload, Span, Time,
};
use crore_core::{retry, unique};

use super::v1::{self, after, group_ref, new_job};
use super::{epoch_millis, millis};
use crate::api::push::{CLIENT_ID_DOOR, MAX_CRASHES};

impl v1::WaitFor {
    fn read(self) -> Result<AwaitedEvent, Invalid> {
        let name = Name::new("wait_for.event", &self.event)?;
        let on_timeout = v1::OnTimeout::read(self.on_timeout)?;
        if self.timeout_ms.is_none() && self.on_timeout != 0 {
            let why = "`on_timeout` needs `timeout_ms`";
            return Err(Invalid::new(Code::Malformed, "wait_for.on_timeout", why));
        }
        Ok(AwaitedEvent { name, timeout: self.timeout_ms.map(Span::from_millis), on_timeout })
    }

    /// Converts from the core type.
    pub fn of(awaited: &AwaitedEvent) -> Self {
        let on_timeout =
            awaited.timeout.map_or(0, |_| v1::OnTimeout::from(awaited.on_timeout).into());
        let timeout_ms = awaited.timeout.map(millis);
        Self { event: awaited.name.to_string(), timeout_ms, on_timeout }
    }
}

impl v1::NewJob {
    /// Converts to the core type.
    pub fn read(self) -> Result<push::NewJob, Invalid> {
        let kind = Name::new("kind", &self.kind)?;
        let unset_fields = push::UnsetFields {
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
        spec.unique = self.unique.map(v1::Unique::read).transpose()?.map(Box::new);
        if !self.client_id.is_empty() {
            let door = Name::new("door", CLIENT_ID_DOOR)?;
            spec.client_id = Some(Box::new(ClientId { door, id: self.client_id.into() }));
        }
        spec.labels = self.labels;
        spec.trace = (!self.trace.is_empty()).then(|| self.trace.into());
        spec.worker_version = match self.worker_version.as_str() {
            "" => None,
            text => Some(Box::new(VersionRequirement::parse("worker_version", text)?)),
        };
        spec.wait_for = self.wait_for.map(v1::WaitFor::read).transpose()?.map(Box::new);
        let due = match self.when {
            None => DueTime::Now,
            Some(new_job::When::DueMs(due)) => DueTime::At(Time::from_millis(due)),
            Some(new_job::When::DelayMs(delay)) => DueTime::After(Span::from_millis(delay)),
        };
        let deadline = self.start_by.map(|start_by| match start_by {
            new_job::StartBy::DeadlineMs(at) => StartDeadline::At(Time::from_millis(at)),
            new_job::StartBy::StartWithinMs(span) => StartDeadline::Within(Span::from_millis(span)),
        });
        if let Some(next) = self.on_expired {
            let next = next.read().map_err(|invalid| invalid.inside("on_expired"))?;
            spec.on_expired = Some(Box::new(next));
        }
        let group = self.group.map(v1::GroupRef::read).transpose()?;
        let after = self.after.into_iter().enumerate().map(|(n, after)| after.read(n));
        Ok(push::NewJob {
            spec,
            due,
            deadline,
            group,
            after: after.collect::<Result<_, _>>()?,
            unset: unset_fields,
        })
    }

    /// Converts from the core type.
    pub fn of(job: &push::NewJob) -> Self {
        let spec = &job.spec;
        let (keep_result_ms, read_once) = match spec.keep {
            ResultRetention::Discard => (None, false),
            ResultRetention::Once(span) => (Some(millis(span)), true),
            ResultRetention::For(span) => (Some(millis(span)), false),
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
                DueTime::At(time) => Some(new_job::When::DueMs(epoch_millis(time))),
                DueTime::After(span) => Some(new_job::When::DelayMs(millis(span))),
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
            unique: spec.unique.as_deref().map(Into::into),
            client_id: spec.client_id.as_ref().map_or_else(String::new, |id| id.id.to_string()),
            group: job.group.map(v1::GroupRef::of),
            after: job.after.iter().map(v1::After::of).collect(),
            labels: spec.labels.clone(),
            trace: spec.trace.as_ref().map_or_else(String::new, ToString::to_string),
            start_by: job.deadline.map(|deadline| match deadline {
                StartDeadline::At(time) => new_job::StartBy::DeadlineMs(epoch_millis(time)),
                StartDeadline::Within(span) => new_job::StartBy::StartWithinMs(millis(span)),
            }),
            on_expired: spec.on_expired.as_ref().map(|next| Box::new(Self::of(next))),
            wait_for: spec.wait_for.as_deref().map(v1::WaitFor::of),
            worker_version: spec
                .worker_version
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
        }
    }
}

/// The payload; if absent, `null` in encodings that have it.
fn payload(bytes: Option<&[u8]>, encoding: Encoding) -> Payload {
    let empty: &[u8] = match encoding {
        Encoding::Json => b"null",
        Encoding::Msgpack => &[0xc0],
        Encoding::Protobuf | Encoding::Text | Encoding::Bytes => b"",
    };
    Payload::new(encoding, bytes.unwrap_or(empty))
}

fn lapse(default: Lapse, max: Option<u32>, any: bool) -> Result<Lapse, Invalid> {
    let wrong = |why: String| Err(Invalid::new(Code::RetryRange, "max_crashes", why));
    match (max, any) {
        (None, false) => Ok(default),
        (None, true) => Ok(Lapse::Crash { quarantine: None }),
        (Some(_), true) => wrong("either `max_crashes` or `any_crashes`, not both".to_owned()),
        (Some(max), false) if max > MAX_CRASHES => {
            wrong(format!("`{max}` is above the maximum of {MAX_CRASHES}"))
        }
        (quarantine, false) => Ok(Lapse::Crash { quarantine }),
    }
}

fn keep(keep: Option<u64>, once: bool) -> Result<ResultRetention, Invalid> {
    match keep.map(Span::from_millis) {
        Some(span) if once => Ok(ResultRetention::Once(span)),
        Some(span) => Ok(ResultRetention::For(span)),
        None if once => {
            let why = "`read_once` needs `keep_result_ms`";
            Err(Invalid::new(Code::Malformed, "read_once", why))
        }
        None => Ok(ResultRetention::Discard),
    }
}

impl v1::Retry {
    fn read(self) -> Result<retry::Retry, Invalid> {
        let defaults = retry::Retry::default();
        let unless_none = |n: u32| (n > 0).then_some(n);
        let jitter = self.jitter.map_or(Ok(defaults.jitter), |jitter| {
            u8::try_from(jitter).map_err(|_| {
                let why = format!("`{jitter}` is not between 0 and 100");
                Invalid::new(Code::RetryRange, "retry.jitter", why)
            })
        });
        Ok(retry::Retry {
            backoff: self.read_backoff()?,
            max_attempts: self.max_attempts.map_or(defaults.max_attempts, unless_none),
            max_interval: match self.max_interval_ms {
                None => defaults.max_interval,
                Some(0) => None,
                Some(max) => Some(Span::from_millis(max)),
            },
            jitter: jitter?,
        })
    }

    fn read_backoff(&self) -> Result<retry::Backoff, Invalid> {
        let wrong = |field: &str, why: String| Err(Invalid::new(Code::RetryRange, field, why));
        let base = Span::from_millis(self.base_ms.unwrap_or(1000));
        let shape = match v1::Backoff::try_from(self.backoff) {
            Ok(v1::Backoff::Unspecified) => v1::Backoff::Exponential,
            Ok(shape) => shape,
            Err(_) => {
                let why = format!("unknown value `{}`", self.backoff);
                return Err(Invalid::new(Code::Malformed, "retry.backoff", why));
            }
        };
        if self.factor.is_some() && shape != v1::Backoff::Exponential {
            return wrong("retry.factor", "only an exponential back-off has a factor".to_owned());
        }
        Ok(match shape {
            v1::Backoff::None | v1::Backoff::Polynomial if self.base_ms.is_some() => {
                return wrong("retry.base_ms", "this back-off has no base".to_owned());
            }
            v1::Backoff::None => retry::Backoff::None,
            v1::Backoff::Polynomial => retry::Backoff::Polynomial,
            v1::Backoff::Constant => retry::Backoff::Constant { every: base },
            v1::Backoff::Linear => retry::Backoff::Linear { step: base },
            v1::Backoff::Exponential | v1::Backoff::Unspecified => {
                let factor = self.factor.unwrap_or(2.0);
                if !(1.0..=1000.0).contains(&factor) {
                    return wrong("retry.factor", format!("`{factor}` is not between 1 and 1000"));
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
            push::GroupRef::New(n) => group_ref::Group::New(index(n)),
        };
        Self { group: Some(group) }
    }
}

impl v1::After {
    fn read(self, index: usize) -> Result<push::NewDependency, Invalid> {
        let inside = || format!("after[{index}]");
        let on = match self.on {
            Some(after::On::Job(id)) => NewDependencyTarget::Job(JobId(id)),
            Some(after::On::Earlier(n)) => NewDependencyTarget::Earlier(n as usize),
            Some(after::On::Group(id)) => {
                NewDependencyTarget::Group(push::GroupRef::Id(GroupId(id)))
            }
            Some(after::On::NewGroup(n)) => {
                NewDependencyTarget::Group(push::GroupRef::New(n as usize))
            }
            None => {
                let why = "needs one of `job`, `earlier`, `group` and `new_group`";
                return Err(Invalid::new(Code::Malformed, inside(), why));
            }
        };
        let needs = v1::Needs::read(self.needs).map_err(|invalid| invalid.inside(&inside()))?;
        Ok(push::NewDependency { on, needs })
    }

    fn of(after: &push::NewDependency) -> Self {
        let on = match after.on {
            NewDependencyTarget::Job(id) => after::On::Job(id.0),
            NewDependencyTarget::Earlier(n) => after::On::Earlier(index(n)),
            NewDependencyTarget::Group(push::GroupRef::Id(id)) => after::On::Group(id.0),
            NewDependencyTarget::Group(push::GroupRef::New(n)) => after::On::NewGroup(index(n)),
        };
        Self { on: Some(on), needs: v1::Needs::from(after.needs).into() }
    }
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_fields_have_the_defaults_of_the_other_encodings() {
        let message = v1::NewJob { kind: "mail".into(), ..v1::NewJob::default() };
        let json = crate::api::push::NewJob { kind: "mail".into(), ..Default::default() };
        assert_eq!(message.read(), json.read(crate::Format::Json));
    }

    #[test]
    fn a_job_round_trips() {
        let message = v1::NewJob {
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
            start_by: Some(new_job::StartBy::StartWithinMs(8)),
            on_expired: None,
            worker_version: ">=2.3 <3".into(),
            wait_for: Some(v1::WaitFor {
                event: "paid".into(),
                timeout_ms: Some(5),
                on_timeout: v1::OnTimeout::Dead.into(),
            }),
        };
        let read = message.clone().read().unwrap();
        assert_eq!(v1::NewJob::of(&read), message);
        let start_by = Some(new_job::StartBy::DeadlineMs(9));
        let on_expired = Some(Box::new(message.clone()));
        let expiring = v1::NewJob { start_by, on_expired, ..message };
        let read = expiring.clone().read().unwrap();
        assert_eq!(v1::NewJob::of(&read), expiring);
    }

    #[test]
    fn invalid_values_are_refused_with_their_field() {
        let job = || v1::NewJob { kind: "mail".into(), ..v1::NewJob::default() };
        let retry = |retry| v1::NewJob { retry: Some(retry), ..job() };
        for (field, bad) in [
            ("kind", v1::NewJob::default()),
            ("on_expired.kind", v1::NewJob { on_expired: Some(Box::default()), ..job() }),
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
