//! Encoding of a job's live state.

use crore_core::event::ReceivedEvent;
use crore_core::job::{
    Attempt, DeliveryEnd, EndReason, ManualAction, ManualActionType, ReportDetails, StoredResult,
};
use crore_core::{
    Delivery, EventId, EventWait, Fingerprint, IndexKey, Live, Name, Revision, State, Time,
};

use super::fields::PresenceBits;
use super::numbers::StoredNumber as _;
use super::policy::{get_payload, put_payload};
use super::{ByteReader, Damaged, Put};

const VERSION: u8 = 1;

const STARTED_AT: u64 = 1 << 0;
const LEASE_UNTIL: u64 = 1 << 1;
const ATTEMPT: u64 = 1 << 2;
const WORKER: u64 = 1 << 3;
const DUE: u64 = 1 << 4;
const ENDED_AT: u64 = 1 << 5;
const HISTORY: u64 = 1 << 6;
const RESULT: u64 = 1 << 7;
/// Only with a result: the first reader removes it. A flag without a value.
const RESULT_ONCE: u64 = 1 << 8;
const WHY: u64 = 1 << 9;
const CRASHES: u64 = 1 << 10;
const WAITS: u64 = 1 << 11;
/// These three are flags without a value.
const STOP: u64 = 1 << 12;
const COUNTED: u64 = 1 << 13;
const BROKEN: u64 = 1 << 14;
/// Only with a history: details of the reports, one value for each attempt.
const DETAILS: u64 = 1 << 15;
/// The deadline for the first start.
const DEADLINE: u64 = 1 << 16;
/// The wait for an event.
const EVENT: u64 = 1 << 17;
/// Actions by hand.
const ACTIONS: u64 = 1 << 19;
const KNOWN: u64 = ((1 << 16) - 1) | DEADLINE | EVENT | ACTIONS;

/// Minimum encoded length of an attempt: one byte per field.
const LEAST_ATTEMPT: usize = 6;
/// Minimum encoded length of an action: one byte per field.
const LEAST_ACTION: usize = 4;

/// The part of a live state that the index needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveHead {
    pub(crate) state: State,
    pub(crate) broken: bool,
    pub(crate) delivery: Delivery,
    pub(crate) revision: Revision,
    pub(crate) pushed_at: Time,
    pub(crate) due: Time,
    pub(crate) lease_until: Time,
    pub(crate) ended_at: Option<Time>,
    /// When the result expires, if there is one.
    pub(crate) result_until: Option<Time>,
    pub(crate) deadline: Option<Time>,
    /// Index key of the newest error; set by [`peek_live`] only.
    pub(crate) error: Option<IndexKey>,
}

/// Appends the encoding of `live`.
pub(crate) fn put_live(live: &Live, out: &mut Vec<u8>) {
    out.reserve(64);
    let fields = fields_of(live);
    fields.put(VERSION, out);
    put_head(live, fields, out);
    put_counts(live, fields, out);
    if let Some(worker) = &live.worker {
        out.put_text(worker.as_str());
    }
    if let Some(why) = live.why {
        out.put_u8(why.number());
    }
    if let Some(wait) = &live.event {
        put_wait(wait, live.pushed_at, out);
    }
    if fields.has(HISTORY) {
        out.put_var(live.history.len() as u64);
        live.history.iter().for_each(|attempt| put_attempt(attempt, live, out));
    }
    if fields.has(DETAILS) {
        live.history.iter().for_each(|attempt| put_details(attempt, out));
    }
    if fields.has(ACTIONS) {
        out.put_var(live.actions.len() as u64);
        live.actions.iter().for_each(|action| put_action(action, live, out));
    }
    if let Some(kept) = &live.result {
        put_payload(&kept.payload, out);
    }
}

fn fields_of(live: &Live) -> PresenceBits {
    PresenceBits::NONE
        .with(STARTED_AT, live.started_at != Time::ZERO)
        .with(LEASE_UNTIL, live.lease_until != Time::ZERO)
        .with(ATTEMPT, live.attempt != 0)
        .with(WORKER, live.worker.is_some())
        .with(DUE, live.due != live.pushed_at)
        .with(ENDED_AT, live.ended_at.is_some())
        .with(HISTORY, !live.history.is_empty())
        .with(RESULT, live.result.is_some())
        .with(RESULT_ONCE, live.result.as_ref().is_some_and(|kept| kept.once))
        .with(WHY, live.why.is_some())
        .with(CRASHES, live.crashes != 0)
        .with(WAITS, live.waits != 0)
        .with(STOP, live.stop)
        .with(COUNTED, live.counted)
        .with(BROKEN, live.broken)
        .with(DETAILS, live.history.iter().any(|attempt| !attempt.details.is_empty()))
        .with(DEADLINE, live.deadline.is_some())
        .with(ACTIONS, !live.actions.is_empty())
        .with(EVENT, live.event.is_some())
}

