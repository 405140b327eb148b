//! Flags that describe a job to push.

use clap::Args;
use crore_wire::api::enums::{Encoding, Hold, Needs, OnTimeout};
use crore_wire::units::{Moment, Period};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::object_of;
use super::super::word::word;
use super::payload::{JobPayload, PayloadSource};
use super::retry::RetryArgs;

/// Flags of a job, pushed now or by a schedule.
#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// Kind of the job
    pub(super) kind: String,
    /// Payload: JSON (see --encoding), or @FILE
    #[arg(conflicts_with = "file")]
    pub(super) payload: Option<String>,
    /// File with the payload
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Encoding of the payload: json, msgpack, protobuf, text, bytes [default: json]
    #[arg(long, value_parser = word::<Encoding>)]
    encoding: Option<Encoding>,
    /// Queue [default: that of the kind's handler, or the queue named after the kind]
    #[arg(long)]
    queue: Option<String>,
    /// Priority; smaller runs first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Delay before the earliest start, such as 10m
    #[arg(long, value_name = "DURATION")]
    delay: Option<Period>,
    /// Deadline: a job that has not started within this time is cancelled as expired
    #[arg(long, value_name = "DURATION")]
    start_within: Option<Period>,
    /// Job to push if this one misses its deadline, such as '{"kind": "alert"}'
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    on_expired: Option<Value>,
    #[command(flatten)]
    retry: RetryArgs,
    /// Timeout of each run [default: that of the kind's handler, or none]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Period>,
    /// Lease duration: a job whose lease is not renewed for this long goes to another worker [default: 30s]
    #[arg(long, value_name = "DURATION")]
    lease: Option<Period>,
    /// Retention of the result [default: that of the kind's handler, or not kept]
    #[arg(long, value_name = "DURATION")]
    keep_result: Option<Period>,
    /// Unique key: while an unfinished job has it, another push stores nothing and returns that job
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// When the unique key is released: until-start, until-success, until-end, window [default: until-end]
    #[arg(long, value_name = "HOLD", value_parser = word::<Hold>, requires = "unique")]
    unique_hold: Option<Hold>,
    /// Maximum time for which the unique key is held
    #[arg(long, value_name = "DURATION", requires = "unique")]
    unique_window: Option<Period>,
    /// Label; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::cli::pair)]
    label: Vec<(String, String)>,
    /// Versions of the kind that may run the job, such as '>=2.3 <3' [default: any worker]
    #[arg(long, value_name = "RANGE")]
    worker_version: Option<String>,
    /// Event to wait for: the job starts only after it was sent, and gets its payload; see `crore event`
    #[arg(long, value_name = "EVENT")]
    wait_for: Option<String>,
    /// Maximum time to wait for the event [default: unlimited]
    #[arg(long, value_name = "DURATION", requires = "wait_for")]
    wait_timeout: Option<Period>,
    /// Action after --wait-timeout: run, cancel, dead [default: cancel]
    #[arg(long, value_name = "ACTION", value_parser = word::<OnTimeout>, requires = "wait_timeout")]
    on_wait_timeout: Option<OnTimeout>,
}

/// Flags of a job that is pushed now.
#[derive(Debug, Clone, Args)]
pub(crate) struct NewJobArgs {
    #[command(flatten)]
    pub(super) job: JobArgs,
    /// Earliest start, such as 2026-11-15T08:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    due: Option<Moment>,
    /// Deadline: a job that has not started by this time is cancelled as expired
    #[arg(long, value_name = "TIME", conflicts_with = "start_within")]
    deadline: Option<Moment>,
    /// Your own id for the job; another push with the same id stores nothing and returns the first job
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Group to join; see `crore group`
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Job to wait for; may be repeated
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// Group to wait for; may be repeated
    #[arg(long, value_name = "ID")]
    after_group: Vec<String>,
    /// Condition of --after and --after-group: success, end [default: success]
    #[arg(long, value_parser = word::<Needs>)]
    needs: Option<Needs>,
}

impl JobArgs {
    /// The job as a request body.
    pub(crate) fn body(self) -> anyhow::Result<JobBody> {
        let source =
            PayloadSource { argument: self.payload.as_deref(), file: self.file.as_deref() };
        let payload = source.read(self.encoding.unwrap_or(Encoding::Json))?;
        Ok(self.body_with(payload))
    }

    fn body_with(self, payload: JobPayload) -> JobBody {
        let labels: Map<_, _> = self.label.into_iter().map(|(k, v)| (k, v.into())).collect();
        let (hold, window) = (self.unique_hold, self.unique_window);
        let unique = |key: String| {
            let hold = hold.map(|hold| json!(hold));
            let window = window.map(|window| json!(window));
            object_of([("key", Some(key.into())), ("hold", hold), ("window", window)])
        };
        let (wait_timeout, on_timeout) = (self.wait_timeout, self.on_wait_timeout);
        let wait_for = |event: String| {
            let timeout = wait_timeout.map(|timeout| json!(timeout));
            let on_timeout = on_timeout.map(|action| json!(action));
            object_of([
                ("event", Some(event.into())),
                ("timeout", timeout),
                ("on_timeout", on_timeout),
            ])
        };
        let period = |period: Option<Period>| period.map(|period| json!(period));
        let fields = object_of([
            ("kind", Some(self.kind.into())),
            ("queue", self.queue.map(Into::into)),
            ("priority", self.priority.map(Into::into)),
            ("delay", period(self.delay)),
            ("start_within", period(self.start_within)),
            ("on_expired", self.on_expired),
            ("retry", self.retry.object()),
            ("timeout", period(self.timeout)),
            ("lease", period(self.lease)),
            ("keep_result", period(self.keep_result)),
            ("unique", self.unique.map(unique)),
            ("labels", Some(Value::Object(labels))),
            ("worker_version", self.worker_version.map(Into::into)),
            ("wait_for", self.wait_for.map(wait_for)),
        ]);
        JobBody { payload, fields }
    }
}

