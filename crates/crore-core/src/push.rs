//! Pushes: batches of new jobs and groups, which may refer to each other, and their validation.

use serde::{Deserialize, Serialize};

use crate::caps::Caps;
use crate::code::{Code, Invalid, excerpt};
use crate::id::{GroupId, JobId, OwnerId};
use crate::job::{DependencyCondition, DueTime, ResultRetention, Spec, StartDeadline};
use crate::time::{Span, Time};
use crate::unique::UniqueHold;

/// Prefix of the labels and unique keys that are reserved for crore.
pub const RESERVED_PREFIX: &str = "crore.";

/// A job that is not stored yet.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub struct NewJob {
    /// The definition.
    pub spec: Spec,
    /// When the job is due.
    pub due: DueTime,
    /// The deadline for its first start; `None`: it may start at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<StartDeadline>,
    /// The group to join.
    pub group: Option<GroupRef>,
    /// Dependencies.
    pub after: Vec<NewDependency>,
    /// Fields that the caller left unset; the handler of the kind supplies them.
    #[serde(default, rename = "unsaid", skip_serializing_if = "UnsetFields::is_empty")]
    pub unset: UnsetFields,
}

/// Fields that the caller left unset. The handler of the kind supplies them; without a handler the value
/// in the spec applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each flag stands for one unset field")]
pub struct UnsetFields {
    /// The queue.
    pub queue: bool,
    /// The retry policy.
    pub retry: bool,
    /// The timeout.
    pub timeout: bool,
    /// The retention of the result.
    pub keep: bool,
}

impl UnsetFields {
    /// All fields.
    pub const ALL: Self = Self { queue: true, retry: true, timeout: true, keep: true };

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Reference to a group, stored or in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRef {
    /// A stored group.
    Id(GroupId),
    /// The n-th new group of this batch, from 0.
    New(usize),
}

/// A dependency of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewDependency {
    /// The job or group to wait for.
    pub on: NewDependencyTarget,
    /// The condition.
    pub needs: DependencyCondition,
}

/// Reference to a job or group to wait for, stored or in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewDependencyTarget {
    /// A stored job.
    Job(JobId),
    /// An earlier job of this batch, by index from 0. Only earlier ones, so a batch cannot contain a cycle.
    Earlier(usize),
    /// A group.
    Group(GroupRef),
}

/// A group that is not stored yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct NewGroup {
    /// Whether the group stays open for members of later batches; it is then sealed by a separate call.
    pub open: bool,
    /// The token that creates the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<OwnerId>,
}

/// The jobs and groups of one push, stored atomically.
#[derive(Debug, Clone, PartialEq, Default, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// New groups.
    pub groups: Vec<NewGroup>,
    /// New jobs, in id order.
    pub jobs: Vec<NewJob>,
}

impl From<NewJob> for Batch {
    fn from(job: NewJob) -> Self {
        Self { groups: Vec::new(), jobs: vec![job] }
    }
}

impl From<Vec<NewJob>> for Batch {
    fn from(jobs: Vec<NewJob>) -> Self {
        Self { groups: Vec::new(), jobs }
    }
}

impl From<Spec> for NewJob {
    fn from(spec: Spec) -> Self {
        Self {
            spec,
            due: DueTime::Now,
            deadline: None,
            group: None,
            after: Vec::new(),
            unset: UnsetFields::default(),
        }
    }
}

impl Batch {
    /// Validates the batch as a whole: its size, that references point backwards, and that no job waits for
    /// its own group. Each job is validated separately with [`NewJob::check`], so that errors can be
    /// reported per job.
    pub fn check(&self, caps: &Caps) -> Result<(), Invalid> {
        let too_large = |what: String| Invalid::new(Code::BatchTooLarge, "jobs", what);
        if self.jobs.len() > caps.batch_jobs || self.groups.len() > caps.batch_jobs {
            let count = self.jobs.len().max(self.groups.len());
            return Err(too_large(format!(
                "{count} in one batch, at most {} are allowed",
                caps.batch_jobs
            )));
        }
        let bytes: usize = self.jobs.iter().map(NewJob::payload_bytes).sum();
        if bytes > caps.batch_bytes {
            return Err(too_large(format!(
                "{bytes} payload bytes in one batch, at most {} are allowed",
                caps.batch_bytes
            )));
        }
        self.jobs.iter().enumerate().try_for_each(|(index, job)| {
            let checked = self.check_references(index, job);
            checked.map_err(|invalid| invalid.inside(&format!("jobs[{index}]")))
        })
    }