fn put_head(live: &Live, fields: PresenceBits, out: &mut Vec<u8>) {
    out.put_u8(live.state.number());
    out.put_var(live.delivery.0);
    out.put_var(live.revision.0);
    out.put_time(Time::ZERO, live.pushed_at);
    if fields.has(DUE) {
        out.put_time(live.pushed_at, live.due);
    }
    if fields.has(LEASE_UNTIL) {
        out.put_time(live.pushed_at, live.lease_until);
    }
    if let Some(ended_at) = live.ended_at {
        out.put_time(live.pushed_at, ended_at);
    }
    if let Some(kept) = &live.result {
        out.put_time(live.pushed_at, kept.until);
    }
    if let Some(deadline) = live.deadline {
        out.put_time(live.pushed_at, deadline);
    }
}

fn put_counts(live: &Live, fields: PresenceBits, out: &mut Vec<u8>) {
    if fields.has(STARTED_AT) {
        out.put_time(live.pushed_at, live.started_at);
    }
    for (bit, number) in [(WAITS, live.waits), (ATTEMPT, live.attempt), (CRASHES, live.crashes)] {
        if fields.has(bit) {
            out.put_var(u64::from(number));
        }
    }
}

/// The delivery is relative to the newest one, and the end to the start: the differences are small.
fn put_attempt(attempt: &Attempt, live: &Live, out: &mut Vec<u8>) {
    out.put_zig(live.delivery.0.wrapping_sub(attempt.delivery.0).cast_signed());
    out.put_time(live.pushed_at, attempt.started_at);
    out.put_time(attempt.started_at, attempt.ended_at);
    out.put_option(attempt.worker.as_ref(), |out, worker| out.put_text(worker.as_str()));
    out.put_u8(attempt.ended.number());
    out.put_option(attempt.error.as_deref(), Put::put_text);
}

fn put_wait(wait: &EventWait, pushed_at: Time, out: &mut Vec<u8>) {
    match wait {
        EventWait::Open { until } => {
            out.put_u8(0);
            out.put_option(*until, |out, until| out.put_time(pushed_at, until));
        }
        EventWait::Received(event) => {
            out.put_u8(1);
            out.put_var(event.id.0);
            out.put_time(pushed_at, event.sent_at);
        }
        EventWait::TimedOut => out.put_u8(2),
    }
}

fn get_wait(reader: &mut ByteReader<'_>, pushed_at: Time) -> Result<EventWait, Damaged> {
    match reader.u8()? {
        0 => Ok(EventWait::Open { until: reader.option(|reader| reader.time(pushed_at))? }),
        1 => {
            let (id, sent_at) = (EventId(reader.var()?), reader.time(pushed_at)?);
            Ok(EventWait::Received(ReceivedEvent { id, sent_at, payload: None }))
        }
        2 => Ok(EventWait::TimedOut),
        _ => Err(Damaged("unknown wait for an event")),
    }
}

fn put_details(attempt: &Attempt, out: &mut Vec<u8>) {
    let ReportDetails { finished_at, reason } = &attempt.details;
    out.put_option(finished_at.as_ref(), |out, at| out.put_time(attempt.ended_at, *at));
    out.put_option(reason.as_deref(), Put::put_text);
}

fn put_action(action: &ManualAction, live: &Live, out: &mut Vec<u8>) {
    out.put_time(live.pushed_at, action.at);
    out.put_u8(action.action.number());
    out.put_text(&action.by);
    out.put_option(action.detail.as_deref(), Put::put_text);
}

fn get_action(reader: &mut ByteReader<'_>, head: &LiveHead) -> Result<ManualAction, Damaged> {
    Ok(ManualAction {
        at: reader.time(head.pushed_at)?,
        action: ManualActionType::read(reader)?,
        by: reader.text()?.into(),
        detail: reader.option(ByteReader::text)?.map(Into::into),
    })
}

fn get_details(reader: &mut ByteReader<'_>, ended_at: Time) -> Result<ReportDetails, Damaged> {
    Ok(ReportDetails {
        finished_at: reader.option(|reader| reader.time(ended_at))?,
        reason: reader.option(ByteReader::text)?.map(Into::into),
    })
}

fn get_history(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
    head: &LiveHead,
) -> Result<Vec<Attempt>, Damaged> {
    let history =
        fields.given(HISTORY, || reader.list(LEAST_ATTEMPT, |reader| get_attempt(reader, head)))?;
    let mut history = history.unwrap_or_default();
    if fields.has(DETAILS) {
        for attempt in &mut history {
            attempt.details = get_details(reader, attempt.ended_at)?;
        }
    }
    Ok(history)
}

