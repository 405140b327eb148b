//! Marks for charts: starts of the server, deploys of workers, and changes of queues and limits, in bounded memory.
//!
//! Calls record changes, and streams of workers record deploys. After a start of the server a background task adds the
//! starts and changes that the audit log has ([`fill`]).

mod deploys;
mod fill;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::{Name, Time};
use crore_wire::api::marks::{Mark, MarkAction, MarkKind};
use crore_wire::api::workers::WorkerStream;
use crore_wire::units::Moment;

use crate::Grant;
use deploys::SeenVersions;
pub(crate) use fill::START;

/// Maximum number of marks; the oldest makes room.
const MAX_MARKS: usize = 1000;

/// The newest marks, in the order of their times.
#[derive(Debug)]
pub(crate) struct MarkTable {
    marks: Mutex<VecDeque<Mark>>,
    versions: Mutex<SeenVersions>,
    started_at: Time,
}

impl MarkTable {
    /// A table with the start of the server.
    pub(crate) fn new(now: Time) -> Self {
        let start = Mark { version: Some(version()), ..mark(now, MarkKind::Start) };
        let (marks, versions) = (Mutex::new([start].into()), Mutex::default());
        Self { marks, versions, started_at: now }
    }

    fn rows(&self) -> MutexGuard<'_, VecDeque<Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, mark: Mark) {
        let mut rows = self.rows();
        let at = rows.partition_point(|known| known.at <= mark.at);
        if rows.len() < MAX_MARKS {
            rows.insert(at, mark);
        } else if at > 0 {
            rows.insert(at, mark);
            rows.pop_front();
        }
    }

    /// Records that a caller changed a queue or a limit.
    pub(crate) fn changed(
        &self,
        at: Time,
        (kind, name): (MarkKind, &Name),
        action: MarkAction,
        grant: &Grant,
    ) {
        let (names, by) = (vec![name.to_string()], Some(grant.who().to_string()));
        self.add(Mark { names, action: Some(action), by, ..mark(at, kind) });
    }

    /// Records that a worker connected; its versions that are new are marks.
    pub(crate) fn connected(&self, at: Time, stream: &WorkerStream) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let deployed = versions.add(at.since(self.started_at), stream);
        drop(versions);
        for (version, names) in deployed {
            self.add(Mark { names, version: Some(version), ..mark(at, MarkKind::Deploy) });
        }
    }

    /// The marks of a time range that a caller may see.
    pub(crate) fn select(&self, grant: &Grant, from: Option<Time>, to: Option<Time>) -> Vec<Mark> {
        let in_range = |mark: &&Mark| {
            from.is_none_or(|from| mark.at.0 >= from) && to.is_none_or(|to| mark.at.0 < to)
        };
        let rows = self.rows();
        rows.iter().filter(in_range).filter(|mark| sees(grant, mark)).cloned().collect()
    }
}

/// Whether a caller may see a mark: a restricted one sees starts, and its own queues and kinds.
fn sees(grant: &Grant, mark: &Mark) -> bool {
    let Some(only) = grant.only() else { return true };
    let covers = |is_covered: &dyn Fn(&Name) -> bool| {
        let covered = |text: &String| Name::new("name", text).is_ok_and(|name| is_covered(&name));
        !mark.names.is_empty() && mark.names.iter().all(covered)
    };
    match mark.mark {
        MarkKind::Start => true,
        MarkKind::Queue => covers(&|name| only.covers_queue(name)),
        MarkKind::Deploy => covers(&|name| only.covers_queue(name) && only.covers_kind(name)),
        MarkKind::Limit => false,
    }
}

fn mark(at: Time, mark: MarkKind) -> Mark {
    Mark { at: Moment(at), mark, names: Vec::new(), action: None, version: None, by: None }
}

/// The version of the server.
pub(crate) fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker_versions::tests::{at, stream};

    fn shown(table: &MarkTable) -> Vec<(MarkKind, String)> {
        let marks = table.select(&Grant::full(), None, None);
        marks.into_iter().skip(1).map(|mark| (mark.mark, mark.names.join(","))).collect()
    }

    #[test]
    fn a_version_is_a_mark_when_it_connects_for_the_first_time() {
        let table = MarkTable::new(at(0));
        table.connected(at(5), &stream(5, "", &[("mail", "1.0"), ("sms", "1.0")]));
        assert_eq!(shown(&table), [], "workers that are there when the server starts");
        table.connected(at(9), &stream(9, "", &[("mail", "1.1"), ("sms", "1.1")]));
        table.connected(at(10), &stream(10, "", &[("mail", "1.1"), ("sms", "1.0")]));
        assert_eq!(shown(&table), [(MarkKind::Deploy, "mail,sms".to_owned())]);
        table.connected(at(300), &stream(300, "7", &[]));
        let last = table.select(&Grant::full(), Some(at(300)), Some(at(301)));
        assert_eq!(last.first().map(|mark| mark.version.as_deref()), Some(Some("7")));
        assert_eq!(shown(&table).last(), Some(&(MarkKind::Deploy, "q".to_owned())));
        assert_eq!(table.select(&Grant::full(), None, Some(at(300))).len(), 2);
    }

    #[test]
    fn memory_is_bounded_and_marks_are_in_order() {
        let table = MarkTable::new(at(5000));
        for n in 0..3000 {
            let name = Name::new("name", &format!("q{n}")).expect("a name");
            let change = (MarkKind::Queue, &name);
            table.changed(at(9000 - n), change, MarkAction::Pause, &Grant::full());
        }
        let all = table.select(&Grant::full(), None, None);
        assert_eq!(all.len(), MAX_MARKS);
        assert!(all.is_sorted_by_key(|mark| mark.at));
        assert_eq!(all.last().map(|mark| mark.at), Some(Moment(at(9000))));
        for n in 0..10_000 {
            let name = format!("k{n}");
            table.connected(at(9001), &stream(9001, "", &[(&name, "1")]));
        }
        assert!(table.versions.lock().is_ok_and(|versions| versions.len() <= 2000));
    }
}
