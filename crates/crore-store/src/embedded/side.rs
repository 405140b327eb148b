//! The form of what is kept besides jobs.

use std::sync::Arc;

use crore_core::job::{Needs, Thing};
use crore_core::limit::{LimitKey, Tat};
use crore_core::{GroupId, JobId, Time};

use super::codec::{Damaged, Put, Reader, get_group, put_group};
use super::record::number;
use crate::local::{Key, Lock, Value};
use crate::registry::Table;
use crate::views::Step;

pub(crate) fn put_key(key: &Key, out: &mut Vec<u8>) {
    match key {
        Key::Lock(key) => {
            out.put_u8(1);
            out.put_text(key);
        }
        Key::Wait(on, needs, job, nth) => {
            out.put_u8(2);
            put_thing(*on, out);
            out.put_u8(match needs {
                Needs::End => 0,
                Needs::Success => 1,
            });
            out.put_var(job.0);
            out.put_var(u64::from(*nth));
        }
        Key::Group(id) => {
            out.put_u8(3);
            out.put_var(id.0);
        }
        Key::Entry(table, name) => {
            out.put_u8(4);
            out.put_u8(table_number(*table));
            out.put_text(name.as_str());
        }
        Key::Bucket(key) => {
            out.put_u8(5);
            out.put_text(key.limit.as_str());
            out.put_option(key.value.as_deref(), Put::put_text);
        }
        Key::Leader(duty) => {
            out.put_u8(6);
            out.put_text(duty.as_str());
        }
        Key::Progress(id) => {
            out.put_u8(7);
            out.put_var(id.0);
        }
        Key::Line(id, nth) => {
            out.put_u8(9);
            out.put_var(id.0);
            out.put_var(*nth);
        }
        Key::Stat(series, step, at) => {
            out.put_u8(8);
            out.put_text(series.as_str());
            out.put_u8(match step {
                Step::Minute => 0,
                Step::Hour => 1,
            });
            out.put_time(Time::ZERO, *at);
        }
    }
}

pub(crate) fn get_key(reader: &mut Reader<'_>) -> Result<Key, Damaged> {
    Ok(match reader.u8()? {
        1 => Key::Lock(reader.text()?.into()),
        2 => {
            let (on, needs) = (get_thing(reader)?, get_needs(reader)?);
            Key::Wait(on, needs, JobId(reader.var()?), reader.var32()?)
        }
        3 => Key::Group(GroupId(number(reader)?)),
        4 => Key::Entry(get_table(reader)?, reader.name()?),
        5 => {
            let (limit, value) = (reader.name()?, reader.option(Reader::text)?);
            Key::Bucket(LimitKey { limit, value: value.map(Arc::from) })
        }
        6 => Key::Leader(reader.name()?),
        7 => Key::Progress(JobId(reader.var()?)),
        9 => Key::Line(JobId(reader.var()?), reader.var()?),
        8 => {
            let (series, step) = (reader.name()?, get_step(reader)?);
            Key::Stat(series, step, reader.time(Time::ZERO)?)
        }
        _ => return Err(Damaged("an unknown sort of key")),
    })
}

pub(crate) fn put_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Lock(lock) => {
            out.put_var(lock.job.0);
            out.put_option(lock.until, |out, until| out.put_time(Time::ZERO, until));
        }
        Value::Wait => {}
        Value::Group(group, at) => {
            put_group(group, out);
            out.put_time(Time::ZERO, *at);
        }
        // Definitions are few and have many shapes, so they are kept in a form with names. What it
        // can hold, JSON can: a failure is a fault of the types.
        Value::Entry(entry) => out.put_chunk(&serde_json::to_vec(entry).unwrap_or_default()),
        Value::Bucket(tat) => out.put_zig(tat.as_micros()),
        Value::Leader(node, until) => {
            out.put_var(*node);
            out.put_time(Time::ZERO, *until);
        }
        Value::Progress((at, percent, text)) => {
            out.put_time(Time::ZERO, *at);
            out.put_u8(*percent);
            out.put_text(text);
        }
        Value::Line((at, text)) => {
            out.put_time(Time::ZERO, *at);
            out.put_text(text);
        }
        Value::Stat(n) => out.put_var(*n),
    }
}

/// The value of a key, as it stands in a side record behind the key; `None`: it is gone.
pub(crate) fn get_value(key: &Key, bytes: &[u8]) -> Result<Option<Value>, Damaged> {
    let reader = &mut Reader::new(bytes);
    reader.option(|reader| {
        Ok(match key {
            Key::Lock(_) => {
                let job = JobId(reader.var()?);
                Value::Lock(Lock { job, until: reader.option(|r| r.time(Time::ZERO))? })
            }
            Key::Wait(..) => Value::Wait,
            Key::Group(_) => Value::Group(get_group(reader)?, reader.time(Time::ZERO)?),
            Key::Entry(..) => {
                let entry = serde_json::from_slice(reader.chunk()?);
                Value::Entry(Box::new(entry.map_err(|_| Damaged("an entry that cannot be read"))?))
            }
            Key::Bucket(_) => Value::Bucket(Tat::from_micros(reader.zig()?)),
            Key::Leader(_) => Value::Leader(reader.var()?, reader.time(Time::ZERO)?),
            Key::Progress(_) => {
                let (at, percent) = (reader.time(Time::ZERO)?, reader.u8()?);
                Value::Progress((at, percent, reader.text()?.into()))
            }
            Key::Line(..) => Value::Line((reader.time(Time::ZERO)?, reader.text()?.into())),
            Key::Stat(..) => Value::Stat(reader.var()?),
        })
    })
}

fn put_thing(thing: Thing, out: &mut Vec<u8>) {
    let (sort, id) = match thing {
        Thing::Job(id) => (0, id.0),
        Thing::Group(id) => (1, id.0),
    };
    out.put_u8(sort);
    out.put_var(id);
}

fn get_thing(reader: &mut Reader<'_>) -> Result<Thing, Damaged> {
    match reader.u8()? {
        0 => Ok(Thing::Job(JobId(reader.var()?))),
        1 => Ok(Thing::Group(GroupId(reader.var()?))),
        _ => Err(Damaged("an unknown sort of thing")),
    }
}

fn get_needs(reader: &mut Reader<'_>) -> Result<Needs, Damaged> {
    match reader.u8()? {
        0 => Ok(Needs::End),
        1 => Ok(Needs::Success),
        _ => Err(Damaged("an unknown sort of need")),
    }
}

const fn table_number(table: Table) -> u8 {
    match table {
        Table::Limits => 0,
        Table::Queues => 1,
        Table::Schedules => 2,
        Table::Handlers => 3,
        Table::Workers => 4,
        Table::Tokens => 5,
    }
}

fn get_table(reader: &mut Reader<'_>) -> Result<Table, Damaged> {
    const ALL: [Table; 6] = [
        Table::Limits,
        Table::Queues,
        Table::Schedules,
        Table::Handlers,
        Table::Workers,
        Table::Tokens,
    ];
    let number = reader.u8()?;
    ALL.into_iter().find(|table| table_number(*table) == number).ok_or(Damaged("an unknown table"))
}

fn get_step(reader: &mut Reader<'_>) -> Result<Step, Damaged> {
    match reader.u8()? {
        0 => Ok(Step::Minute),
        1 => Ok(Step::Hour),
        _ => Err(Damaged("an unknown step")),
    }
}
