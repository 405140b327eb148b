//! Encoding of a job's spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use crore_core::fair::FairKey;
use crore_core::job::{ClientId, Dependency, JobRetention, Lapse, ReportFencing, ResultRetention};
use crore_core::limit::LimitKey;
use crore_core::retry::{Backoff, Retry};
use crore_core::unique::Unique;
use crore_core::version::VersionRequirement;
use crore_core::{GroupId, IndexKey, JobId, Name, OwnerId, Span, Spec};

use super::fields::PresenceBits;
use super::new_job::{get_new_job, put_new_job};
use super::policy::{
    LEAST_DEPENDENCY, LEAST_KEY, get_awaited, get_client_id, get_dependency, get_keep, get_key,
    get_lapse, get_payload, get_retry, get_unique, put_awaited, put_client_id, put_dependency,
    put_keep, put_key, put_lapse, put_payload, put_retry, put_unique,
};
use super::version::{get_version, put_version};
use super::{ByteReader, Damaged, Put};

const VERSION: u8 = 1;

const PRIORITY: u64 = 1 << 0;
const CLIENT_ID: u64 = 1 << 1;
const LIMITS: u64 = 1 << 2;
const LEASE: u64 = 1 << 3;
const UNIQUE: u64 = 1 << 4;
const RETRY: u64 = 1 << 5;
const KEEP: u64 = 1 << 6;
const TIMEOUT: u64 = 1 << 7;
const LAPSE: u64 = 1 << 8;
/// Any delivery's report counts. A flag without a value.
const REPORTS_ANY: u64 = 1 << 9;
/// Nothing is retained. A flag without a value.
const RETAIN_NOTHING: u64 = 1 << 10;
const GROUP: u64 = 1 << 11;
const AFTER: u64 = 1 << 12;
const PARENT: u64 = 1 << 13;
const LABELS: u64 = 1 << 14;
const TRACE: u64 = 1 << 15;
const PUSHER: u64 = 1 << 16;
/// The follow-up for a missed deadline.
const ON_EXPIRED: u64 = 1 << 17;
const FAIR: u64 = 1 << 18;
/// The event that the job waits for.
const WAIT_FOR: u64 = 1 << 19;
/// Costs under the limits.
const COSTS: u64 = 1 << 20;
/// Index keys of the payload.
const INDEX: u64 = 1 << 21;
const REPLAY_OF: u64 = 1 << 22;
const WORKER_VERSION: u64 = 1 << 23;
const KNOWN: u64 =
    ((1 << 17) - 1) | ON_EXPIRED | FAIR | WAIT_FOR | COSTS | INDEX | REPLAY_OF | WORKER_VERSION;

/// The usual values of version 1. Unlike the defaults of the rules, these must never change.
const USUAL_LEASE: Option<Span> = Some(Span::from_secs(30));
const USUAL_LAPSE: Lapse = Lapse::Crash { quarantine: Some(3) };
const USUAL_RETRY: Retry = Retry {
    backoff: Backoff::Exponential { base: Span::from_secs(1), factor: 2000 },
    max_attempts: Some(20),
    max_interval: Some(Span::from_secs(3600)),
    jitter: 10,
};

/// Minimum encoded length of a label: two lengths.
const LEAST_LABEL: usize = 2;

/// The part of a spec that the index needs. The names are UTF-8, but not validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpecHead<'a> {
    pub(crate) queue: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) priority: i32,
    pub(crate) limits: Vec<LimitKey>,
    pub(crate) costs: Option<Arc<[u32]>>,
    pub(crate) client_id: Option<ClientId>,
    pub(crate) fair: Option<FairKey>,
    pub(crate) version: Option<VersionRequirement>,
    /// Index keys of its labels and payload.
    pub(crate) keys: Vec<IndexKey>,
}

/// Appends the encoding of `spec`.
pub(crate) fn put_spec(spec: &Spec, out: &mut Vec<u8>) {
    let (queue, kind) = (spec.queue.as_str(), spec.kind.as_str());
    out.reserve(32 + queue.len() + kind.len() + spec.payload.bytes.len());
    let fields = fields_of(spec);
    fields.put(VERSION, out);
    out.put_text(queue);
    out.put_text(kind);
    put_head(spec, fields, out);
    put_policies(spec, fields, out);
    put_relations(spec, fields, out);
    put_payload(&spec.payload, out);
}

