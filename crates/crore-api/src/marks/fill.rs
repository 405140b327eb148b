//! Adds the starts and changes that the audit log has, after a start of the server.

use crore_core::Time;
use crore_wire::api::audit::AuditRecord;
use crore_wire::api::marks::{Mark, MarkAction, MarkKind};
use tokio::task::spawn_blocking;

use super::{MAX_MARKS, MarkTable, mark, version};
use crate::Api;
use crate::audit::AuditEntry;

/// The call of an entry about a start of the server.
pub(crate) const START: &str = "START";
/// Entries that are read; the reader also bounds their bytes.
const MAX_ENTRIES: usize = 10_000;

impl Api {
    /// Writes the start of the server to the audit log, and reads earlier marks from it.
    pub(crate) async fn fill_marks(&self) {
        let Some(reader) = self.audit().reader() else { return };
        let started_at = self.marks().started_at;
        self.audit().record(&AuditEntry::start(started_at, version())).await;
        match spawn_blocking(move || reader.read(None, MAX_ENTRIES)).await {
            Ok(Ok(page)) => self.marks().add_audited(&page.entries),
            Ok(Err(error)) => tracing::warn!(%error, "audit log not read for marks"),
            Err(error) => tracing::warn!(%error, "audit log not read for marks"),
        }
    }
}

impl MarkTable {
    /// Adds entries from before the start of the server, newest first.
    fn add_audited(&self, entries: &[AuditRecord]) {
        let is_done = |entry: &&AuditRecord| entry.status.is_some_and(|status| status < 400);
        let earlier = entries.iter().filter(is_done).filter(|entry| entry.at.0 < self.started_at);
        earlier.filter_map(mark_of).take(MAX_MARKS).for_each(|mark| self.add(mark));
    }
}

/// The mark of an entry of the audit log.
fn mark_of(entry: &AuditRecord) -> Option<Mark> {
    let at: Time = entry.at.0;
    let (method, path) = entry.call.split_once(' ').unwrap_or((&entry.call, ""));
    if method == START {
        return Some(Mark { version: entry.about.clone(), ..mark(at, MarkKind::Start) });
    }
    let (kind, action, name) = change_of(method, path)?;
    let names = name.map(decoded).into_iter().collect();
    Some(Mark { names, action: Some(action), by: Some(entry.who.clone()), ..mark(at, kind) })
}

/// The queue or limit that a call changes. A gRPC call does not name it in its path.
fn change_of<'a>(method: &str, path: &'a str) -> Option<(MarkKind, MarkAction, Option<&'a str>)> {
    use MarkAction::{Change, Pause, Remove, Resume};
    use MarkKind::{Limit, Queue};
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    Some(match (method, parts.as_slice()) {
        ("PATCH", ["v1", "queues", name]) => (Queue, Change, Some(name)),
        ("POST", ["v1" | "ui", "queues", name, "pause" | "drain"]) => (Queue, Pause, Some(name)),
        ("POST", ["v1" | "ui", "queues", name, "resume"]) => (Queue, Resume, Some(name)),
        ("PUT", ["v1", "limits", name]) | ("POST", ["ui", "limits", name, "edit"]) => {
            (Limit, Change, Some(name))
        }
        ("DELETE", ["v1", "limits", name]) | ("POST", ["ui", "limits", name, "delete"]) => {
            (Limit, Remove, Some(name))
        }
        ("POST", ["ui", "limits-new"] | ["crore.v1.Admin", "SetLimit"]) => (Limit, Change, None),
        ("POST", ["crore.v1.Admin", "DeleteLimit"]) => (Limit, Remove, None),
        ("POST", ["crore.v1.Admin", "ChangeQueue"]) => (Queue, Change, None),
        ("POST", ["crore.v1.Admin", "PauseQueue"]) => (Queue, Pause, None),
        ("POST", ["crore.v1.Admin", "ResumeQueue"]) => (Queue, Resume, None),
        _ => return None,
    })
}

/// A part of a path without its escapes.
fn decoded(part: &str) -> String {
    // A plus is an ordinary character in a path.
    let pair = format!("={}", part.replace('+', "%2B"));
    let mut pairs = form_urlencoded::parse(pair.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crore_core::Span;
    use crore_wire::units::Moment;

    use super::*;
    use crate::Grant;

    fn entry(at: u64, call: &str, status: u16) -> AuditRecord {
        AuditRecord {
            at: Moment(Time::ZERO.after(Span::from_secs(at))),
            who: "token `ops`".to_owned(),
            from: String::new(),
            call: call.to_owned(),
            needs: None,
            status: Some(status),
            code: None,
            about: (call == START).then(|| "1.2".to_owned()),
            request: String::new(),
        }
    }

    #[test]
    fn starts_and_changes_are_read_from_the_audit_log() {
        let table = MarkTable::new(Time::ZERO.after(Span::from_secs(100)));
        table.add_audited(&[
            entry(101, "PUT /v1/limits/late", 200),
            entry(50, "POST /ui/limits/a%2Fb+c/delete", 303),
            entry(40, "POST /v1/queues/mail/pause", 403),
            entry(30, "POST /crore.v1.Admin/PauseQueue", 200),
            entry(25, "POST /v1/jobs/1/retry", 200),
            entry(20, "PATCH /v1/queues/mail", 200),
            entry(10, START, 200),
        ]);
        let marks = table.select(&Grant::full(), None, None);
        let shown: Vec<_> = marks
            .iter()
            .map(|mark| (mark.mark, mark.action, mark.names.concat(), mark.version.clone()))
            .collect();
        let version = Some(version());
        assert_eq!(
            shown,
            [
                (MarkKind::Start, None, String::new(), Some("1.2".to_owned())),
                (MarkKind::Queue, Some(MarkAction::Change), "mail".to_owned(), None),
                (MarkKind::Queue, Some(MarkAction::Pause), String::new(), None),
                (MarkKind::Limit, Some(MarkAction::Remove), "a/b+c".to_owned(), None),
                (MarkKind::Start, None, String::new(), version),
            ]
        );
        assert_eq!(marks.get(1).and_then(|mark| mark.by.as_deref()), Some("token `ops`"));
    }
}
