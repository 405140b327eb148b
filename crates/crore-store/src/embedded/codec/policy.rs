//! Encodings of a job's policies and of the other composite fields of a spec.

use crore_core::event::OnEventTimeout;
use crore_core::job::{
    ClientId, Dependency, DependencyCondition, DependencyTarget, Lapse, ResultRetention,
};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::{Unique, UniqueHold};
use crore_core::{AwaitedEvent, Encoding, GroupId, JobId, Payload};

use super::numbers::StoredNumber as _;
use super::{ByteReader, Damaged, Put};

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

pub(super) fn get_retry(reader: &mut ByteReader<'_>) -> Result<Retry, Damaged> {
    let backoff = match reader.u8()? {
        0 => Backoff::None,
        1 => Backoff::Constant { every: reader.span()? },
        2 => Backoff::Linear { step: reader.span()? },
        3 => Backoff::Exponential { base: reader.span()?, factor: reader.var32()? },
        4 => Backoff::Polynomial,
        _ => return Err(Damaged("unknown backoff")),
    };
    Ok(Retry {
        backoff,
        max_attempts: reader.option(ByteReader::var32)?,
        max_interval: reader.option(ByteReader::span)?,
        jitter: reader.u8()?,
    })
}

pub(super) fn put_awaited(awaited: &AwaitedEvent, out: &mut Vec<u8>) {
    out.put_text(awaited.name.as_str());
    out.put_option(awaited.timeout, Put::put_span);
    out.put_u8(awaited.on_timeout.number());
}

pub(super) fn get_awaited(reader: &mut ByteReader<'_>) -> Result<AwaitedEvent, Damaged> {
    Ok(AwaitedEvent {
        name: reader.name()?,
        timeout: reader.option(ByteReader::span)?,
        on_timeout: OnEventTimeout::read(reader)?,
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

pub(super) fn get_lapse(reader: &mut ByteReader<'_>) -> Result<Lapse, Damaged> {
    match reader.u8()? {
        0 => Ok(Lapse::Crash { quarantine: reader.option(ByteReader::var32)? }),
        1 => Ok(Lapse::Failure),
        2 => Ok(Lapse::Again),
        _ => Err(Damaged("unknown lapse policy")),
    }
}

pub(super) fn put_keep(keep: ResultRetention, out: &mut Vec<u8>) {
    match keep {
        ResultRetention::Discard => out.put_u8(0),
        ResultRetention::Once(span) => {
            out.put_u8(1);
            out.put_span(span);
        }
        ResultRetention::For(span) => {
            out.put_u8(2);
            out.put_span(span);
        }
    }
}

pub(super) fn get_keep(reader: &mut ByteReader<'_>) -> Result<ResultRetention, Damaged> {
    match reader.u8()? {
        0 => Ok(ResultRetention::Discard),
        1 => Ok(ResultRetention::Once(reader.span()?)),
        2 => Ok(ResultRetention::For(reader.span()?)),
        _ => Err(Damaged("unknown result retention")),
    }
}

pub(super) fn put_unique(unique: &Unique, out: &mut Vec<u8>) {
    out.put_text(&unique.key);
    out.put_u8(unique.hold.number());
    out.put_option(unique.window, Put::put_span);
}

pub(super) fn get_unique(reader: &mut ByteReader<'_>) -> Result<Unique, Damaged> {
    Ok(Unique {
        key: reader.text()?.into(),
        hold: UniqueHold::read(reader)?,
        window: reader.option(ByteReader::span)?,
    })
}

pub(super) fn put_client_id(client_id: &ClientId, out: &mut Vec<u8>) {
    out.put_text(client_id.door.as_str());
    out.put_text(&client_id.id);
}

pub(super) fn get_client_id(reader: &mut ByteReader<'_>) -> Result<ClientId, Damaged> {
    Ok(ClientId { door: reader.name()?, id: reader.text()?.into() })
}

/// Minimum encoded length of a limit key: length and one letter of the name, no value.
pub(super) const LEAST_KEY: usize = 3;

pub(super) fn put_key(key: &LimitKey, out: &mut Vec<u8>) {
    out.put_text(key.limit.as_str());
    out.put_option(key.value.as_deref(), Put::put_text);
}

pub(super) fn get_key(reader: &mut ByteReader<'_>) -> Result<LimitKey, Damaged> {
    let limit = reader.name()?;
    let value = reader.option(ByteReader::text)?.map(Into::into);
    Ok(LimitKey { limit, value })
}

/// Minimum encoded length of a dependency: type, id, need.
pub(super) const LEAST_DEPENDENCY: usize = 3;

pub(super) fn put_dependency(dependency: Dependency, out: &mut Vec<u8>) {
    let (number, id) = match dependency.on {
        DependencyTarget::Job(JobId(id)) => (0, id),
        DependencyTarget::Group(GroupId(id)) => (1, id),
    };
    out.put_u8(number);
    out.put_var(id);
    out.put_u8(dependency.needs.number());
}

pub(super) fn get_dependency(reader: &mut ByteReader<'_>) -> Result<Dependency, Damaged> {
    let on = match reader.u8()? {
        0 => DependencyTarget::Job(JobId(reader.var()?)),
        1 => DependencyTarget::Group(GroupId(reader.var()?)),
        _ => return Err(Damaged("unknown dependency")),
    };
    Ok(Dependency { on, needs: DependencyCondition::read(reader)? })
}

pub(crate) fn put_payload(payload: &Payload, out: &mut Vec<u8>) {
    out.put_u8(payload.encoding.number());
    out.put_chunk(&payload.bytes);
}

pub(crate) fn get_payload(reader: &mut ByteReader<'_>) -> Result<Payload, Damaged> {
    Ok(Payload::new(Encoding::read(reader)?, reader.chunk()?))
}
