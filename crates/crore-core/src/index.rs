//! Index keys: the numbers by which a store finds the jobs of a search without reading all others.
//!
//! A job has a key for each of its labels (or [`IndexKey::MANY_LABELS`], if it has more than
//! [`MAX_INDEXED_LABELS`]), one for its newest error, and one for each field that its queue indexes and that holds a
//! text, a number or a boolean. A key is a hash: a search tests every job that an index returns, so a collision costs a
//! read, and is never shown.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::code::{Code, Invalid, excerpt};
use crate::filter::Fingerprint;
use crate::job::{Job, Live, Spec};
use crate::limit::{JobField, MatchContext, ScalarRef, value_text};

/// Maximum number of fields that a queue indexes.
pub const MAX_INDEXED_FIELDS: usize = 4;
/// Maximum number of labels of a job that are indexed one by one.
pub const MAX_INDEXED_LABELS: usize = 8;
/// Maximum length of a field's text, in bytes.
const MAX_FIELD: usize = 1024;

/// A number that jobs with an equal label, error or payload field share. Keys of payload fields are stored with the job,
/// so the way they are computed never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IndexKey(pub u64);

impl IndexKey {
    /// The key of jobs with more labels than are indexed one by one.
    pub const MANY_LABELS: Self = Self::of(b"L", b"", b"");

    /// The 64-bit FNV-1a hash of a type, a name and a value. Names contain no zero byte.
    const fn of(class: &[u8], name: &[u8], value: &[u8]) -> Self {
        let hash = fnv1a(fnv1a(fnv1a(FNV_START, class), name), &[0]);
        Self(fnv1a(hash, value))
    }

    /// The key of a label with a value.
    pub const fn label(name: &str, value: &str) -> Self {
        Self::of(b"l", name.as_bytes(), value.as_bytes())
    }

    /// The key of an error.
    pub const fn error(fingerprint: Fingerprint) -> Self {
        Self::of(b"e", b"", &fingerprint.0.to_be_bytes())
    }

    /// The key of a payload field that has the value; `None`: such jobs have no key.
    pub(crate) fn payload(field: &IndexedField, value: ScalarRef<'_>) -> Option<Self> {
        let value = value_text(value)?;
        Some(Self::of(b"p", field.text.as_bytes(), value.as_bytes()))
    }