fn fields_of(spec: &Spec) -> PresenceBits {
    let any_report = match spec.reports {
        ReportFencing::Fenced => false,
        ReportFencing::Any => true,
    };
    let retains_nothing = match spec.retain {
        JobRetention::AsQueue => false,
        JobRetention::Nothing => true,
    };
    PresenceBits::NONE
        .with(PRIORITY, spec.priority != 0)
        .with(CLIENT_ID, spec.client_id.is_some())
        .with(LIMITS, !spec.limits.is_empty())
        .with(LEASE, spec.lease != USUAL_LEASE)
        .with(UNIQUE, spec.unique.is_some())
        .with(RETRY, spec.retry != USUAL_RETRY)
        .with(KEEP, spec.keep != ResultRetention::Discard)
        .with(TIMEOUT, spec.timeout.is_some())
        .with(LAPSE, spec.lapse != USUAL_LAPSE)
        .with(REPORTS_ANY, any_report)
        .with(RETAIN_NOTHING, retains_nothing)
        .with(GROUP, spec.group.is_some())
        .with(AFTER, !spec.after.is_empty())
        .with(PARENT, spec.parent.is_some())
        .with(LABELS, !spec.labels.is_empty())
        .with(TRACE, spec.trace.is_some())
        .with(PUSHER, spec.pusher.is_some())
        .with(FAIR, spec.fair.is_some())
        .with(COSTS, spec.costs.is_some())
        .with(INDEX, spec.index.is_some())
        .with(ON_EXPIRED, spec.on_expired.is_some())
        .with(REPLAY_OF, spec.replay_of.is_some())
        .with(WAIT_FOR, spec.wait_for.is_some())
        .with(WORKER_VERSION, spec.worker_version.is_some())
}

fn put_head(spec: &Spec, fields: PresenceBits, out: &mut Vec<u8>) {
    if fields.has(PRIORITY) {
        out.put_zig(i64::from(spec.priority));
    }
    if fields.has(LIMITS) {
        out.put_var(spec.limits.len() as u64);
        spec.limits.iter().for_each(|key| put_key(key, out));
    }
    if let Some(client_id) = &spec.client_id {
        put_client_id(client_id, out);
    }
    if let Some(fair) = &spec.fair {
        out.put_text(fair.as_str());
    }
    if let Some(version) = &spec.worker_version {
        put_version(version, out);
    }
    if let Some(costs) = &spec.costs {
        put_costs(costs, out);
    }
    if let Some(keys) = &spec.index {
        put_index_keys(keys, out);
    }
}

fn put_policies(spec: &Spec, fields: PresenceBits, out: &mut Vec<u8>) {
    if fields.has(LEASE) {
        out.put_option(spec.lease, Put::put_span);
    }
    if let Some(unique) = &spec.unique {
        put_unique(unique, out);
    }
    if fields.has(RETRY) {
        put_retry(&spec.retry, out);
    }
    if fields.has(KEEP) {
        put_keep(spec.keep, out);
    }
    if let Some(timeout) = spec.timeout {
        out.put_span(timeout);
    }
    if fields.has(LAPSE) {
        put_lapse(spec.lapse, out);
    }
}

fn put_relations(spec: &Spec, fields: PresenceBits, out: &mut Vec<u8>) {
    if let Some(GroupId(group)) = spec.group {
        out.put_var(group);
    }
    if fields.has(AFTER) {
        out.put_var(spec.after.len() as u64);
        spec.after.iter().for_each(|dependency| put_dependency(*dependency, out));
    }
    if let Some((JobId(parent), index)) = spec.parent {
        out.put_var(parent);
        out.put_var(u64::from(index));
    }
    if fields.has(LABELS) {
        out.put_var(spec.labels.len() as u64);
        for (label, value) in &spec.labels {
            out.put_text(label);
            out.put_text(value);
        }
    }
    if let Some(trace) = &spec.trace {
        out.put_text(trace);
    }
    if let Some(OwnerId(pusher)) = spec.pusher {
        out.put_var(pusher);
    }
    if let Some(next) = &spec.on_expired {
        put_new_job(next, out);
    }
    if let Some(JobId(id)) = spec.replay_of {
        out.put_var(id);
    }
    if let Some(awaited) = &spec.wait_for {
        put_awaited(awaited, out);
    }
}