/// Decodes a live state.
pub(crate) fn get_live(reader: &mut ByteReader<'_>) -> Result<Live, Damaged> {
    let (fields, head) = get_head(reader)?;
    let counts = get_counts(reader, fields, &head)?;
    Ok(Live {
        state: head.state,
        stop: fields.has(STOP),
        counted: fields.has(COUNTED),
        broken: head.broken,
        delivery: head.delivery,
        revision: head.revision,
        pushed_at: head.pushed_at,
        due: head.due,
        deadline: head.deadline,
        lease_until: head.lease_until,
        ended_at: head.ended_at,
        started_at: counts.started_at,
        waits: counts.waits,
        attempt: counts.attempt,
        crashes: counts.crashes,
        worker: counts.worker,
        why: counts.why,
        event: counts.event.map(Box::new),
        history: get_history(reader, fields, &head)?,
        actions: fields
            .given(ACTIONS, || reader.list(LEAST_ACTION, |reader| get_action(reader, &head)))?
            .unwrap_or_default()
            .into(),
        result: match head.result_until {
            Some(until) => {
                let once = fields.has(RESULT_ONCE);
                Some(Box::new(StoredResult { payload: get_payload(reader)?, until, once }))
            }
            None => None,
        },
    })
}

/// Decodes only the part that the index needs; the reader stops inside the encoding.
pub(crate) fn peek_live(reader: &mut ByteReader<'_>) -> Result<LiveHead, Damaged> {
    let (fields, mut head) = get_head(reader)?;
    if fields.has(HISTORY) {
        // The rest of a damaged record is not looked at: reading the job reports the damage.
        head.error = peek_newest_error(reader, fields, &head).unwrap_or_default();
    }
    Ok(head)
}

fn peek_newest_error(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
    head: &LiveHead,
) -> Result<Option<IndexKey>, Damaged> {
    get_counts(reader, fields, head)?;
    let history = reader.list(LEAST_ATTEMPT, peek_error)?;
    let newest = history.into_iter().flatten().next();
    Ok(newest.map(|error| IndexKey::error(Fingerprint::of(error))))
}

/// The error of an attempt, whose other fields are skipped.
fn peek_error<'a>(reader: &mut ByteReader<'a>) -> Result<Option<&'a str>, Damaged> {
    for _delivery_and_times in 0..3 {
        reader.zig()?;
    }
    reader.option(ByteReader::chunk)?;
    reader.u8()?;
    reader.option(ByteReader::text)
}

/// The fields between the head and the history.
struct CountFields {
    started_at: Time,
    waits: u32,
    attempt: u32,
    crashes: u32,
    worker: Option<Name>,
    why: Option<EndReason>,
    event: Option<EventWait>,
}

fn get_counts(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
    head: &LiveHead,
) -> Result<CountFields, Damaged> {
    Ok(CountFields {
        started_at: fields.given(STARTED_AT, || reader.time(head.pushed_at))?.unwrap_or(Time::ZERO),
        waits: fields.given(WAITS, || reader.var32())?.unwrap_or(0),
        attempt: fields.given(ATTEMPT, || reader.var32())?.unwrap_or(0),
        crashes: fields.given(CRASHES, || reader.var32())?.unwrap_or(0),
        worker: fields.given(WORKER, || reader.name())?,
        why: fields.given(WHY, || EndReason::read(reader))?,
        event: fields.given(EVENT, || get_wait(reader, head.pushed_at))?,
    })
}

fn get_head(reader: &mut ByteReader<'_>) -> Result<(PresenceBits, LiveHead), Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    if fields.has(RESULT_ONCE) && !fields.has(RESULT) {
        return Err(Damaged("read-once flag without a result"));
    }
    if fields.has(DETAILS) && !fields.has(HISTORY) {
        return Err(Damaged("details without a history"));
    }
    let state = State::read(reader)?;
    let delivery = Delivery(reader.var()?);
    let revision = Revision(reader.var()?);
    let pushed_at = reader.time(Time::ZERO)?;
    let mut time = |bit| fields.given(bit, || reader.time(pushed_at));
    let head = LiveHead {
        state,
        broken: fields.has(BROKEN),
        delivery,
        revision,
        pushed_at,
        due: time(DUE)?.unwrap_or(pushed_at),
        lease_until: time(LEASE_UNTIL)?.unwrap_or(Time::ZERO),
        ended_at: time(ENDED_AT)?,
        result_until: time(RESULT)?,
        deadline: time(DEADLINE)?,
        error: None,
    };
    Ok((fields, head))
}

fn get_attempt(reader: &mut ByteReader<'_>, head: &LiveHead) -> Result<Attempt, Damaged> {
    let delivery = Delivery(head.delivery.0.wrapping_sub(reader.zig()?.cast_unsigned()));
    let started_at = reader.time(head.pushed_at)?;
    Ok(Attempt {
        delivery,
        started_at,
        ended_at: reader.time(started_at)?,
        worker: reader.option(ByteReader::name)?,
        ended: DeliveryEnd::read(reader)?,
        error: reader.option(ByteReader::text)?.map(Into::into),
        details: ReportDetails::default(),
    })
}
