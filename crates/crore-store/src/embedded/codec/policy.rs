//! The stored forms of a job's policies, and of what else in a spec is more than a number.

use crore_core::job::{ClientId, Dependency, Keep, Lapse, Needs, Thing};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Hold, Unique};
use crore_core::{Encoding, GroupId, JobId, Payload};

use super::numbers::Numbered as _;
use super::{Damaged, Put, Reader};

pub(super) fn put_retry(retry: &Retry, out: &mut Vec<u8>) {
    match retry.backoff {
        Backoff::None => out.put_u8(0),
        Backoff::Constant { every } => {
            out.put_u8(1);
            out.put_span(every);
        }
        Backoff::Linear { step } => {
            out.put_u8(2);
            out.put_span(step);
        }
        Backoff::Exponential { base, factor } => {
            out.put_u8(3);
            out.put_span(base);
            out.put_var(u64::from(factor));
        }
        Backoff::Polynomial => out.put_u8(4),
    }
    out.put_option(retry.max_attempts, |out, n| out.put_var(u64::from(n)));
    out.put_option(retry.max_interval, Put::put_span);
    out.put_u8(retry.jitter);
}

pub(super) fn get_retry(reader: &mut Reader<'_>) -> Result<Retry, Damaged> {
    let backoff = match reader.u8()? {
        0 => Backoff::None,
        1 => Backoff::Constant { every: reader.span()? },
        2 => Backoff::Linear { step: reader.span()? },
        3 => Backoff::Exponential { base: reader.span()?, factor: reader.var32()? },
        4 => Backoff::Polynomial,
        _ => return Err(Damaged("its backoff is unknown")),
    };
    Ok(Retry {
        backoff,
        max_attempts: reader.option(Reader::var32)?,
        max_interval: reader.option(Reader::span)?,
        jitter: reader.u8()?,
    })
}

pub(super) fn put_lapse(lapse: Lapse, out: &mut Vec<u8>) {
    match lapse {
        Lapse::Crash { quarantine } => {
            out.put_u8(0);
            out.put_option(quarantine, |out, n| out.put_var(u64::from(n)));
        }
        Lapse::Failure => out.put_u8(1),
        Lapse::Again => out.put_u8(2),
    }
}

pub(super) fn get_lapse(reader: &mut Reader<'_>) -> Result<Lapse, Damaged> {
    match reader.u8()? {
        0 => Ok(Lapse::Crash { quarantine: reader.option(Reader::var32)? }),
        1 => Ok(Lapse::Failure),
        2 => Ok(Lapse::Again),
        _ => Err(Damaged("what its lapse means is unknown")),
    }
}

pub(super) fn put_keep(keep: Keep, out: &mut Vec<u8>) {
    match keep {
        Keep::Discard => out.put_u8(0),
        Keep::Once(span) => {
            out.put_u8(1);
            out.put_span(span);
        }
        Keep::For(span) => {
            out.put_u8(2);
            out.put_span(span);
        }
    }
}

pub(super) fn get_keep(reader: &mut Reader<'_>) -> Result<Keep, Damaged> {
    match reader.u8()? {
        0 => Ok(Keep::Discard),
        1 => Ok(Keep::Once(reader.span()?)),
        2 => Ok(Keep::For(reader.span()?)),
        _ => Err(Damaged("what becomes of its result is unknown")),
    }
}

pub(super) fn put_unique(unique: &Unique, out: &mut Vec<u8>) {
    out.put_text(&unique.key);
    out.put_u8(unique.hold.number());
    out.put_option(unique.window, Put::put_span);
}

pub(super) fn get_unique(reader: &mut Reader<'_>) -> Result<Unique, Damaged> {
    Ok(Unique {
        key: reader.text()?.into(),
        hold: Hold::read(reader)?,
        window: reader.option(Reader::span)?,
    })
}

pub(super) fn put_client_id(client_id: &ClientId, out: &mut Vec<u8>) {
    out.put_text(client_id.door.as_str());
    out.put_text(&client_id.id);
}

pub(super) fn get_client_id(reader: &mut Reader<'_>) -> Result<ClientId, Damaged> {
    Ok(ClientId { door: reader.name()?, id: reader.text()?.into() })
}

/// The fewest bytes of a limit key: a name's length, its first letter, no value.
pub(super) const LEAST_KEY: usize = 3;

pub(super) fn put_key(key: &LimitKey, out: &mut Vec<u8>) {
    out.put_text(key.limit.as_str());
    out.put_option(key.value.as_deref(), Put::put_text);
}

pub(super) fn get_key(reader: &mut Reader<'_>) -> Result<LimitKey, Damaged> {
    let limit = reader.name()?;
    let value = reader.option(Reader::text)?.map(Into::into);
    Ok(LimitKey { limit, value })
}

/// The fewest bytes of a dependency: what, which, and what is needed of it.
pub(super) const LEAST_DEPENDENCY: usize = 3;

pub(super) fn put_dependency(dependency: Dependency, out: &mut Vec<u8>) {
    let (number, id) = match dependency.on {
        Thing::Job(JobId(id)) => (0, id),
        Thing::Group(GroupId(id)) => (1, id),
    };
    out.put_u8(number);
    out.put_var(id);
    out.put_u8(dependency.needs.number());
}

pub(super) fn get_dependency(reader: &mut Reader<'_>) -> Result<Dependency, Damaged> {
    let on = match reader.u8()? {
        0 => Thing::Job(JobId(reader.var()?)),
        1 => Thing::Group(GroupId(reader.var()?)),
        _ => return Err(Damaged("what it waits for is unknown")),
    };
    Ok(Dependency { on, needs: Needs::read(reader)? })
}

pub(super) fn put_payload(payload: &Payload, out: &mut Vec<u8>) {
    out.put_u8(payload.encoding.number());
    out.put_chunk(&payload.bytes);
}

pub(super) fn get_payload(reader: &mut Reader<'_>) -> Result<Payload, Damaged> {
    Ok(Payload::new(Encoding::read(reader)?, reader.chunk()?))
}