    /// The keys of the labels of a job.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> impl Iterator<Item = Self> {
        let is_many = labels.len() > MAX_INDEXED_LABELS;
        let some = if is_many { 0 } else { MAX_INDEXED_LABELS };
        let each = labels.iter().take(some).map(|(name, value)| Self::label(name, value));
        each.chain(is_many.then_some(Self::MANY_LABELS))
    }

    /// The keys of a job's definition: its labels and payload fields.
    pub fn of_spec(spec: &Spec) -> impl Iterator<Item = Self> {
        Self::of_labels(&spec.labels).chain(spec.index.iter().flat_map(|keys| keys.iter().copied()))
    }

    /// The key of the newest error of a job.
    pub fn of_newest_error(live: &Live) -> Option<Self> {
        live.newest_error().map(|error| Self::error(Fingerprint::of(error)))
    }

    /// All keys of a job.
    pub fn of_job(job: &Job) -> Vec<Self> {
        let mut keys: Vec<Self> = Self::of_spec(&job.spec).collect();
        keys.extend(Self::of_newest_error(&job.live));
        keys
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a with 64 bits, continued.
const fn fnv1a(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A field of payloads that a queue indexes, such as `payload.customer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IndexedField {
    field: JobField,
    /// The canonical text, which is part of the keys.
    text: Box<str>,
}

impl IndexedField {
    /// Parses a field.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |message: String| Invalid::new(Code::IndexField, "index", message);
        if text.len() > MAX_FIELD {
            let n = text.len();
            let message = format!("the field has {n} bytes, at most {MAX_FIELD} are allowed");
            return Err(invalid(message));
        }
        if text == "error" || text.starts_with("label.") || text.starts_with("label:") {
            let message = format!(
                "`{}` needs no setting: labels and errors are always indexed; use a field such as `payload.customer`",
                excerpt(text)
            );
            return Err(invalid(message));
        }
        match JobField::parse(text) {
            Ok(field @ JobField::Payload(_)) => Ok(Self::from_field(field)),
            Ok(JobField::Kind | JobField::Queue) => Err(invalid(
                "queues and kinds are always indexed; use a field such as `payload.customer`"
                    .to_owned(),
            )),
            Err(fault) => {
                let message = format!(
                    "`{}` is not a field to index, such as `payload.customer`: {}",
                    excerpt(text),
                    fault.message
                );
                Err(Invalid { at: fault.at, ..invalid(message) })
            }
        }
    }

    /// The names in its path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.field.names()
    }

    /// The field of a term of a filter.
    pub(crate) fn from_field(field: JobField) -> Self {
        let text = field.to_string().into();
        Self { field, text }
    }
}

impl fmt::Display for IndexedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for IndexedField {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<IndexedField> for String {
    fn from(field: IndexedField) -> Self {
        field.text.into()
    }
}

/// The payload fields that a queue indexes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueIndex {
    fields: Vec<IndexedField>,
    /// The fields whose keys all jobs of the queue have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    complete: Vec<IndexedField>,
}

impl QueueIndex {
    /// An index of these fields, which no job has the keys of. Refuses more than [`MAX_INDEXED_FIELDS`], and a field
    /// that is named twice.
    pub fn new(fields: Vec<IndexedField>) -> Result<Self, Invalid> {
        let index = Self { fields, complete: Vec::new() };
        index.check().map(|()| index)
    }

    /// Validates the number of fields.
    pub fn check(&self) -> Result<(), Invalid> {
        let n = self.fields.len();
        if n > MAX_INDEXED_FIELDS {
            let message = format!("{n} fields, at most {MAX_INDEXED_FIELDS} are allowed");
            return Err(Invalid::new(Code::CountRange, "index", message));
        }
        let twice = |(nth, field): &(usize, &IndexedField)| self.fields[..*nth].contains(field);
        match self.fields.iter().enumerate().find(twice) {
            Some((_, field)) => {
                let message = format!("`{}` is named twice", excerpt(&field.text));
                Err(Invalid::new(Code::IndexField, "index", message))
            }
            None => Ok(()),
        }
    }

    /// The fields.
    pub fn fields(&self) -> &[IndexedField] {
        &self.fields
    }

    /// Whether all jobs of the queue have the keys of a field.
    pub fn is_complete_for(&self, field: &IndexedField) -> bool {
        self.complete.contains(field)
    }

    /// Whether all jobs of the queue have the keys of all fields.
    pub fn is_complete(&self) -> bool {
        self.fields.iter().all(|field| self.is_complete_for(field))
    }

    /// The same fields; those that are complete in `before` stay complete.
    #[must_use]
    pub fn continuing(&self, before: Option<&Self>) -> Self {
        let is_kept = |field: &&IndexedField| before.is_some_and(|it| it.is_complete_for(field));
        let complete = self.fields.iter().filter(is_kept).cloned().collect();
        Self { fields: self.fields.clone(), complete }
    }

    /// The same fields, all complete.
    #[must_use]
    pub fn completed(&self) -> Self {
        Self { fields: self.fields.clone(), complete: self.fields.clone() }
    }

    /// The keys of a job's payload; `None`: it has none. The payload is parsed once.
    pub fn keys(&self, spec: &Spec) -> Option<Arc<[IndexKey]>> {
        let mut paths = Vec::new();
        self.fields.iter().for_each(|one| one.field.collect_path(&mut paths));
        let (queue, kind) = (spec.queue.as_str(), spec.kind.as_str());
        let context = MatchContext::new(queue, kind, &spec.payload, paths);
        let key = |one: &IndexedField| IndexKey::payload(one, context.value(&one.field)?);
        let keys: Vec<IndexKey> = self.fields.iter().filter_map(key).collect();
        (!keys.is_empty()).then(|| keys.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::payload::Payload;

    fn spec(json: &str) -> Spec {
        let name = Name::new("name", "q").expect("a name");
        Spec::new(name.clone(), name, Payload::json(json))
    }

    fn index(fields: &[&str]) -> QueueIndex {
        let fields = fields.iter().map(|text| IndexedField::parse(text).expect("a field"));
        QueueIndex::new(fields.collect()).expect("an index")
    }

    #[test]
    fn keys_of_payload_fields_never_change() {
        let keys = |json| index(&["payload.n", "payload.\"a b\"[0]"]).keys(&spec(json));
        let key = |json| keys(json).map(|keys| keys[0].0);
        assert_eq!(key(r#"{"n": 42}"#), Some(0x74ca_42a0_1e12_2970));
        assert_eq!(key(r#"{"n": "42"}"#), Some(0x9cd8_1546_663b_35f3));
        assert_eq!(key(r#"{"n": 42}"#), key(r#"{"n": 42.0, "a b": {}}"#));
        assert_eq!(key(r#"{"n": null, "a b": [[]]}"#), None);
        assert_eq!(keys(r#"{"n": true, "a b": ["x"]}"#).map(|keys| keys.len()), Some(2));
        assert_ne!(key(r#"{"n": 1}"#), key(r#"{"a b": [1]}"#));
    }

    #[test]
    fn a_job_with_many_labels_has_one_key_for_them() {
        let mut spec = spec("1");
        assert_eq!(IndexKey::of_spec(&spec).count(), 0);
        for n in 0..MAX_INDEXED_LABELS {
            spec.labels.insert(format!("l{n}"), "v".to_owned());
        }
        let keys: Vec<IndexKey> = IndexKey::of_labels(&spec.labels).collect();
        assert_eq!((keys.len(), keys[1]), (MAX_INDEXED_LABELS, IndexKey::label("l1", "v")));
        spec.labels.insert("one more".to_owned(), String::new());
        assert_eq!(IndexKey::of_labels(&spec.labels).collect::<Vec<_>>(), [IndexKey::MANY_LABELS]);
    }

    #[test]
    fn a_field_that_cannot_be_indexed_is_refused_by_name() {
        for text in ["", "kind", "error", "label.team", "payload", "payload.", "customer"] {
            let invalid = IndexedField::parse(text).expect_err(text);
            assert_eq!((invalid.code, invalid.field.as_str()), (Code::IndexField, "index"));
        }
        assert!(IndexedField::parse(&format!("payload.{}", "a".repeat(2000))).is_err());
        let field = IndexedField::parse("payload.a").expect("a field");
        let twice = QueueIndex::new(vec![field.clone(), field]).expect_err("twice");
        assert_eq!((twice.code, twice.field.as_str()), (Code::IndexField, "index"));
        let many = (0..5).map(|n| IndexedField::parse(&format!("payload.a{n}")).expect("a field"));
        let many = QueueIndex::new(many.collect()).expect_err("too many");
        assert_eq!((many.code, many.field.as_str()), (Code::CountRange, "index"));
    }

    #[test]
    fn a_field_stays_complete_while_it_is_indexed() {
        let complete = index(&["payload.a", "payload.b"]).completed();
        assert!(complete.is_complete());
        let next = index(&["payload.b", "payload.c"]).continuing(Some(&complete));
        let is_complete = |text| next.is_complete_for(&IndexedField::parse(text).expect("a field"));
        assert_eq!(["payload.a", "payload.b", "payload.c"].map(is_complete), [false, true, false]);
        assert!(!next.is_complete() && next.completed().is_complete());
        let text = serde_json::to_string(&next).expect("serialized");
        assert_eq!(text, r#"{"fields":["payload.b","payload.c"],"complete":["payload.b"]}"#);
        assert_eq!(serde_json::from_str::<QueueIndex>(&text).expect("read"), next);
    }
}
