//! The difference between a job and the last good one of its queue and kind.

use crore::store::views::ListQuery;
use crore_core::{Encoding, Job, JobId, Payload, State};
use crore_wire::api::diff::{ComparedRun, FieldChange, FieldDiff, JobDiff};
use crore_wire::units::{Moment, Period};
use crore_wire::{Format, Raw};
use serde_json::{Map, Value};

use crate::{Api, Fault, Grant};

/// Maximum size of a payload that is compared.
const MAX_PAYLOAD: usize = 256 << 10;
/// Maximum number of fields in a response, and of those that are counted.
const MAX_FIELDS: usize = 200;
const MAX_COUNTED: usize = 10_000;
/// Maximum length of a value and of a path, in characters.
const MAX_CHARS: usize = 1000;

impl Api {
    /// Compares the payload of a job with that of the newest other job of its queue and kind that is done, field by field.
    pub async fn diff_job(&self, grant: &Grant, id: JobId) -> Result<JobDiff, Fault> {
        let job = self.get_job(grant, id).await?;
        let good = self.last_good(&job).await?;
        let mut fields = DifferingFields::default();
        let values = good.as_ref().map(|good| (value_of(good), value_of(&job)));
        let comparable = matches!(&values, Some((Some(_), Some(_))));
        if let Some((Some(before), Some(now))) = &values {
            fields.compare("payload", Some(before), Some(now));
        }
        Ok(JobDiff {
            job: job.id.into(),
            run: self.last_run(&job),
            good: good.as_ref().and_then(|good| self.last_run(good)),
            comparable,
            field_count: fields.count,
            fields: fields.shown,
        })
    }

    /// The newest other job of the queue and kind of a job that is done, with masked fields.
    async fn last_good(&self, job: &Job) -> Result<Option<Job>, Fault> {
        let (queue, kind) = (Some(job.spec.queue.clone()), Some(job.spec.kind.clone()));
        let query = ListQuery { state: State::Done, queue, kind, key: None, after: None, n: 2 };
        let done = self.engine().list(query).await?.jobs;
        let good = done.into_iter().find(|good| good.id != job.id);
        Ok(good.and_then(|good| self.listed(vec![good]).pop()))
    }

    /// The newest run of a job that has ended.
    fn last_run(&self, job: &Job) -> Option<ComparedRun> {
        let newest = job.live.history.first()?;
        let kind = job.spec.kind.as_str();
        let version = |worker: &str| self.worker_versions().at(worker, kind, newest.started_at);
        Some(ComparedRun {
            job: job.id.into(),
            ended_at: Moment(newest.ended_at),
            duration: Period(newest.ended_at.since(newest.started_at)),
            worker: newest.worker.as_ref().map(ToString::to_string),
            version: newest.worker.as_ref().and_then(|worker| version(worker.as_str())),
        })
    }
}

/// The payload of a job as a value, if it has fields and is not too large.
fn value_of(job: &Job) -> Option<Value> {
    let Payload { encoding, bytes } = &job.spec.payload;
    if bytes.len() > MAX_PAYLOAD {
        return None;
    }
    match encoding {
        Encoding::Json | Encoding::Text | Encoding::Bytes => serde_json::from_slice(bytes).ok(),
        Encoding::Msgpack => {
            let json = Raw::new(Format::Msgpack, bytes.clone()).convert(Format::Json)?;
            serde_json::from_slice(json.bytes()).ok()
        }
        Encoding::Protobuf => None,
    }
}

/// Fields whose values differ.
#[derive(Debug, Default)]
struct DifferingFields {
    shown: Vec<FieldDiff>,
    count: usize,
}

impl DifferingFields {
    fn compare(&mut self, path: &str, before: Option<&Value>, now: Option<&Value>) {
        match (before, now) {
            _ if self.count >= MAX_COUNTED => {}
            (Some(Value::Object(before)), Some(Value::Object(now))) => {
                self.compare_members(path, before, now);
            }
            (Some(Value::Array(before)), Some(Value::Array(now))) => {
                for n in 0..before.len().max(now.len()) {
                    self.compare(&format!("{path}[{n}]"), before.get(n), now.get(n));
                }
            }
            (before, now) if before == now => {}
            (before, now) => self.add(path, before, now),
        }
    }

    fn compare_members(
        &mut self,
        path: &str,
        before: &Map<String, Value>,
        now: &Map<String, Value>,
    ) {
        let removed = before.keys().filter(|name| !now.contains_key(*name));
        let mut names: Vec<&String> = now.keys().chain(removed).collect();
        names.sort_unstable();
        for name in names {
            self.compare(&member(path, name), before.get(name), now.get(name));
        }
    }

    fn add(&mut self, path: &str, before: Option<&Value>, now: Option<&Value>) {
        self.count += 1;
        if self.shown.len() >= MAX_FIELDS {
            return;
        }
        let change = match (before, now) {
            (None, _) => FieldChange::Added,
            (_, None) => FieldChange::Removed,
            _ => FieldChange::Changed,
        };
        let text = |value: Option<&Value>| value.map(|value| shortened(&value.to_string()));
        let (good, value) = (text(before), text(now));
        self.shown.push(FieldDiff { field: shortened(path), change, good, value });
    }
}

/// The path of a member, as a filter writes it.
fn member(path: &str, name: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match starts && name.chars().all(is_word) {
        true => format!("{path}.{name}"),
        false => format!("{path}.{}", Value::from(name)),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(
        before: &Value,
        now: &Value,
    ) -> Vec<(String, FieldChange, Option<String>, Option<String>)> {
        let mut fields = DifferingFields::default();
        fields.compare("payload", Some(before), Some(now));
        let all = fields.shown.into_iter();
        all.map(|one| (one.field, one.change, one.good, one.value)).collect()
    }

    #[test]
    fn fields_are_compared_at_any_depth() {
        let before =
            json!({"to": "ada", "same": [1, {"x": null}], "items": [1, 2], "old": {"a": 1}});
        let now = json!({"to": "eve", "same": [1, {"x": null}], "items": [1, 3, 4], "a b": true});
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            fields(&before, &now),
            [
                ("payload.\"a b\"".to_owned(), FieldChange::Added, None, text("true")),
                ("payload.items[1]".to_owned(), FieldChange::Changed, text("2"), text("3")),
                ("payload.items[2]".to_owned(), FieldChange::Added, None, text("4")),
                ("payload.old".to_owned(), FieldChange::Removed, text("{\"a\":1}"), None),
                ("payload.to".to_owned(), FieldChange::Changed, text("\"ada\""), text("\"eve\"")),
            ]
        );
        assert_eq!(fields(&before, &before), []);
        let whole = fields(&json!(1), &json!([1]));
        assert_eq!(whole, [("payload".to_owned(), FieldChange::Changed, text("1"), text("[1]"))]);
    }

    #[test]
    fn a_difference_is_bounded() {
        let many: Value = (0..20_000).map(Value::from).collect();
        let mut fields = DifferingFields::default();
        fields.compare("payload", Some(&json!([])), Some(&many));
        assert_eq!((fields.shown.len(), fields.count), (MAX_FIELDS, MAX_COUNTED));
        let long = shortened(&"é".repeat(5000));
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
    }
}
