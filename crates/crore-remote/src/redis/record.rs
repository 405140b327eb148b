//! The record of a job: a hash of flat fields that scripts change, and the spec as one MessagePack map with
//! field names. The payload and the fields that the store fills in are separate.
//!
//! This is a stored format: a new field needs a default, and a changed field a new version.

use std::collections::HashMap;
use std::sync::Arc;

use crore_core::group::Group;
use crore_core::job::{
    Attempt, Dependency, DependencyCondition, DependencyTarget, ReportDetails, StoredResult,
};
use crore_core::{GroupId, Job, JobId, Live, Name, Payload, Revision, Spec, Time};
use crore_store::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::names::{Layout, SlotIndex};
use super::pack::Arg;
use super::reply::{ScriptReply, corrupt, number};

/// The stored name of an enum variant.
pub(super) fn variant_name<T: Serialize>(value: &T) -> Result<String, Error> {
    let packed = rmp_serde::to_vec(value).map_err(|e| corrupt(e.to_string()))?;
    rmp_serde::from_slice(&packed).map_err(|e| corrupt(e.to_string()))
}

pub(super) fn parse_variant<T: DeserializeOwned>(word: &[u8]) -> Result<T, Error> {
    let word = String::from_utf8_lossy(word);
    let packed = rmp_serde::to_vec(&word).map_err(|e| corrupt(e.to_string()))?;
    rmp_serde::from_slice(&packed).map_err(|e| corrupt(format!("`{word}`: {e}")))
}

/// The stored spec, without the fields that are stored separately.
pub(super) fn spec_bytes(spec: &Spec) -> Result<Vec<u8>, Error> {
    let bare = Spec {
        payload: Payload::new(spec.payload.encoding, Vec::new()),
        group: None,
        after: Vec::new(),
        parent: None,
        ..spec.clone()
    };
    rmp_serde::to_vec_named(&bare).map_err(|e| corrupt(e.to_string()))
}

/// The fields that determine a job's position in its lane, for a new job and an edit alike.
pub(super) fn spec_fields(spec: &Spec) -> Result<Vec<(&'static str, Arg)>, Error> {
    let mut fields = vec![
        ("spec", spec_bytes(spec)?.into()),
        ("queue", super::names::escape(spec.queue.as_str()).into()),
        ("kind", super::names::escape(spec.kind.as_str()).into()),
        ("lane", super::names::lane(spec).into()),
        ("priority", i64::from(spec.priority).into()),
    ];
    if let Some(lease) = spec.lease {
        fields.push(("lease", lease.as_millis().min(Time::MAX.as_millis().unsigned_abs()).into()));
    }
    Ok(fields)
}

pub(super) fn target_text(thing: DependencyTarget) -> String {
    match thing {
        DependencyTarget::Job(id) => format!("j{id}"),
        DependencyTarget::Group(id) => format!("g{id}"),
    }
}

pub(super) const fn needs_text(needs: DependencyCondition) -> &'static str {
    match needs {
        DependencyCondition::End => "end",
        DependencyCondition::Success => "success",
    }
}

/// The stored form of dependencies: `j12:end,g7:success`.
pub(super) fn after_text(after: &[Dependency]) -> String {
    let one = |d: &Dependency| format!("{}:{}", target_text(d.on), needs_text(d.needs));
    after.iter().map(one).collect::<Vec<_>>().join(",")
}

fn read_after(text: &str) -> Option<Vec<Dependency>> {
    let one = |text: &str| {
        let (thing, needs) = text.split_once(':')?;
        let id = thing.get(1..)?.parse().ok()?;
        let on = match thing.get(..1)? {
            "j" => DependencyTarget::Job(JobId(id)),
            "g" => DependencyTarget::Group(GroupId(id)),
            _ => return None,
        };
        let needs =
            if needs == "end" { DependencyCondition::End } else { DependencyCondition::Success };
        Some(Dependency { on, needs })
    };
    text.split(',').map(one).collect()
}

/// Reads the counts of a group from a script's reply.
pub(super) fn read_group(reply: ScriptReply) -> Result<Group, Error> {
    let [size, ran, succeeded, sealed, revision, lost] = reply.parts()?;
    Ok(Group {
        size: size.id()?,
        ran: ran.id()?,
        succeeded: succeeded.id()?,
        sealed: sealed.number()? == 1,
        lost: lost.number()? == 1,
        revision: Revision(revision.id()?),
        maker: None,
    })
}

/// The fields of one record.
struct RecordFields(HashMap<String, Vec<u8>>);

impl RecordFields {
    fn text(&self, field: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.0.get(field) else { return Ok(None) };
        let text = String::from_utf8(bytes.clone());
        text.map(Some).map_err(|_| corrupt(format!("`{field}` is not UTF-8")))
    }

    fn number<T: std::str::FromStr>(&self, field: &str) -> Result<Option<T>, Error> {
        self.0.get(field).map(|digits| number(digits)).transpose()
    }

    fn count<T: std::str::FromStr + Default>(&self, field: &str) -> Result<T, Error> {
        Ok(self.number(field)?.unwrap_or_default())
    }

