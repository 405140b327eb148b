//! Encoding of side records: keys and values of everything but jobs.

use std::sync::Arc;

use crore_core::job::{DependencyCondition, DependencyTarget};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{EventId, GroupId, JobId, Time};

use super::codec::{ByteReader, Damaged, Put, get_group, get_payload, put_group, put_payload};
use super::record::read_number;
use crate::StoreId;
use crate::local::{BucketState, JobWait, KeyLock, SideKey, SideValue, StoredEvent, check_block};
use crate::registry::RegistryTable;
use crate::views::StatStep;

/// Key type of statistics of jobs: names of series, and blocks by step.
const SERIES: u8 = 13;

pub(crate) fn put_key(key: &SideKey, out: &mut Vec<u8>) {
    match key {
        SideKey::Lock(key) => {
            out.put_u8(1);
            out.put_text(key);
        }
        SideKey::Wait(on, needs, job, nth) => {
            out.put_u8(2);
            put_target(*on, out);
            out.put_u8(match needs {
                DependencyCondition::End => 0,
                DependencyCondition::Success => 1,
            });
            out.put_var(job.0);
            out.put_var(u64::from(*nth));
        }
        SideKey::Group(id) => {
            out.put_u8(3);
            out.put_var(id.0);
        }
        SideKey::Entry(table, name) => {
            out.put_u8(4);
            out.put_u8(table_number(*table));
            out.put_text(name.as_str());
        }
        SideKey::Bucket(key) => {
            out.put_u8(5);
            out.put_text(key.limit.as_str());
            out.put_option(key.value.as_deref(), Put::put_text);
        }
        SideKey::Leader(duty) => {
            out.put_u8(6);
            out.put_text(duty.as_str());
        }
        SideKey::Progress(id) => {
            out.put_u8(7);
            out.put_var(id.0);
        }
        SideKey::Line(id, nth) => {
            out.put_u8(9);
            out.put_var(id.0);
            out.put_var(*nth);
        }
        SideKey::Stat(series, step, at) => {
            out.put_u8(8);
            out.put_text(series.as_str());
            out.put_u8(step_number(*step));
            out.put_time(Time::ZERO, *at);
        }
        SideKey::SeriesName(number) => {
            out.put_u8(SERIES);
            out.put_u8(0);
            out.put_var(u64::from(*number));
        }
        SideKey::Series(step, at, nth) => {
            out.put_u8(SERIES);
            out.put_u8(1 + step_number(*step));
            out.put_time(Time::ZERO, *at);
            out.put_var(u64::from(*nth));
        }
        SideKey::Identity => out.put_u8(10),
        SideKey::Event(id) => {
            out.put_u8(11);
            out.put_var(id.0);
        }
        SideKey::EventWait(job) => {
            out.put_u8(12);
            out.put_var(job.0);
        }
    }
}

pub(crate) fn get_key(reader: &mut ByteReader<'_>) -> Result<SideKey, Damaged> {
    Ok(match reader.u8()? {
        1 => SideKey::Lock(reader.text()?.into()),
        2 => {
            let (on, needs) = (get_target(reader)?, get_needs(reader)?);
            SideKey::Wait(on, needs, JobId(reader.var()?), reader.var32()?)
        }
        3 => SideKey::Group(GroupId(read_number(reader)?)),
        4 => SideKey::Entry(get_table(reader)?, reader.name()?),
        5 => {
            let (limit, value) = (reader.name()?, reader.option(ByteReader::text)?);
            SideKey::Bucket(LimitKey { limit, value: value.map(Arc::from) })
        }
        6 => SideKey::Leader(reader.name()?),
        7 => SideKey::Progress(JobId(reader.var()?)),
        9 => SideKey::Line(JobId(reader.var()?), reader.var()?),
        8 => {
            let (series, step) = (reader.name()?, step_of(reader.u8()?)?);
            SideKey::Stat(series, step, reader.time(Time::ZERO)?)
        }
        10 => SideKey::Identity,
        11 => SideKey::Event(EventId(read_number(reader)?)),
        12 => SideKey::EventWait(JobId(reader.var()?)),
        SERIES => match reader.u8()? {
            0 => SideKey::SeriesName(reader.var32()?),
            step => {
                let (step, at) = (step_of(step - 1)?, reader.time(Time::ZERO)?);
                SideKey::Series(step, at, reader.var32()?)
            }
        },
        _ => return Err(Damaged("unknown key type")),
    })
}