/// Decodes a spec, allocating its names.
pub(crate) fn get_spec(reader: &mut ByteReader<'_>) -> Result<Spec, Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    let (queue, kind) = (reader.name()?, reader.name()?);
    get_rest(reader, fields, queue, kind)
}

/// Decodes the spec of a follow-up, which has no follow-up itself: the depth of the encoding is bounded.
pub(super) fn get_follow_up_spec(reader: &mut ByteReader<'_>) -> Result<Spec, Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    if fields.has(ON_EXPIRED) {
        return Err(Damaged("follow-up of a follow-up"));
    }
    let (queue, kind) = (reader.name()?, reader.name()?);
    get_rest(reader, fields, queue, kind)
}

/// Decodes a spec with the caller's queue and kind, skipping the stored names.
pub(crate) fn get_spec_with(
    reader: &mut ByteReader<'_>,
    queue: Name,
    kind: Name,
) -> Result<Spec, Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    reader.chunk()?;
    reader.chunk()?;
    get_rest(reader, fields, queue, kind)
}

/// Decodes only the part that the index needs; the reader stops inside the encoding.
pub(crate) fn peek_spec<'a>(reader: &mut ByteReader<'a>) -> Result<SpecHead<'a>, Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    let (queue, kind) = (reader.text()?, reader.text()?);
    let head = get_head(reader, fields)?;
    let HeadFields { priority, limits, costs, client_id, fair, version, index } = head;
    let mut keys: Vec<IndexKey> = Vec::new();
    if fields.has(LABELS) {
        // The rest of a damaged record is not looked at: reading the job reports the damage.
        keys = peek_label_keys(reader, fields).unwrap_or_default();
    }
    keys.extend(index.iter().flat_map(|keys| keys.iter()));
    Ok(SpecHead { queue, kind, priority, limits, costs, client_id, fair, version, keys })
}

fn peek_label_keys(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
) -> Result<Vec<IndexKey>, Damaged> {
    get_policies(reader, fields)?;
    get_group_relations(reader, fields)?;
    Ok(IndexKey::of_labels(&get_labels(reader)?).collect())
}

/// The fields of a spec's head behind the names.
struct HeadFields {
    priority: i32,
    limits: Vec<LimitKey>,
    costs: Option<Arc<[u32]>>,
    client_id: Option<ClientId>,
    fair: Option<FairKey>,
    version: Option<VersionRequirement>,
    index: Option<Arc<[IndexKey]>>,
}

fn get_head(reader: &mut ByteReader<'_>, fields: PresenceBits) -> Result<HeadFields, Damaged> {
    Ok(HeadFields {
        priority: fields.given(PRIORITY, || reader.zig32())?.unwrap_or(0),
        limits: fields.given(LIMITS, || reader.list(LEAST_KEY, get_key))?.unwrap_or_default(),
        client_id: fields.given(CLIENT_ID, || get_client_id(reader))?,
        fair: fields.given(FAIR, || reader.text())?.map(|text| FairKey::new(Some(text.into()))),
        version: fields.given(WORKER_VERSION, || get_version(reader))?,
        costs: fields.given(COSTS, || get_costs(reader))?,
        index: fields.given(INDEX, || get_index_keys(reader))?.map(Into::into),
    })
}

pub(crate) fn put_costs(costs: &[u32], out: &mut Vec<u8>) {
    out.put_var(costs.len() as u64);
    costs.iter().for_each(|cost| out.put_var(u64::from(*cost)));
}

pub(crate) fn get_costs(reader: &mut ByteReader<'_>) -> Result<Arc<[u32]>, Damaged> {
    reader.list(1, ByteReader::var32).map(Into::into)
}

/// Index keys, with eight bytes each.
pub(crate) fn put_index_keys(keys: &[IndexKey], out: &mut Vec<u8>) {
    out.put_var(keys.len() as u64);
    keys.iter().for_each(|key| out.put_u64(key.0));
}