    fn time(&self, field: &str) -> Result<Option<Time>, Error> {
        Ok(self.number(field)?.map(Time::from_millis))
    }

    fn is_set(&self, field: &str) -> bool {
        self.0.get(field).is_some_and(|value| value == b"1")
    }

    fn bytes(&self, field: &str) -> &[u8] {
        self.0.get(field).map_or(&[], Vec::as_slice)
    }
}

/// Reads a record; `None` if it does not exist.
pub(super) fn read(layout: &Layout, id: JobId, reply: ScriptReply) -> Result<Option<Job>, Error> {
    let mut fields = HashMap::new();
    let mut parts = reply.list()?.into_iter();
    while let (Some(field), Some(value)) = (parts.next(), parts.next()) {
        fields.insert(field.text()?, value.bytes()?);
    }
    if fields.is_empty() {
        return Ok(None);
    }
    let at = |error| match error {
        Error::Corrupt { what } => corrupt(format!("job {id}: {what}")),
        other => other,
    };
    let fields = RecordFields(fields);
    let slot = layout.of_job(id);
    let live = read_live(layout, slot, &fields).map_err(at)?;
    let spec = Arc::new(read_spec(&fields).map_err(at)?);
    Ok(Some(Job { id, spec, live }))
}

fn read_spec(fields: &RecordFields) -> Result<Spec, Error> {
    let mut spec: Spec =
        rmp_serde::from_slice(fields.bytes("spec")).map_err(|e| corrupt(format!("spec: {e}")))?;
    spec.payload = Payload::new(spec.payload.encoding, fields.bytes("payload").to_vec());
    spec.group = fields.number("group")?.map(GroupId);
    if let Some(text) = fields.text("after")? {
        spec.after = read_after(&text).ok_or_else(|| corrupt(format!("after: `{text}`")))?;
    }
    if let Some(text) = fields.text("parent")? {
        let parts =
            text.split_once(':').and_then(|(job, n)| Some((job.parse().ok()?, n.parse().ok()?)));
        let (job, n) = parts.ok_or_else(|| corrupt(format!("parent: `{text}`")))?;
        spec.parent = Some((JobId(job), n));
    }
    Ok(spec)
}

fn read_live(layout: &Layout, slot: SlotIndex, fields: &RecordFields) -> Result<Live, Error> {
    let worker = fields.text("worker")?.map(Name::try_from).transpose()?;
    Ok(Live {
        state: parse_variant(fields.bytes("state"))?,
        stop: fields.is_set("stop"),
        counted: fields.is_set("counted"),
        broken: fields.is_set("broken"),
        waits: fields.count("waits")?,
        delivery: layout.delivery(slot, fields.count("delivery")?),
        revision: Revision(fields.count("revision")?),
        attempt: fields.count("attempt")?,
        crashes: fields.count("crashes")?,
        pushed_at: fields.time("pushed")?.unwrap_or_default(),
        due: fields.time("due")?.unwrap_or_default(),
        deadline: None,
        event: None,
        started_at: fields.time("started")?.unwrap_or_default(),
        lease_until: fields.time("lease_until")?.unwrap_or_default(),
        ended_at: fields.time("ended")?,
        worker,
        why: fields.0.get("why").map(|why| parse_variant(why)).transpose()?,
        history: read_history(layout, slot, fields.bytes("history"))?,
        actions: Box::default(),
        result: read_result(fields)?.map(Box::new),
    })
}

fn read_history(layout: &Layout, slot: SlotIndex, packed: &[u8]) -> Result<Vec<Attempt>, Error> {
    /// Rows of earlier versions have no details.
    #[derive(serde::Deserialize)]
    struct AttemptRow(u64, i64, i64, String, String, String, #[serde(default)] String);
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<AttemptRow> =
        rmp_serde::from_slice(packed).map_err(|e| corrupt(format!("history: {e}")))?;
    let one = |AttemptRow(tick, started, ended_at, worker, ended, error, details): AttemptRow| {
        let details = match details.as_str() {
            "" => ReportDetails::default(),
            text => serde_json::from_str(text).map_err(|e| corrupt(format!("history: {e}")))?,
        };
        Ok(Attempt {
            details,
            delivery: layout.delivery(slot, tick),
            started_at: Time::from_millis(started),
            ended_at: Time::from_millis(ended_at),
            worker: (!worker.is_empty()).then(|| Name::try_from(worker)).transpose()?,
            ended: parse_variant(ended.as_bytes())?,
            error: error.strip_prefix('=').map(Arc::from),
        })
    };
    rows.into_iter().map(one).collect()
}

fn read_result(fields: &RecordFields) -> Result<Option<StoredResult>, Error> {
    let Some(until) = fields.time("result_until")? else { return Ok(None) };
    let encoding = parse_variant(fields.bytes("result_is"))?;
    let payload = Payload::new(encoding, fields.bytes("result").to_vec());
    Ok(Some(StoredResult { payload, until, once: fields.is_set("result_once") }))
}
