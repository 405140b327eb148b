//! What a push brings: new jobs and new groups, which may refer to each other, and the checks that
//! they pass before a store sees them.

use serde::{Deserialize, Serialize};

use crate::caps::Caps;
use crate::code::{Code, Invalid, excerpt};
use crate::id::{GroupId, JobId};
use crate::job::{Keep, Needs, Spec, When};
use crate::time::{Span, Time};
use crate::unique::Hold;

/// What labels and unique keys begin with that are crore's own.
pub const OWN: &str = "crore.";

/// A job that is not stored yet.
#[derive(Debug, Clone, PartialEq, Hash, Serialize, Deserialize)]
pub struct NewJob {
    /// What it is.
    pub spec: Spec,
    /// When it is due.
    pub due: When,
    /// The group that it joins.
    pub group: Option<GroupRef>,
    /// What it waits for.
    pub after: Vec<After>,
    /// What its pusher has left unsaid, so that the handler of its kind may say it.
    #[serde(default, skip_serializing_if = "Unsaid::is_nothing")]
    pub unsaid: Unsaid,
}

/// What the pusher of a job has left unsaid: then its handler's word counts, if there is one, and
/// otherwise what stands in the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of its own that was left out")]
pub struct Unsaid {
    /// Where it waits.
    pub queue: bool,
    /// How it is retried.
    pub retry: bool,
    /// How long it may take.
    pub timeout: bool,
    /// What becomes of its result.
    pub keep: bool,
}

impl Unsaid {
    /// All of it.
    pub const ALL: Self = Self { queue: true, retry: true, timeout: true, keep: true };

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A group, stored or in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRef {
    /// One that is stored.
    Id(GroupId),
    /// The n-th new group of this batch, from 0.
    New(usize),
}

/// Something that a new job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct After {
    /// The thing.
    pub on: AfterRef,
    /// What has to become of it.
    pub needs: Needs,
}

/// A thing to wait for, stored or in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterRef {
    /// A stored job.
    Job(JobId),
    /// An earlier job of this batch, by its place from 0: so no batch can hold a circle.
    Earlier(usize),
    /// A group.
    Group(GroupRef),
}

/// A group that is not stored yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct NewGroup {
    /// Whether later batches may add members; it is then sealed by a change of its own.
    pub open: bool,
}

/// What one push brings. It is stored whole or not at all.
#[derive(Debug, Clone, PartialEq, Default, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// New groups.
    pub groups: Vec<NewGroup>,
    /// New jobs, in the order in which they are numbered.
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
        Self { spec, due: When::Now, group: None, after: Vec::new(), unsaid: Unsaid::default() }
    }
}

impl Batch {
    /// Checks what concerns the batch as a whole: its size, and that references point backwards and
    /// no job waits for its own group.
    /// The jobs themselves are checked one by one with [`NewJob::check`], so that a bad one can be
    /// answered singly.
    pub fn check(&self, caps: &Caps) -> Result<(), Invalid> {
        let too_large = |what: String| Invalid::new(Code::BatchTooLarge, "jobs", what);
        if self.jobs.len() > caps.batch_jobs || self.groups.len() > caps.batch_jobs {
            let most = self.jobs.len().max(self.groups.len());
            return Err(too_large(format!(
                "{most} in one batch, at most {} are allowed",
                caps.batch_jobs
            )));
        }
        let bytes: usize = self.jobs.iter().map(|job| job.spec.payload.bytes.len()).sum();
        if bytes > caps.batch_bytes {
            return Err(too_large(format!(
                "{bytes} payload bytes in one batch, at most {} are allowed",
                caps.batch_bytes
            )));
        }
        self.jobs.iter().enumerate().try_for_each(|(place, job)| self.check_references(place, job))
    }