pub(crate) fn put_value(value: &SideValue, out: &mut Vec<u8>) {
    match value {
        SideValue::Lock(lock) => {
            out.put_var(lock.job.0);
            out.put_option(lock.until, |out, until| out.put_time(Time::ZERO, until));
        }
        SideValue::Wait => {}
        SideValue::Group(group, at) => {
            put_group(group, out);
            out.put_time(Time::ZERO, *at);
        }
        // Definitions are few and varied, so they are JSON. All their values can be represented; a
        // failure would be a bug in the types.
        SideValue::Entry(entry) => out.put_chunk(&serde_json::to_vec(entry).unwrap_or_default()),
        // Without a pause it is what versions without pauses read.
        SideValue::Bucket(BucketState { tat, paused_until }) => {
            out.put_zig(tat.as_micros());
            if *paused_until != Time::ZERO {
                out.put_time(Time::ZERO, *paused_until);
            }
        }
        SideValue::Leader(node, until) => {
            out.put_var(*node);
            out.put_time(Time::ZERO, *until);
        }
        SideValue::Progress((at, percent, text)) => {
            out.put_time(Time::ZERO, *at);
            out.put_u8(*percent);
            out.put_text(text);
        }
        SideValue::Line((at, text)) => {
            out.put_time(Time::ZERO, *at);
            out.put_text(text);
        }
        SideValue::Stat(n) => out.put_var(*n),
        SideValue::SeriesName(queue, kind) => {
            out.put_text(queue.as_str());
            out.put_text(kind.as_str());
        }
        SideValue::Series(block) => out.put_chunk(block),
        SideValue::Identity(id) => {
            out.put_u64((id.0 >> 64) as u64);
            out.put_u64(id.0 as u64);
        }
        SideValue::Event(event) => {
            out.put_text(event.name.as_str());
            out.put_time(Time::ZERO, event.sent_at);
            out.put_option(event.until, |out, until| out.put_time(Time::ZERO, until));
            put_payload(&event.payload, out);
        }
        SideValue::EventWait(JobWait::Open { name, until, waits }) => {
            out.put_u8(u8::from(*waits));
            out.put_text(name.as_str());
            out.put_option(*until, |out, until| out.put_time(Time::ZERO, until));
        }
        SideValue::EventWait(JobWait::Holds(event)) => {
            out.put_u8(2);
            out.put_var(event.0);
        }
    }
}

