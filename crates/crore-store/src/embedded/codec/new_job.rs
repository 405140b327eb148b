//! Encoding of a job that is not pushed yet: a follow-up in the spec of another job.

use crore_core::job::{DependencyCondition, DueTime, StartDeadline};
use crore_core::push::{GroupRef, NewDependency, NewDependencyTarget, UnsetFields};
use crore_core::{GroupId, JobId, NewJob, Time};

use super::numbers::StoredNumber as _;
use super::policy::LEAST_DEPENDENCY;
use super::spec::{get_follow_up_spec, put_spec};
use super::{ByteReader, Damaged, Put};

pub(super) fn put_new_job(job: &NewJob, out: &mut Vec<u8>) {
    let NewJob { spec, due, deadline, group, after, unset } = job;
    put_due(*due, out);
    out.put_option(*deadline, put_deadline);
    out.put_option(*group, put_group_ref);
    out.put_var(after.len() as u64);
    after.iter().for_each(|dependency| put_new_dependency(*dependency, out));
    out.put_u8(unset_bits(*unset));
    put_spec(spec, out);
}

pub(super) fn get_new_job(reader: &mut ByteReader<'_>) -> Result<NewJob, Damaged> {
    Ok(NewJob {
        due: get_due(reader)?,
        deadline: reader.option(get_deadline)?,
        group: reader.option(get_group_ref)?,
        after: reader.list(LEAST_DEPENDENCY, get_new_dependency)?,
        unset: get_unset(reader)?,
        spec: get_follow_up_spec(reader)?,
    })
}

fn put_due(due: DueTime, out: &mut Vec<u8>) {
    match due {
        DueTime::Now => out.put_u8(0),
        DueTime::After(span) => {
            out.put_u8(1);
            out.put_span(span);
        }
        DueTime::At(time) => {
            out.put_u8(2);
            out.put_time(Time::ZERO, time);
        }
        DueTime::Keep => out.put_u8(3),
    }
}

fn get_due(reader: &mut ByteReader<'_>) -> Result<DueTime, Damaged> {
    match reader.u8()? {
        0 => Ok(DueTime::Now),
        1 => reader.span().map(DueTime::After),
        2 => reader.time(Time::ZERO).map(DueTime::At),
        3 => Ok(DueTime::Keep),
        _ => Err(Damaged("unknown due time")),
    }
}

fn put_deadline(out: &mut Vec<u8>, deadline: StartDeadline) {
    match deadline {
        StartDeadline::Within(span) => {
            out.put_u8(0);
            out.put_span(span);
        }
        StartDeadline::At(time) => {
            out.put_u8(1);
            out.put_time(Time::ZERO, time);
        }
    }
}

fn get_deadline(reader: &mut ByteReader<'_>) -> Result<StartDeadline, Damaged> {
    match reader.u8()? {
        0 => reader.span().map(StartDeadline::Within),
        1 => reader.time(Time::ZERO).map(StartDeadline::At),
        _ => Err(Damaged("unknown deadline")),
    }
}

fn put_group_ref(out: &mut Vec<u8>, group: GroupRef) {
    let (number, id) = match group {
        GroupRef::Id(GroupId(id)) => (0, id),
        GroupRef::New(n) => (1, n as u64),
    };
    out.put_u8(number);
    out.put_var(id);
}

fn get_group_ref(reader: &mut ByteReader<'_>) -> Result<GroupRef, Damaged> {
    match (reader.u8()?, reader.var()?) {
        (0, id) => Ok(GroupRef::Id(GroupId(id))),
        (1, n) => index(n).map(GroupRef::New),
        _ => Err(Damaged("unknown group reference")),
    }
}

fn put_new_dependency(dependency: NewDependency, out: &mut Vec<u8>) {
    let (number, id) = match dependency.on {
        NewDependencyTarget::Job(JobId(id)) => (0, id),
        NewDependencyTarget::Group(GroupRef::Id(GroupId(id))) => (1, id),
        NewDependencyTarget::Group(GroupRef::New(n)) => (2, n as u64),
        NewDependencyTarget::Earlier(n) => (3, n as u64),
    };
    out.put_u8(number);
    out.put_var(id);
    out.put_u8(dependency.needs.number());
}

fn get_new_dependency(reader: &mut ByteReader<'_>) -> Result<NewDependency, Damaged> {
    let on = match (reader.u8()?, reader.var()?) {
        (0, id) => NewDependencyTarget::Job(JobId(id)),
        (1, id) => NewDependencyTarget::Group(GroupRef::Id(GroupId(id))),
        (2, n) => NewDependencyTarget::Group(GroupRef::New(index(n)?)),
        (3, n) => NewDependencyTarget::Earlier(index(n)?),
        _ => return Err(Damaged("unknown dependency")),
    };
    Ok(NewDependency { on, needs: DependencyCondition::read(reader)? })
}

fn index(n: u64) -> Result<usize, Damaged> {
    usize::try_from(n).map_err(|_| Damaged("index out of range"))
}

fn unset_bits(unset: UnsetFields) -> u8 {
    let UnsetFields { queue, retry, timeout, keep } = unset;
    u8::from(queue) | u8::from(retry) << 1 | u8::from(timeout) << 2 | u8::from(keep) << 3
}

fn get_unset(reader: &mut ByteReader<'_>) -> Result<UnsetFields, Damaged> {
    let bits = reader.u8()?;
    if bits >= 1 << 4 {
        return Err(Damaged("unknown unset field"));
    }
    let has = |nth: u8| bits & (1 << nth) != 0;
    Ok(UnsetFields { queue: has(0), retry: has(1), timeout: has(2), keep: has(3) })
}