pub(crate) fn get_index_keys(reader: &mut ByteReader<'_>) -> Result<Vec<IndexKey>, Damaged> {
    reader.list(8, |reader| reader.u64().map(IndexKey))
}

/// The fields between the head and the relations of a spec.
struct PolicyFields {
    lease: Option<Span>,
    unique: Option<Unique>,
    retry: Retry,
    keep: ResultRetention,
    timeout: Option<Span>,
    lapse: Lapse,
}

fn get_policies(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
) -> Result<PolicyFields, Damaged> {
    Ok(PolicyFields {
        lease: fields.given(LEASE, || reader.option(ByteReader::span))?.unwrap_or(USUAL_LEASE),
        unique: fields.given(UNIQUE, || get_unique(reader))?,
        retry: fields.given(RETRY, || get_retry(reader))?.unwrap_or(USUAL_RETRY),
        keep: fields.given(KEEP, || get_keep(reader))?.unwrap_or(ResultRetention::Discard),
        timeout: fields.given(TIMEOUT, || reader.span())?,
        lapse: fields.given(LAPSE, || get_lapse(reader))?.unwrap_or(USUAL_LAPSE),
    })
}

/// The relations before the labels of a spec.
struct GroupRelations {
    group: Option<GroupId>,
    after: Vec<Dependency>,
    parent: Option<(JobId, u32)>,
}

fn get_group_relations(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
) -> Result<GroupRelations, Damaged> {
    Ok(GroupRelations {
        group: fields.given(GROUP, || reader.var())?.map(GroupId),
        after: fields
            .given(AFTER, || reader.list(LEAST_DEPENDENCY, get_dependency))?
            .unwrap_or_default(),
        parent: fields.given(PARENT, || Ok((JobId(reader.var()?), reader.var32()?)))?,
    })
}

/// Decodes everything after the names, in the order in which it is written.
fn get_rest(
    reader: &mut ByteReader<'_>,
    fields: PresenceBits,
    queue: Name,
    kind: Name,
) -> Result<Spec, Damaged> {
    let HeadFields { priority, limits, costs, client_id, fair, version, index } =
        get_head(reader, fields)?;
    let PolicyFields { lease, unique, retry, keep, timeout, lapse } = get_policies(reader, fields)?;
    let GroupRelations { group, after, parent } = get_group_relations(reader, fields)?;
    Ok(Spec {
        queue,
        kind,
        priority,
        limits,
        costs,
        client_id: client_id.map(Box::new),
        fair,
        index,
        worker_version: version.map(Box::new),
        lease,
        unique: unique.map(Box::new),
        retry,
        keep,
        timeout,
        lapse,
        reports: if fields.has(REPORTS_ANY) { ReportFencing::Any } else { ReportFencing::Fenced },
        retain: if fields.has(RETAIN_NOTHING) {
            JobRetention::Nothing
        } else {
            JobRetention::AsQueue
        },
        group,
        after,
        parent,
        labels: fields.given(LABELS, || get_labels(reader))?.unwrap_or_default(),
        trace: fields.given(TRACE, || reader.text())?.map(Into::into),
        pusher: fields.given(PUSHER, || reader.var())?.map(OwnerId),
        on_expired: fields.given(ON_EXPIRED, || get_new_job(reader))?.map(Box::new),
        replay_of: fields.given(REPLAY_OF, || reader.var())?.map(JobId),
        wait_for: fields.given(WAIT_FOR, || get_awaited(reader))?.map(Box::new),
        payload: get_payload(reader)?,
    })
}

/// Labels are in order, so that equal specs have equal encodings.
fn get_labels(reader: &mut ByteReader<'_>) -> Result<BTreeMap<String, String>, Damaged> {
    let n = reader.count(LEAST_LABEL)?;
    let mut labels = BTreeMap::new();
    for _ in 0..n {
        let (label, value) = (reader.text()?, reader.text()?);
        if labels.last_key_value().is_some_and(|(last, _): (&String, _)| last.as_str() >= label) {
            return Err(Damaged("labels out of order"));
        }
        labels.insert(label.to_owned(), value.to_owned());
    }
    Ok(labels)
}