/// Decodes the value behind a key in a side record; `None` if the key was removed.
pub(crate) fn get_value(key: &SideKey, bytes: &[u8]) -> Result<Option<SideValue>, Damaged> {
    let reader = &mut ByteReader::new(bytes);
    reader.option(|reader| {
        Ok(match key {
            SideKey::Lock(_) => {
                let job = JobId(reader.var()?);
                SideValue::Lock(KeyLock { job, until: reader.option(|r| r.time(Time::ZERO))? })
            }
            SideKey::Wait(..) => SideValue::Wait,
            SideKey::Group(_) => SideValue::Group(get_group(reader)?, reader.time(Time::ZERO)?),
            SideKey::Entry(..) => {
                let entry = serde_json::from_slice(reader.chunk()?);
                SideValue::Entry(Box::new(entry.map_err(|_| Damaged("unreadable registry entry"))?))
            }
            SideKey::Bucket(_) => {
                let tat = Tat::from_micros(reader.zig()?);
                let is_paused = !reader.rest().is_empty();
                let paused_until = if is_paused { reader.time(Time::ZERO)? } else { Time::ZERO };
                SideValue::Bucket(BucketState { tat, paused_until })
            }
            SideKey::Leader(_) => SideValue::Leader(reader.var()?, reader.time(Time::ZERO)?),
            SideKey::Progress(_) => {
                let (at, percent) = (reader.time(Time::ZERO)?, reader.u8()?);
                SideValue::Progress((at, percent, reader.text()?.into()))
            }
            SideKey::Line(..) => SideValue::Line((reader.time(Time::ZERO)?, reader.text()?.into())),
            SideKey::Stat(..) => SideValue::Stat(reader.var()?),
            SideKey::SeriesName(_) => SideValue::SeriesName(reader.name()?, reader.name()?),
            SideKey::Series(..) => {
                let block = reader.chunk()?;
                check_block(block)?;
                SideValue::Series(block.into())
            }
            SideKey::Identity => {
                let (high, low) = (u128::from(reader.u64()?), u128::from(reader.u64()?));
                SideValue::Identity(StoreId(high << 64 | low))
            }
            SideKey::Event(_) => {
                let (name, sent_at) = (reader.name()?, reader.time(Time::ZERO)?);
                let until = reader.option(|reader| reader.time(Time::ZERO))?;
                let payload = get_payload(reader)?;
                SideValue::Event(Box::new(StoredEvent { name, payload, sent_at, until }))
            }
            SideKey::EventWait(_) => SideValue::EventWait(get_wait(reader)?),
        })
    })
}

fn get_wait(reader: &mut ByteReader<'_>) -> Result<JobWait, Damaged> {
    match reader.u8()? {
        waits @ (0 | 1) => {
            let (name, until) = (reader.name()?, reader.option(|r| r.time(Time::ZERO))?);
            Ok(JobWait::Open { name, until, waits: waits == 1 })
        }
        2 => Ok(JobWait::Holds(EventId(reader.var()?))),
        _ => Err(Damaged("unknown wait for an event")),
    }
}

fn put_target(target: DependencyTarget, out: &mut Vec<u8>) {
    let (tag, id) = match target {
        DependencyTarget::Job(id) => (0, id.0),
        DependencyTarget::Group(id) => (1, id.0),
    };
    out.put_u8(tag);
    out.put_var(id);
}

fn get_target(reader: &mut ByteReader<'_>) -> Result<DependencyTarget, Damaged> {
    match reader.u8()? {
        0 => Ok(DependencyTarget::Job(JobId(reader.var()?))),
        1 => Ok(DependencyTarget::Group(GroupId(reader.var()?))),
        _ => Err(Damaged("unknown dependency type")),
    }
}

fn get_needs(reader: &mut ByteReader<'_>) -> Result<DependencyCondition, Damaged> {
    match reader.u8()? {
        0 => Ok(DependencyCondition::End),
        1 => Ok(DependencyCondition::Success),
        _ => Err(Damaged("unknown dependency need")),
    }
}

const fn table_number(table: RegistryTable) -> u8 {
    match table {
        RegistryTable::Limits => 0,
        RegistryTable::Queues => 1,
        RegistryTable::Schedules => 2,
        RegistryTable::Handlers => 3,
        RegistryTable::Workers => 4,
        RegistryTable::Tokens => 5,
        RegistryTable::Operations => 6,
    }
}

fn get_table(reader: &mut ByteReader<'_>) -> Result<RegistryTable, Damaged> {
    const ALL: [RegistryTable; 7] = [
        RegistryTable::Limits,
        RegistryTable::Queues,
        RegistryTable::Schedules,
        RegistryTable::Handlers,
        RegistryTable::Workers,
        RegistryTable::Tokens,
        RegistryTable::Operations,
    ];
    let number = reader.u8()?;
    ALL.into_iter().find(|table| table_number(*table) == number).ok_or(Damaged("unknown table"))
}

const fn step_number(step: StatStep) -> u8 {
    match step {
        StatStep::Minute => 0,
        StatStep::Hour => 1,
        StatStep::Day => 2,
    }
}

fn step_of(number: u8) -> Result<StatStep, Damaged> {
    let found = StatStep::ALL.into_iter().find(|step| step_number(*step) == number);
    found.ok_or(Damaged("unknown statistics step"))
}
