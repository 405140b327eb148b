//! Converts jobs to rows and back.

use std::sync::Arc;

use crore_core::job::StoredResult;
use crore_core::unique::UniqueHold;
use crore_core::{Delivery, Job, JobId, Live, Name, Payload, Revision, Span, Spec, State, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::error::{PostgresFault, corrupt};

/// The columns of a job `j` except its payload, as [`read`] expects them.
macro_rules! columns {
    () => {
        "j.id, j.state, j.stop, j.counted, j.broken, j.waits, j.delivery, j.revision, j.attempt, \
         j.crashes, j.pushed_at, j.due, j.started_at, j.lease_until, j.ended_at, j.worker, j.why, \
         j.history, j.kept, j.result, j.spec"
    };
}
pub(super) use columns;

/// Converts to the database's signed integers.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Milliseconds for the database, limited so that they can be added to an instant.
pub(super) fn millis(span: Span) -> i64 {
    int(span.as_millis()).min(Time::MAX.as_millis())
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<String, PostgresFault> {
    serde_json::to_string(value).map_err(|e| corrupt(format!("a value cannot be written: {e}")))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, PostgresFault> {
    serde_json::from_str(text).map_err(|e| corrupt(format!("{what} cannot be read: {e}")))
}

pub(super) fn unsigned(what: &str, number: i64) -> Result<u64, PostgresFault> {
    u64::try_from(number).map_err(|_| corrupt(format!("{what} is `{number}`")))
}

pub(super) fn name(what: &str, text: &str) -> Result<Name, PostgresFault> {
    Name::new(what, text).map_err(|e| corrupt(format!("{what}: {e}")))
}

fn small(what: &str, number: i64) -> Result<u32, PostgresFault> {
    u32::try_from(number).map_err(|_| corrupt(format!("{what} is `{number}`")))
}

/// Reads a job. The caller provides the payload, which is not always needed.
pub(super) fn read(row: &PgRow, payload: Vec<u8>) -> Result<Job, PostgresFault> {
    let id: i64 = row.try_get("id")?;
    let mut spec: Spec = from_json(&format!("the spec of job {id}"), row.try_get("spec")?)?;
    spec.payload.bytes = payload.into();
    let live = read_live(row)?;
    Ok(Job { id: JobId(unsigned("an id", id)?), spec: Arc::new(spec), live })
}

fn read_live(row: &PgRow) -> Result<Live, PostgresFault> {
    let at = |column: &str| row.try_get(column).map(Time::from_millis);
    let state: i16 = row.try_get("state")?;
    let state = usize::try_from(state).ok().and_then(|nth| State::ALL.get(nth).copied());
    let worker: Option<&str> = row.try_get("worker")?;
    let why: Option<&str> = row.try_get("why")?;
    let history: Option<&str> = row.try_get("history")?;
    Ok(Live {
        state: state.ok_or_else(|| corrupt("a job has an unknown state"))?,
        stop: row.try_get("stop")?,
        counted: row.try_get("counted")?,
        broken: row.try_get("broken")?,
        waits: small("`waits`", row.try_get("waits")?)?,
        delivery: Delivery(unsigned("a delivery", row.try_get("delivery")?)?),
        revision: Revision(unsigned("a revision", row.try_get("revision")?)?),
        attempt: small("`attempt`", row.try_get("attempt")?)?,
        crashes: small("`crashes`", row.try_get("crashes")?)?,
        pushed_at: at("pushed_at")?,
        due: at("due")?,
        deadline: None,
        event: None,
        started_at: at("started_at")?,
        lease_until: at("lease_until")?,
        ended_at: row.try_get::<Option<i64>, _>("ended_at")?.map(Time::from_millis),
        worker: worker.map(|text| name("a worker", text)).transpose()?,
        why: why.map(|text| from_json("`why`", &format!("\"{text}\""))).transpose()?,
        history: history.map_or_else(|| Ok(Vec::new()), |text| from_json("a history", text))?,
        actions: Box::default(),
        result: read_kept(row)?.map(Box::new),
    })
}

fn read_kept(row: &PgRow) -> Result<Option<StoredResult>, PostgresFault> {
    let Some(text) = row.try_get::<Option<&str>, _>("kept")? else { return Ok(None) };
    let mut kept: StoredResult = from_json("a result", text)?;
    kept.payload.bytes = row.try_get::<Option<Vec<u8>>, _>("result")?.unwrap_or_default().into();
    Ok(Some(kept))
}

/// The columns that a change of a job writes.
#[derive(Debug, Default)]
pub(super) struct LiveColumns {
    pub(super) id: Vec<i64>,
    pub(super) state: Vec<i16>,
    pub(super) stop: Vec<bool>,
    pub(super) counted: Vec<bool>,
    pub(super) broken: Vec<bool>,
    pub(super) waits: Vec<i64>,
    pub(super) delivery: Vec<i64>,
    pub(super) revision: Vec<i64>,
    pub(super) attempt: Vec<i64>,
    pub(super) crashes: Vec<i64>,
    pub(super) due: Vec<i64>,
    pub(super) ended_at: Vec<Option<i64>>,
    pub(super) why: Vec<Option<String>>,
    pub(super) history: Vec<Option<String>>,
    pub(super) kept: Vec<Option<String>>,
    pub(super) result: Vec<Option<Vec<u8>>>,
}

impl LiveColumns {
    pub(super) fn add(&mut self, job: &Job) -> Result<(), PostgresFault> {
        let live = &job.live;
        self.id.push(int(job.id.0));
        self.state.push(live.state as i16);
        self.stop.push(live.stop);
        self.counted.push(live.counted);
        self.broken.push(live.broken);
        self.waits.push(live.waits.into());
        self.delivery.push(int(live.delivery.0));
        self.revision.push(int(live.revision.0));
        self.attempt.push(live.attempt.into());
        self.crashes.push(live.crashes.into());
        self.due.push(live.due.as_millis());
        self.ended_at.push(live.ended_at.map(Time::as_millis));
        let why = live.why.as_ref().map(json).transpose()?;
        self.why.push(why.map(|text| text.trim_matches('"').to_owned()));
        let past = !live.history.is_empty();
        self.history.push(past.then(|| json(&live.history)).transpose()?);
        self.kept.push(live.result.as_deref().map(kept_without_bytes).transpose()?);
        self.result.push(live.result.as_ref().map(|kept| kept.payload.bytes.to_vec()));
        Ok(())
    }
}

fn kept_without_bytes(kept: &StoredResult) -> Result<String, PostgresFault> {
    json(&StoredResult { payload: Payload::new(kept.payload.encoding, []), ..kept.clone() })
}

/// The columns that a push or an edit writes.
#[derive(Debug, Default)]
pub(super) struct SpecColumns {
    pub(super) id: Vec<i64>,
    pub(super) queue: Vec<String>,
    pub(super) kind: Vec<String>,
    pub(super) limits: Vec<Option<String>>,
    pub(super) priority: Vec<i32>,
    pub(super) lease: Vec<Option<i64>>,
    pub(super) start_key: Vec<Option<Vec<u8>>>,
    pub(super) spec: Vec<String>,
    pub(super) payload: Vec<Vec<u8>>,
}

impl SpecColumns {
    pub(super) fn add(&mut self, job: &Job) -> Result<(), PostgresFault> {
        let spec = &*job.spec;
        let bare = Spec { payload: Payload::new(spec.payload.encoding, []), ..spec.clone() };
        let limited = !spec.limits.is_empty();
        self.id.push(int(job.id.0));
        self.queue.push(spec.queue.as_str().to_owned());
        self.kind.push(spec.kind.as_str().to_owned());
        self.limits.push(limited.then(|| json(&spec.limits)).transpose()?);
        self.priority.push(spec.priority);
        self.lease.push(spec.lease.map(millis));
        let at_start = spec.unique.as_ref().filter(|unique| unique.hold == UniqueHold::UntilStart);
        self.start_key.push(at_start.map(|unique| super::keys::unique_key(&unique.key)));
        self.spec.push(json(&bare)?);
        self.payload.push(spec.payload.bytes.to_vec());
        Ok(())
    }
}
