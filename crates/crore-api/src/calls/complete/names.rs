//! Names, labels and fields of stored jobs, for completion. They are read again when they are older than some seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crore::store::views::ListQuery;
use crore_core::{Job, Name, State};
use serde_json::Value;
use tokio::time::Instant;

use super::term::quoted;
use crate::mask::FieldMask;
use crate::{Api, Fault, Grant};

/// After this time the names are read again.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Number of jobs of each state whose labels and payloads are read.
const SAMPLES: usize = 10;
/// Maximum size of a payload that is parsed.
const MAX_PAYLOAD: usize = 64 << 10;
/// Maximum number of fields of a payload, and depth of objects in it.
const MAX_FIELDS: usize = 50;
const MAX_DEPTH: usize = 3;
/// Maximum length of a suggested value, in bytes.
const MAX_VALUE: usize = 64;

/// The names that were read last.
#[derive(Debug, Default)]
pub(crate) struct NameCache(Mutex<Option<(Instant, Arc<KnownNames>)>>);

impl NameCache {
    fn cached(&self) -> MutexGuard<'_, Option<(Instant, Arc<KnownNames>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names in stored jobs.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    queues: BTreeMap<Name, u64>,
    kinds: BTreeMap<Name, u64>,
    samples: Vec<SampledJob>,
}

/// Labels and fields of a job.
#[derive(Debug)]
struct SampledJob {
    queue: Name,
    kind: Name,
    labels: Vec<(String, String)>,
    /// Scalars of the payload, with their paths.
    fields: Vec<(String, String)>,
}

impl Api {
    /// Names in stored jobs, at most some seconds old.
    pub(super) async fn known_names(&self) -> Result<Arc<KnownNames>, Fault> {
        if let Some((at, names)) = &*self.names().cached()
            && at.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(names));
        }
        let mut names = KnownNames::default();
        for count in self.engine().jobs().counts(None).await? {
            *names.queues.entry(count.queue).or_default() += count.n;
            *names.kinds.entry(count.kind).or_default() += count.n;
        }
        for state in State::ALL {
            let query =
                ListQuery { state, queue: None, kind: None, key: None, after: None, n: SAMPLES };
            let jobs = self.engine().list(query).await?.jobs;
            names.samples.extend(jobs.iter().map(|job| SampledJob::of(job, self.mask())));
        }
        let names = Arc::new(names);
        *self.names().cached() = Some((Instant::now(), Arc::clone(&names)));
        Ok(names)
    }
}

impl SampledJob {
    /// Masked fields are left out.
    fn of(job: &Job, mask: &FieldMask) -> Self {
        let labels = job.spec.labels.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut fields = Vec::new();
        let bytes = &job.spec.payload.bytes;
        if bytes.len() <= MAX_PAYLOAD
            && let Ok(payload) = serde_json::from_slice::<Value>(bytes)
        {
            collect_fields(&payload, "", (MAX_DEPTH, mask), &mut fields);
        }
        let (queue, kind) = (job.spec.queue.clone(), job.spec.kind.clone());
        Self { queue, kind, labels: labels.collect(), fields }
    }
}

/// Collects the scalars of an object whose paths can be written in a filter.
fn collect_fields(
    value: &Value,
    path: &str,
    (depth, mask): (usize, &FieldMask),
    fields: &mut Vec<(String, String)>,
) {
    let Value::Object(object) = value else {
        let text = match value {
            Value::String(text) if text.len() <= MAX_VALUE => quoted(text),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => String::new(),
        };
        if !path.is_empty() && !matches!(value, Value::Array(_)) {
            fields.push((path.to_owned(), text));
        }
        return;
    };
    for (name, inner) in object {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        if depth == 0
            || fields.len() >= MAX_FIELDS
            || name.is_empty()
            || !name.chars().all(is_plain)
            || mask.covers(name)
        {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect_fields(inner, &path, (depth - 1, mask), fields);
    }
}

impl KnownNames {
    pub(super) fn queues(&self, grant: &Grant) -> impl Iterator<Item = (String, u64)> {
        let covered = |queue: &Name| grant.only().is_none_or(|only| only.covers_queue(queue));
        let names = self.queues.iter().filter(move |(name, _)| covered(name));
        names.map(|(name, n)| (name.to_string(), *n))
    }

    pub(super) fn kinds(&self, grant: &Grant) -> impl Iterator<Item = (String, u64)> {
        let covered = |kind: &Name| grant.only().is_none_or(|only| only.covers_kind(kind));
        let names = self.kinds.iter().filter(move |(name, _)| covered(name));
        names.map(|(name, n)| (name.to_string(), *n))
    }

    fn visible(&self, grant: &Grant) -> impl Iterator<Item = &SampledJob> {
        self.samples.iter().filter(|job| grant.covers(&job.queue, &job.kind))
    }

    /// Names of labels, and names with values.
    pub(super) fn labels(&self, grant: &Grant) -> BTreeSet<String> {
        let labels = self.visible(grant).flat_map(|job| &job.labels);
        let texts = labels.flat_map(|(name, value)| {
            let with_value =
                (value.len() <= MAX_VALUE).then(|| format!("{name}={}", quoted(value)));
            [Some(quoted(name)), with_value.filter(|_| quoted(name) == *name)]
        });
        texts.flatten().collect()
    }

    /// Paths of fields of payloads.
    pub(super) fn paths(&self, grant: &Grant) -> BTreeSet<String> {
        let fields = self.visible(grant).flat_map(|job| &job.fields);
        fields.map(|(path, _)| path.clone()).collect()
    }

    /// Values of a field of payloads.
    pub(super) fn values(&self, grant: &Grant, path: &str) -> BTreeSet<String> {
        let fields = self.visible(grant).flat_map(|job| &job.fields);
        let values = fields.filter(|(of, value)| of == path && !value.is_empty());
        values.map(|(_, value)| value.clone()).collect()
    }
}

/// A number of jobs.
pub(super) fn counted(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}