    fn check_references(&self, index: usize, job: &NewJob) -> Result<(), Invalid> {
        let bad_reference = |field: &str, n: usize| {
            let message = format!("`{n}` is not an earlier job or group of this batch");
            Err(Invalid::new(Code::BatchReference, field, message))
        };
        if let Some(GroupRef::New(n)) = job.group
            && n >= self.groups.len()
        {
            return bad_reference("group", n);
        }
        for after in &job.after {
            match after.on {
                NewDependencyTarget::Earlier(n) if n >= index => return bad_reference("after", n),
                NewDependencyTarget::Group(GroupRef::New(n)) if n >= self.groups.len() => {
                    return bad_reference("after", n);
                }
                // Otherwise the group and its member would wait for each other forever.
                NewDependencyTarget::Group(group) if job.group == Some(group) => {
                    let message = "a job cannot wait for the group that it belongs to";
                    return Err(Invalid::new(Code::BatchReference, "after", message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl NewJob {
    /// Validates a job from a caller: [`NewJob::check`], and that no label or unique key has the reserved
    /// prefix.
    pub fn check_from_caller(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        self.check(caps, now)?;
        self.check_reserved()?;
        match &self.spec.on_expired {
            Some(next) => next.check_reserved().map_err(|invalid| invalid.inside("on-expired")),
            None => Ok(()),
        }
    }

    fn check_reserved(&self) -> Result<(), Invalid> {
        if let Some(name) = self.spec.labels.keys().find(|name| name.starts_with(RESERVED_PREFIX)) {
            let message =
                format!("label `{}`: the prefix `{RESERVED_PREFIX}` is reserved", excerpt(name));
            return Err(Invalid::new(Code::LabelRange, "labels", message));
        }
        if self.spec.unique.as_ref().is_some_and(|unique| unique.key.starts_with(RESERVED_PREFIX)) {
            let message = format!("the prefix `{RESERVED_PREFIX}` is reserved");
            return Err(Invalid::new(Code::KeyReserved, "unique.key", message));
        }
        Ok(())
    }

    /// Validates every field against the caps. `now` is used for the maximum delay only.
    pub fn check(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        self.check_times(caps, now)?;
        self.check_deadline(caps, now)?;
        self.check_keys(caps)?;
        if self.after.len() > caps.dependencies {
            let message = format!(
                "{} dependencies, at most {} are allowed",
                self.after.len(),
                caps.dependencies
            );
            return Err(Invalid::new(Code::TooManyDependencies, "after", message));
        }
        if let Some(awaited) = &self.spec.wait_for {
            awaited.check(caps)?;
        }
        self.spec.retry.check("retry")?;
        self.spec.payload.check("payload", caps.payload_bytes, caps.depth)
    }

    fn check_times(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        let ahead = self.due.resolve(now, now).since(now);
        within(Code::TimeRange, "due", ahead, Span::ZERO, caps.max_ahead)?;
        if let Some(lease) = self.spec.lease {
            within(Code::LeaseRange, "lease", lease, caps.min_lease, caps.max_lease)?;
        }
        if let Some(timeout) = self.spec.timeout {
            let shortest = Span::from_millis(1);
            within(Code::TimeoutRange, "timeout", timeout, shortest, caps.max_timeout)?;
        }
        match self.spec.keep {
            ResultRetention::Discard => Ok(()),
            ResultRetention::Once(span) | ResultRetention::For(span) => {
                within(Code::TimeRange, "keep", span, Span::from_millis(1), caps.max_retention)
            }
        }
    }

    /// Validates the deadline and its follow-up. A job that is due later must be due before its deadline; otherwise it
    /// could never start.
    fn check_deadline(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        let Some(deadline) = self.deadline else {
            let message = "a follow-up for a missed deadline needs a deadline";
            let needs_deadline = || Invalid::new(Code::Malformed, "on-expired", message);
            return self.spec.on_expired.as_ref().map_or(Ok(()), |_| Err(needs_deadline()));
        };
        let (field, ahead, least) = match deadline {
            StartDeadline::Within(span) => ("start-within", span, Span::from_millis(1)),
            StartDeadline::At(time) => ("deadline", time.since(now), Span::ZERO),
        };
        within(Code::TimeRange, field, ahead, least, caps.max_ahead)?;
        let due = self.due.resolve(now, now);
        if due > now && deadline.resolve(now) <= due {
            let message = "the job is not due before its deadline, so it could never start";
            return Err(Invalid::new(Code::TimeRange, field, message));
        }
        match &self.spec.on_expired {
            Some(next) => {
                next.check_on_expired(caps, now).map_err(|invalid| invalid.inside("on-expired"))
            }
            None => Ok(()),
        }
    }

    /// Validates the follow-up for a missed deadline, which is pushed alone.
    fn check_on_expired(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        if self.spec.on_expired.is_some() {
            let message = "a follow-up for a missed deadline cannot have one itself";
            return Err(Invalid::new(Code::Malformed, "on-expired", message));
        }
        Batch::default().check_references(0, self)?;
        self.check(caps, now)
    }

    /// Bytes of the payload and of the payload of the follow-up for a missed deadline.
    fn payload_bytes(&self) -> usize {
        let follow_up = self.spec.on_expired.as_ref();
        let of_follow_up = follow_up.map_or(0, |next| next.spec.payload.bytes.len());
        self.spec.payload.bytes.len() + of_follow_up
    }

    fn check_keys(&self, caps: &Caps) -> Result<(), Invalid> {
        if let Some(unique) = &self.spec.unique {
            check_key("unique.key", &unique.key, caps.key_bytes)?;
            match unique.window {
                Some(window) => within(
                    Code::TimeRange,
                    "unique.window",
                    window,
                    Span::from_millis(1),
                    caps.max_retention,
                )?,
                None if unique.hold == UniqueHold::Window => {
                    let message = "a key with hold `window` needs a window";
                    return Err(Invalid::new(Code::TimeRange, "unique.window", message));
                }
                None => {}
            }
        }
        if let Some(client) = &self.spec.client_id {
            check_key("client-id", &client.id, caps.key_bytes)?;
        }
        if let Some(trace) = &self.spec.trace {
            check_key("trace", trace, caps.trace_bytes)?;
        }
        let labels = &self.spec.labels;
        // Labels added by crore do not count.
        let n = labels.keys().filter(|name| !name.starts_with(RESERVED_PREFIX)).count();
        if n > caps.labels {
            let message = format!("{n} labels, at most {} are allowed", caps.labels);
            return Err(Invalid::new(Code::LabelRange, "labels", message));
        }
        for (name, value) in labels {
            let fault = if name.len().max(value.len()) > caps.label_bytes {
                format!("is longer than {} bytes", caps.label_bytes)
            } else if name.chars().chain(value.chars()).any(char::is_control) {
                "contains a control character".to_owned()
            } else {
                continue;
            };
            let message = format!("label `{}` {fault}", excerpt(name));
            return Err(Invalid::new(Code::LabelRange, "labels", message));
        }
        Ok(())
    }
}

fn check_key(field: &str, key: &str, max_bytes: usize) -> Result<(), Invalid> {
    if key.is_empty() {
        return Err(Invalid::new(Code::KeyEmpty, field, "a key must not be empty"));
    }
    if key.len() > max_bytes {
        let message = format!("{} bytes, at most {max_bytes} are allowed", key.len());
        return Err(Invalid::new(Code::KeyTooLong, field, message));
    }
    if key.chars().any(char::is_control) {
        let message = format!("key `{}` contains a control character", excerpt(key));
        return Err(Invalid::new(Code::KeyControl, field, message));
    }
    Ok(())
}

pub(crate) fn within(
    code: Code,
    field: &str,
    span: Span,
    min: Span,
    max: Span,
) -> Result<(), Invalid> {
    if span < min || span > max {
        let message = format!("`{span}` is not between {min} and {max}");
        return Err(Invalid::new(code, field, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClientId;
    use crate::name::Name;
    use crate::payload::{Encoding, Payload};
    use crate::unique::Unique;

    const NOW: Time = Time::from_millis(1_767_225_600_000);

    fn job() -> NewJob {
        let name = |text| Name::new("queue", text).expect("a valid name");
        Spec::new(name("mail"), name("send"), Payload::json("{}")).into()
    }

    /// The code and field with which a changed job is refused.
    fn refused(change: impl FnOnce(&mut NewJob)) -> Option<(Code, String)> {
        let mut job = job();
        change(&mut job);
        job.check(&Caps::default(), NOW).err().map(|e| (e.code, e.field))
    }

    fn is(code: Code, field: &str) -> Option<(Code, String)> {
        Some((code, field.to_owned()))
    }

    #[test]
    fn the_timeout_of_a_wait_for_an_event_is_bounded() {
        let wait = |timeout| {
            refused(|job| {
                let (name, on_timeout) =
                    (Name::new("event", "paid").expect("a name"), <_>::default());
                let awaited = crate::event::AwaitedEvent { name, timeout, on_timeout };
                job.spec.wait_for = Some(Box::new(awaited));
            })
        };
        assert_eq!(wait(None), None);
        assert_eq!(wait(Some(Span::from_millis(1))), None);
        assert_eq!(wait(Some(Span::ZERO)), is(Code::TimeoutRange, "wait-for.timeout"));
        assert_eq!(wait(Some(Span::MAX)), is(Code::TimeoutRange, "wait-for.timeout"));
    }

    #[test]
    fn reserved_labels_are_refused_from_callers_and_do_not_count() {
        let labelled = |names: Vec<String>| {
            let mut job = job();
            job.spec.labels = names.into_iter().map(|name| (name, String::new())).collect();
            job
        };
        let (caps, own) = (Caps::default(), format!("{RESERVED_PREFIX}x"));
        let checked = |job: &NewJob| job.check_from_caller(&caps, NOW).map_err(|bad| bad.field);
        assert_eq!(checked(&labelled(vec!["crore".to_owned()])), Ok(()));
        assert_eq!(checked(&labelled(vec![own.clone()])), Err("labels".to_owned()));
        let many = (0..caps.labels).map(|n| n.to_string()).chain([own]);
        assert_eq!(labelled(many.collect()).check(&caps, NOW), Ok(()));
        let too_many = (0..=caps.labels).map(|n| n.to_string());
        assert!(labelled(too_many.collect()).check(&caps, NOW).is_err());
    }

    #[test]
    fn a_reserved_unique_key_is_refused_from_callers() {
        let caps = Caps::default();
        for (key, expected) in
            [("crore", None), ("crore.chain:1", is(Code::KeyReserved, "unique.key"))]
        {
            let mut job = job();
            job.spec.unique = Some(Box::new(Unique {
                key: key.into(),
                hold: UniqueHold::UntilEnd,
                window: None,
            }));
            let checked = job.check_from_caller(&caps, NOW).err().map(|bad| (bad.code, bad.field));
            assert_eq!(checked, expected);
            assert_eq!(job.check(&caps, NOW), Ok(()), "crore itself is allowed");
        }
    }

    #[test]
    fn every_field_is_accepted_at_its_cap_and_refused_beyond() {
        let day = Span::from_secs(86_400);
        assert_eq!(refused(|_| ()), None);
        assert_eq!(refused(|j| j.due = DueTime::After(day.times(3653))), None);
        assert_eq!(refused(|j| j.due = DueTime::At(Time::MAX)), is(Code::TimeRange, "due"));
        assert_eq!(refused(|j| j.due = DueTime::After(Span::MAX)), is(Code::TimeRange, "due"));
        assert_eq!(refused(|j| j.due = DueTime::At(Time::ZERO)), None);
        for (lease, bad) in [(999, true), (1000, false), (86_400_000, false), (86_400_001, true)] {
            let lease = Span::from_millis(lease);
            let expected = bad.then(|| (Code::LeaseRange, "lease".to_owned()));
            assert_eq!(refused(|j| j.spec.lease = Some(lease)), expected, "{lease:?}");
        }
        assert_eq!(
            refused(|j| j.spec.timeout = Some(Span::ZERO)),
            is(Code::TimeoutRange, "timeout")
        );
        assert_eq!(
            refused(|j| j.spec.timeout = Some(Span::MAX)),
            is(Code::TimeoutRange, "timeout")
        );
        assert_eq!(refused(|j| j.spec.timeout = Some(Span::from_millis(1))), None);
        assert_eq!(refused(|j| j.spec.keep = ResultRetention::For(day.times(90))), None);
        assert_eq!(
            refused(|j| j.spec.keep = ResultRetention::For(day.times(91))),
            is(Code::TimeRange, "keep")
        );
        assert_eq!(
            refused(|j| j.spec.keep = ResultRetention::Once(Span::ZERO)),
            is(Code::TimeRange, "keep")
        );
        for priority in [i32::MIN, i32::MAX] {
            assert_eq!(refused(|j| j.spec.priority = priority), None);
        }
        let bytes = |n| Payload::new(Encoding::Bytes, vec![0; n]);
        assert_eq!(refused(|j| j.spec.payload = bytes(1 << 20)), None);
        let over = refused(|j| j.spec.payload = bytes((1 << 20) + 1));
        assert_eq!(over, is(Code::PayloadTooLarge, "payload"));
        let broken = refused(|j| j.spec.payload = Payload::json("{"));
        assert_eq!(broken, is(Code::PayloadMalformed, "payload"));
    }

    #[test]
    fn keys_and_labels_are_capped() {
        let unique = |len: usize, hold, window| {
            let key = "k".repeat(len).into();
            refused(|j| j.spec.unique = Some(Box::new(Unique { key, hold, window })))
        };
        assert_eq!(unique(256, UniqueHold::UntilEnd, None), None);
        assert_eq!(unique(0, UniqueHold::UntilEnd, None), is(Code::KeyEmpty, "unique.key"));
        assert_eq!(unique(257, UniqueHold::UntilEnd, None), is(Code::KeyTooLong, "unique.key"));
        assert_eq!(unique(1, UniqueHold::Window, None), is(Code::TimeRange, "unique.window"));
        assert_eq!(
            unique(1, UniqueHold::Window, Some(Span::MAX)),
            is(Code::TimeRange, "unique.window")
        );
        assert_eq!(unique(1, UniqueHold::Window, Some(Span::from_secs(1))), None);
        let client = |len: usize| {
            let door = Name::new("door", "native").expect("a valid name");
            let id = "k".repeat(len).into();
            refused(|j| j.spec.client_id = Some(Box::new(ClientId { door, id })))
        };
        assert_eq!(client(256), None);
        assert_eq!(client(257), is(Code::KeyTooLong, "client-id"));
        let labels = |n: usize, len: usize| {
            let label = |i| (format!("{i}"), "v".repeat(len));
            refused(|j| j.spec.labels = (0..n).map(label).collect())
        };
        assert_eq!(labels(32, 256), None);
        assert_eq!(labels(33, 1), is(Code::LabelRange, "labels"));
        assert_eq!(labels(1, 257), is(Code::LabelRange, "labels"));
        let nul = |j: &mut NewJob| drop(j.spec.labels.insert("a".into(), "\0".into()));
        assert_eq!(refused(nul), is(Code::LabelRange, "labels"));
        let trace = |len: usize| refused(|j| j.spec.trace = Some("t".repeat(len).into()));
        assert_eq!(trace(1024), None);
        assert_eq!(trace(1025), is(Code::KeyTooLong, "trace"));
        let newline = refused(|j| j.spec.trace = Some("a\nb".into()));
        assert_eq!(newline, is(Code::KeyControl, "trace"));
        let key = Unique { key: "a\0b".into(), hold: UniqueHold::UntilEnd, window: None };
        assert_eq!(
            refused(|j| j.spec.unique = Some(Box::new(key))),
            is(Code::KeyControl, "unique.key")
        );
    }

    #[test]
    fn a_batch_is_capped_and_refers_only_backwards() {
        let caps = Caps { batch_jobs: 3, batch_bytes: 6, ..Caps::default() };
        let code = |batch: &Batch| batch.check(&caps).map_err(|e| (e.code, e.field)).err();
        assert_eq!(code(&vec![job(); 3].into()), None);
        assert_eq!(code(&vec![job(); 4].into()), is(Code::BatchTooLarge, "jobs"));
        let mut fat = job();
        fat.spec.payload = Payload::json("[1,2,3]");
        assert_eq!(code(&fat.into()), is(Code::BatchTooLarge, "jobs"));
        let after = |on| NewDependency { on, needs: DependencyCondition::End };
        for (on, good) in [
            (NewDependencyTarget::Earlier(0), true),
            (NewDependencyTarget::Earlier(1), false),
            (NewDependencyTarget::Earlier(usize::MAX), false),
            (NewDependencyTarget::Group(GroupRef::New(0)), false),
        ] {
            let mut second = job();
            second.after.push(after(on));
            let expected = (!good).then(|| (Code::BatchReference, "jobs[1].after".to_owned()));
            assert_eq!(code(&vec![job(), second].into()), expected, "{on:?}");
        }
        let mut member = job();
        member.group = Some(GroupRef::New(0));
        assert_eq!(code(&member.into()), is(Code::BatchReference, "jobs[0].group"));
    }

    #[test]
    fn a_job_cannot_wait_for_its_own_group() {
        for group in [GroupRef::New(0), GroupRef::Id(GroupId(7))] {
            let mut member = job();
            member.group = Some(group);
            member.after.push(NewDependency {
                on: NewDependencyTarget::Group(group),
                needs: DependencyCondition::End,
            });
            let groups = vec![NewGroup::default(), NewGroup::default()];
            let mut batch = Batch { groups, jobs: vec![member] };
            let refused = batch.check(&Caps::default()).map_err(|e| (e.code, e.field)).err();
            assert_eq!(refused, is(Code::BatchReference, "jobs[0].after"), "{group:?}");
            batch.jobs[0].group = Some(GroupRef::New(1));
            assert_eq!(batch.check(&Caps::default()), Ok(()), "another group can end");
        }
    }

    #[test]
    fn a_deadline_is_in_range_and_after_the_due_time() {
        let (within, at) = (StartDeadline::Within, StartDeadline::At);
        let second = Span::from_secs(1);
        let with = |deadline| refused(|j| j.deadline = Some(deadline));
        assert_eq!(with(within(Span::from_millis(1))), None);
        assert_eq!(with(within(Span::ZERO)), is(Code::TimeRange, "start-within"));
        assert_eq!(with(within(Span::MAX)), is(Code::TimeRange, "start-within"));
        assert_eq!(with(at(Time::MAX)), is(Code::TimeRange, "deadline"));
        assert_eq!(with(at(Time::ZERO)), None, "a deadline in the past is accepted");
        for (deadline, field) in
            [(within(second), "start-within"), (at(NOW.after(second)), "deadline")]
        {
            let due = |due| refused(|j| (j.deadline, j.due) = (Some(deadline), due));
            assert_eq!(due(DueTime::After(Span::from_millis(999))), None);
            assert_eq!(due(DueTime::After(second)), is(Code::TimeRange, field));
            assert_eq!(due(DueTime::At(NOW.after(second))), is(Code::TimeRange, field));
            assert_eq!(due(DueTime::At(Time::ZERO)), None, "due now");
        }
    }

    #[test]
    fn the_follow_up_of_a_missed_deadline_is_checked_like_a_push_of_its_own() {
        let follow_up = |change: fn(&mut NewJob)| {
            let mut next = job();
            change(&mut next);
            let mut job = job();
            job.deadline = Some(StartDeadline::Within(Span::from_secs(1)));
            job.spec.on_expired = Some(Box::new(next));
            job
        };
        let checked = |job: &NewJob| {
            let checked = job.check_from_caller(&Caps::default(), NOW);
            checked.err().map(|invalid| (invalid.code, invalid.field))
        };
        assert_eq!(checked(&follow_up(|_| ())), None);
        let no_deadline = NewJob { deadline: None, ..follow_up(|_| ()) };
        assert_eq!(checked(&no_deadline), is(Code::Malformed, "on-expired"));
        let nested = follow_up(|j| j.spec.on_expired = Some(Box::new(job())));
        assert_eq!(checked(&nested), is(Code::Malformed, "on-expired.on-expired"));
        let broken = follow_up(|j| j.spec.payload = Payload::json("{"));
        assert_eq!(checked(&broken), is(Code::PayloadMalformed, "on-expired.payload"));
        let in_batch = follow_up(|j| j.group = Some(GroupRef::New(0)));
        assert_eq!(checked(&in_batch), is(Code::BatchReference, "on-expired.group"));
        let label = |j: &mut NewJob| drop(j.spec.labels.insert("crore.x".into(), "1".into()));
        assert_eq!(checked(&follow_up(label)), is(Code::LabelRange, "on-expired.labels"));
        let caps = Caps { batch_bytes: 3, ..Caps::default() };
        assert!(Batch::from(follow_up(|_| ())).check(&caps).is_err(), "its payload counts");
    }
}
