//! I26: no job starts after its deadline.

use crore_core::State::{Cancelled, Ready};
use crore_core::{Span, Time};

use super::history_builder::{HistoryBuilder, SECOND, grant, item, new, stored};
use crate::history::node::DumpedJob;
use crate::history::op::{AdminAction, RecordedItem, StartDeadline};
use crate::history::response::RecordedChange;
use crate::history::{PayloadHash, RecordedFault, RecordedResponse};

fn within(span: Span) -> RecordedItem {
    RecordedItem { deadline: Some(StartDeadline::Within(span)), ..item(1) }
}

/// A job pushed at 1,000 by the store's clock and delivered at `now`.
fn delivered_at(item: RecordedItem, now: i64) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![item]);
    let (groups, items) = (Vec::new(), vec![new(1)]);
    history.ok_at(n, 1_000, RecordedResponse::Pushed { groups, items });
    let n = history.begin_fetch();
    history.ok_at(n, now, RecordedResponse::Fetched(vec![grant(1, 1, 1)]));
    history
}

#[test]
fn i26_a_job_starts_before_its_deadline() {
    delivered_at(within(SECOND), 1_999).assert_clean();
    delivered_at(within(SECOND), 2_000).assert_violates(26);
    let at = StartDeadline::At(Time::from_millis(1_500));
    let at = RecordedItem { deadline: Some(at), ..item(1) };
    delivered_at(at.clone(), 1_499).assert_clean();
    delivered_at(at, 1_500).assert_violates(26);
}

#[test]
fn i26_a_later_start_needs_no_deadline() {
    let start = |history: &mut HistoryBuilder, delivery, now| {
        let n = history.begin_fetch();
        let grants = vec![grant(1, delivery, 1)];
        history.ok_at(n, now, RecordedResponse::Fetched(grants));
    };
    let mut history = delivered_at(within(SECOND), 1_500);
    history.advance(Span::from_secs(11));
    start(&mut history, 2, 12_600);
    history.assert_clean();
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![within(SECOND)]);
    let (groups, items) = (Vec::new(), vec![new(1)]);
    history.ok_at(n, 1_000, RecordedResponse::Pushed { groups, items });
    history.admin(1, AdminAction::Retry, RecordedChange::Yes);
    start(&mut history, 1, 5_000);
    history.assert_clean();
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![within(SECOND)]);
    let (groups, items) = (Vec::new(), vec![new(1)]);
    history.ok_at(n, 1_000, RecordedResponse::Pushed { groups, items });
    let unseen = history.begin_fetch();
    history.info(unseen);
    start(&mut history, 2, 5_000);
    history.assert_clean();
}

#[test]
fn i26_an_expired_job_was_never_delivered() {
    let expired = || DumpedJob { expired: true, ..stored(1, Cancelled) };
    let mut history = HistoryBuilder::new();
    history.push(within(SECOND));
    history.dump(vec![expired()]);
    history.assert_clean();
    let mut history = delivered_at(within(SECOND), 1_500);
    history.dump(vec![expired()]);
    history.assert_violates(26);
}

#[test]
fn i26_the_follow_up_of_an_expired_job_exists_once() {
    let expired = || DumpedJob { expired: true, ..stored(1, Cancelled) };
    let child = |id| DumpedJob {
        parent: Some((crore_core::JobId(1), 0)),
        payload: PayloadHash(2),
        ..stored(id, Ready)
    };
    let pushed = || {
        let mut history = HistoryBuilder::new();
        history.push(RecordedItem { on_expired: Some(Box::new(item(2))), ..within(SECOND) });
        history
    };
    let mut history = pushed();
    history.dump(vec![expired(), child(2)]);
    history.assert_clean();
    let mut history = pushed();
    history.dump(vec![expired()]);
    history.assert_violates(26);
    let mut history = pushed();
    history.dump(vec![expired(), child(2), child(3)]);
    history.assert_violates(18);
    let mut history = pushed();
    history.fault(RecordedFault::ClockJump { by: 1 });
    history.dump(vec![stored(1, Ready)]);
    history.assert_clean();
}
