//! History files: JSON lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use super::History;

impl History {
    /// Reads a history. Empty lines are skipped; an invalid line is an error with its number.
    pub fn load(path: &Path) -> io::Result<Self> {
        Self::read(BufReader::new(File::open(path)?))
    }

    /// Writes the history, replacing the file.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        self.write(&mut out)?;
        out.flush()
    }

    /// Reads JSON lines.
    pub fn read(lines: impl BufRead) -> io::Result<Self> {
        let mut events = Vec::new();
        for (number, line) in lines.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let event = serde_json::from_str(&line).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {error}", number + 1))
            })?;
            events.push(event);
        }
        Ok(Self { events })
    }

    /// Writes JSON lines.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for event in &self.events {
            serde_json::to_writer(&mut *out, event)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::node::StoreDump;
    use crate::history::op::{
        DefinitionContent, RecordedDefinition, RecordedItem, RecordedOutcome,
    };
    use crate::history::response::{RecordedDelivery, RecordedPush};
    use crate::history::{
        NodeObservation, PayloadHash, RecordedFault, RecordedOp, RecordedResponse, Recorder,
    };
    use crore_core::job::{DueTime, ResultRetention};
    use crore_core::schedule::{Missed, Timing};
    use crore_core::unique::{Unique, UniqueHold};
    use crore_core::version::KindVersions;
    use crore_core::{Delivery, JobId, Name, NewJob, Payload, Span, Spec, Time};

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a name")
    }

    fn item() -> RecordedItem {
        let mut spec = Spec::new(name("q"), name("k"), Payload::json("[1]"));
        let window = Some(Span::from_secs(1));
        spec.unique = Some(Box::new(Unique { key: "u".into(), hold: UniqueHold::Window, window }));
        spec.keep = ResultRetention::Once(Span::from_secs(9));
        let due = DueTime::After(Span::from_millis(5));
        RecordedItem::of(u64::MAX, &NewJob { due, ..NewJob::from(spec) })
    }

    fn recorded() -> History {
        let recorder = Recorder::new(|| 1_000);
        let call = recorder.invoke("c1", RecordedOp::Push { groups: 0, items: vec![item()] });
        let items = vec![RecordedPush::New(JobId(1)), RecordedPush::Broken];
        recorder.ok(
            call,
            Some(Time::from_millis(5)),
            RecordedResponse::Pushed { groups: vec![], items },
        );
        let fetch = RecordedOp::Fetch {
            queues: vec![name("q")],
            kinds: None,
            versions: KindVersions::default(),
            n: 2,
            strict: true,
        };
        let call = recorder.invoke_at("c2", "n1", fetch);
        let granted = RecordedDelivery {
            id: JobId(1),
            queue: name("q"),
            attempt: 1,
            delivery: Delivery(u64::MAX),
            lease: None,
            payload: PayloadHash(3),
            priority: -1,
            due: Time::ZERO,
        };
        recorder.ok(call, None, RecordedResponse::Fetched(vec![granted]));
        let timing = Timing::parse("timing", "every 90s").expect("a timing");
        let (missed, cursor) = (Missed::All, Time::ZERO);
        let to = DefinitionContent::Schedule { timing, missed, cursor, paused: false };
        let entries = vec![RecordedDefinition { name: name("s"), to, expires_after: None }];
        let call = recorder.invoke("c1", RecordedOp::Define { entries });
        recorder.fail(call, "no");
        let outcome = RecordedOutcome::Done { result: Some(PayloadHash(u64::MAX)) };
        let (id, delivery) = (JobId(1), Some(Delivery(7)));
        let on_done = vec![item()];
        let report = RecordedOp::Report { id, delivery, outcome, on_done, on_dead: vec![] };
        let call = recorder.invoke("c1", report);
        recorder.info(call, "reset");
        drop(recorder.invoke("c1", RecordedOp::Counts));
        recorder.fault("n1", RecordedFault::ClockJump { by: -5 });
        recorder.node("n1", NodeObservation::Dump(StoreDump::default()));
        recorder.history()
    }

    #[test]
    fn a_history_reads_back_as_it_was_written() {
        let history = recorded();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("history.jsonl");
        history.save(&path).expect("written");
        assert_eq!(History::load(&path).expect("read"), history);
    }

    #[test]
    fn the_format_is_the_one_that_is_documented() {
        let text = [
            r#"{"i":0,"t":10,"p":"c1","k":"invoke","n":0,"op":"get","a":{"id":7}}"#,
            r#"{"i":1,"t":35,"p":"c1","k":"ok","n":0,"r":{"job":null}}"#,
            r#"{"i":2,"t":40,"p":"n1","k":"fault","fault":"crash"}"#,
            r#"{"i":3,"t":90,"p":"n1","k":"node","node":"opened"}"#,
        ]
        .map(|line| format!("{line}\n"))
        .concat();
        let history = History::read(text.as_bytes()).expect("read");
        let mut written = Vec::new();
        history.write(&mut written).expect("written");
        assert_eq!(String::from_utf8(written).expect("text"), text);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let error = History::read(&b"\n{}\n"[..]).expect_err("no event");
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }
}