impl NewJobArgs {
    /// The job as a request body.
    pub(super) fn body(self) -> anyhow::Result<JobBody> {
        let more = self.more();
        Ok(self.job.body()?.with(more))
    }

    /// The same with the payload in a line of the input.
    pub(super) fn body_of_line(self, line: &str) -> Result<JobBody, String> {
        let more = self.more();
        let payload = JobPayload::of_text(line, self.job.encoding.unwrap_or(Encoding::Json))?;
        Ok(self.job.body_with(payload).with(more))
    }

    fn more(&self) -> Value {
        let needs = self.needs.map(|needs| json!(needs));
        let wait = |field: &'static str, id: &String| {
            object_of([(field, Some(id.clone().into())), ("needs", needs.clone())])
        };
        let after = self.after.iter().map(|id| wait("job", id));
        let after: Vec<_> =
            after.chain(self.after_group.iter().map(|id| wait("group", id))).collect();
        object_of([
            ("due", self.due.map(|due| json!(due))),
            ("deadline", self.deadline.map(|deadline| json!(deadline))),
            ("client_id", self.client_id.clone().map(Into::into)),
            ("group", self.group.as_ref().map(|id| json!({ "id": id }))),
            ("after", Some(after.into())),
        ])
    }
}

/// Parses a JSON object.
fn json_object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Request body of a job; a JSON payload is sent as written.
#[derive(Debug, Serialize)]
pub(crate) struct JobBody {
    #[serde(flatten)]
    payload: JobPayload,
    #[serde(flatten)]
    fields: Value,
}

impl JobBody {
    pub(super) const fn new(payload: JobPayload, fields: Value) -> Self {
        Self { payload, fields }
    }

    /// Adds fields.
    fn with(mut self, more: Value) -> Self {
        if let (Value::Object(fields), Value::Object(more)) = (&mut self.fields, more) {
            fields.extend(more);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct PushCommand {
        #[command(flatten)]
        new: NewJobArgs,
    }

    /// The body of a push with these arguments.
    fn body(arguments: &[&str]) -> Value {
        let parsed = PushCommand::try_parse_from([&["push"], arguments].concat());
        let body = parsed.expect("well-formed").new.body().expect("a body");
        serde_json::to_value(body).expect("JSON")
    }

    #[test]
    fn every_flag_becomes_its_field() {
        let with = body(&[
            "mail",
            "1",
            "--unique",
            "k",
            "--unique-hold",
            "until-success",
            "--unique-window",
            "1h",
            "--group",
            "3",
            "--after",
            "1",
            "--after-group",
            "2",
            "--needs",
            "end",
            "--backoff",
            "linear",
            "--base",
            "5s",
            "--jitter",
            "0",
            "--attempts",
            "7",
            "--start-within",
            "10m",
            "--on-expired",
            r#"{"kind": "alert"}"#,
            "--wait-for",
            "paid",
            "--wait-timeout",
            "1d",
            "--on-wait-timeout",
            "dead",
        ]);
        let wait_for = json!({ "event": "paid", "timeout": "1d", "on_timeout": "dead" });
        assert_eq!(with["wait_for"], wait_for);
        let unique = json!({ "key": "k", "hold": "until-success", "window": "1h" });
        assert_eq!((&with["unique"], &with["group"]), (&unique, &json!({ "id": "3" })));
        let after = json!([{ "job": "1", "needs": "end" }, { "group": "2", "needs": "end" }]);
        assert_eq!(with["after"], after);
        let retry = json!({ "max_attempts": 7, "backoff": "linear", "base": "5s", "jitter": 0 });
        assert_eq!(with["retry"], retry);
        assert_eq!((&with["start_within"], &with["deadline"]), (&json!("10m"), &Value::Null));
        assert_eq!(with["on_expired"], json!({ "kind": "alert" }));
        let deadline = body(&["mail", "--deadline", "2026-11-15T08:00:00Z"]);
        assert_eq!(deadline["deadline"], json!("2026-11-15T08:00:00.000Z"));
        let without = body(&["mail"]);
        assert_eq!((&without["retry"], &without["unique"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_payload_that_is_not_json_is_sent_as_bytes() {
        let text = body(&["mail", "hello", "--encoding", "text"]);
        assert_eq!(
            (&text["payload_base64"], &text["encoding"], text.get("payload")),
            (&json!("aGVsbG8="), &json!("text"), None)
        );
    }
}