    fn check_references(&self, place: usize, job: &NewJob) -> Result<(), Invalid> {
        let wrong = |field: &str, n: usize| {
            let message = format!("`{n}` is not an earlier part of this batch");
            Err(Invalid::new(Code::BatchReference, format!("jobs[{place}].{field}"), message))
        };
        if let Some(GroupRef::New(n)) = job.group
            && n >= self.groups.len()
        {
            return wrong("group", n);
        }
        for after in &job.after {
            match after.on {
                AfterRef::Earlier(n) if n >= place => return wrong("after", n),
                AfterRef::Group(GroupRef::New(n)) if n >= self.groups.len() => {
                    return wrong("after", n);
                }
                // The group would wait for its member, and the member for its group, for ever.
                AfterRef::Group(group) if job.group == Some(group) => {
                    let message = "a job cannot wait for the group that it belongs to";
                    let field = format!("jobs[{place}].after");
                    return Err(Invalid::new(Code::BatchReference, field, message));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl NewJob {
    /// Checks a job that somebody brings: every field, and that he says nothing that is crore's own to say.
    pub fn check_brought(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        self.check(caps, now)?;
        if let Some(name) = self.spec.labels.keys().find(|name| name.starts_with(OWN)) {
            let message = format!("label `{}`: names with `{OWN}` are crore's own", excerpt(name));
            return Err(Invalid::new(Code::LabelRange, "labels", message));
        }
        if self.spec.unique.as_ref().is_some_and(|unique| unique.key.starts_with(OWN)) {
            let message = format!("keys that begin with `{OWN}` are crore's own");
            return Err(Invalid::new(Code::KeyReserved, "unique.key", message));
        }
        Ok(())
    }

    /// Checks every field against the caps. `now` is only needed for how far ahead a job is due.
    pub fn check(&self, caps: &Caps, now: Time) -> Result<(), Invalid> {
        self.check_times(caps, now)?;
        self.check_keys(caps)?;
        if self.after.len() > caps.dependencies {
            let message = format!(
                "waits for {} things, at most {} are allowed",
                self.after.len(),
                caps.dependencies
            );
            return Err(Invalid::new(Code::TooManyDependencies, "after", message));
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
            Keep::Discard => Ok(()),
            Keep::Once(span) | Keep::For(span) => {
                within(Code::TimeRange, "keep", span, Span::from_millis(1), caps.max_retention)
            }
        }
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
                None if unique.hold == Hold::Window => {
                    let message = "a key that only its window ends needs a window";
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
        // What crore adds of its own takes nobody's room.
        let n = labels.keys().filter(|name| !name.starts_with(OWN)).count();
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
        let message = format!("`{span:?}` lies outside {min:?} to {max:?}");
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
        let name = |text| Name::new("queue", text).expect("a good name");
        Spec::new(name("mail"), name("send"), Payload::json("{}")).into()
    }

    /// A job with one thing changed, and the code and field it is refused with.
    fn refused(change: impl FnOnce(&mut NewJob)) -> Option<(Code, String)> {
        let mut job = job();
        change(&mut job);
        job.check(&Caps::default(), NOW).err().map(|e| (e.code, e.field))
    }

    fn is(code: Code, field: &str) -> Option<(Code, String)> {
        Some((code, field.to_owned()))
    }

    #[test]
    fn labels_of_our_own_are_refused_where_somebody_brings_them_and_take_no_room() {
        let labelled = |names: Vec<String>| {
            let mut job = job();
            job.spec.labels = names.into_iter().map(|name| (name, String::new())).collect();
            job
        };
        let (caps, own) = (Caps::default(), format!("{OWN}x"));
        let brought = |job: &NewJob| job.check_brought(&caps, NOW).map_err(|bad| bad.field);
        assert_eq!(brought(&labelled(vec!["crore".to_owned()])), Ok(()));
        assert_eq!(brought(&labelled(vec![own.clone()])), Err("labels".to_owned()));
        let many = (0..caps.labels).map(|n| n.to_string()).chain([own]);
        assert_eq!(labelled(many.collect()).check(&caps, NOW), Ok(()));
        let too_many = (0..=caps.labels).map(|n| n.to_string());
        assert!(labelled(too_many.collect()).check(&caps, NOW).is_err());
    }

    #[test]
    fn a_unique_key_of_our_own_is_refused_where_somebody_brings_it() {
        let caps = Caps::default();
        for (key, expected) in
            [("crore", None), ("crore.chain:1", is(Code::KeyReserved, "unique.key"))]
        {
            let mut job = job();
            job.spec.unique = Some(Unique { key: key.into(), hold: Hold::UntilEnd, window: None });
            let brought = job.check_brought(&caps, NOW).err().map(|bad| (bad.code, bad.field));
            assert_eq!(brought, expected);
            assert_eq!(job.check(&caps, NOW), Ok(()), "crore itself may");
        }
    }

    #[test]
    fn every_field_is_accepted_at_its_cap_and_refused_beyond() {
        let day = Span::from_secs(86_400);
        assert_eq!(refused(|_| ()), None);
        assert_eq!(refused(|j| j.due = When::After(day.times(3653))), None);
        assert_eq!(refused(|j| j.due = When::At(Time::MAX)), is(Code::TimeRange, "due"));
        assert_eq!(refused(|j| j.due = When::After(Span::MAX)), is(Code::TimeRange, "due"));
        assert_eq!(refused(|j| j.due = When::At(Time::ZERO)), None);
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
        assert_eq!(refused(|j| j.spec.keep = Keep::For(day.times(90))), None);
        assert_eq!(
            refused(|j| j.spec.keep = Keep::For(day.times(91))),
            is(Code::TimeRange, "keep")
        );
        assert_eq!(refused(|j| j.spec.keep = Keep::Once(Span::ZERO)), is(Code::TimeRange, "keep"));
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
    fn keys_and_labels_are_held_to_their_caps() {
        let unique = |len: usize, hold, window| {
            let key = "k".repeat(len).into();
            refused(|j| j.spec.unique = Some(Unique { key, hold, window }))
        };
        assert_eq!(unique(256, Hold::UntilEnd, None), None);
        assert_eq!(unique(0, Hold::UntilEnd, None), is(Code::KeyEmpty, "unique.key"));
        assert_eq!(unique(257, Hold::UntilEnd, None), is(Code::KeyTooLong, "unique.key"));
        assert_eq!(unique(1, Hold::Window, None), is(Code::TimeRange, "unique.window"));
        assert_eq!(unique(1, Hold::Window, Some(Span::MAX)), is(Code::TimeRange, "unique.window"));
        assert_eq!(unique(1, Hold::Window, Some(Span::from_secs(1))), None);
        let client = |len: usize| {
            let door = Name::new("door", "native").expect("a good name");
            let id = "k".repeat(len).into();
            refused(|j| j.spec.client_id = Some(ClientId { door, id }))
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
        let key = Unique { key: "a\0b".into(), hold: Hold::UntilEnd, window: None };
        assert_eq!(refused(|j| j.spec.unique = Some(key)), is(Code::KeyControl, "unique.key"));
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
        let after = |on| After { on, needs: Needs::End };
        for (on, good) in [
            (AfterRef::Earlier(0), true),
            (AfterRef::Earlier(1), false),
            (AfterRef::Earlier(usize::MAX), false),
            (AfterRef::Group(GroupRef::New(0)), false),
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
    fn nobody_waits_for_the_group_that_it_belongs_to() {
        for group in [GroupRef::New(0), GroupRef::Id(GroupId(7))] {
            let mut member = job();
            member.group = Some(group);
            member.after.push(After { on: AfterRef::Group(group), needs: Needs::End });
            let groups = vec![NewGroup::default(), NewGroup::default()];
            let mut batch = Batch { groups, jobs: vec![member] };
            let refused = batch.check(&Caps::default()).map_err(|e| (e.code, e.field)).err();
            assert_eq!(refused, is(Code::BatchReference, "jobs[0].after"), "{group:?}");
            batch.jobs[0].group = Some(GroupRef::New(1));
            assert_eq!(batch.check(&Caps::default()), Ok(()), "another group can end");
        }
    }
}
