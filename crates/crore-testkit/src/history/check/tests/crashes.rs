//! I23 and I24: disk errors.

use crore_core::State::{Done, Ready};

use super::history_builder::{DONE, HistoryBuilder, grant, item, stored};
use crate::history::node::DumpedJob;
use crate::history::{NodeObservation, PayloadHash, RecordedFault};

#[test]
fn i23_nothing_is_acknowledged_after_a_sync_failed() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fault(RecordedFault::SyncError);
    history.push(item(2));
    history.assert_violates(23);
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.fault(RecordedFault::SyncError);
    history.report(1, 1, DONE);
    history.assert_violates(23);
}

#[test]
fn a_node_may_reopen_after_a_failed_sync() {
    let mut history = HistoryBuilder::new();
    let early = history.begin_push(vec![item(1)]);
    history.fault(RecordedFault::SyncError);
    history.pushed(early, vec![super::history_builder::new(1)]);
    let n = history.begin_push(vec![item(2)]);
    history.fail(n);
    history.fetch(vec![grant(1, 1, 1)]);
    history.node(NodeObservation::Opened);
    history.push(item(3));
    history.fetch(vec![grant(1, 2, 1)]);
    history.end(&[(1, Ready), (3, Ready)]);
    assert_eq!(history.assert_clean().counters.crashes, 1);
}

fn damaged(after: &[NodeObservation]) -> HistoryBuilder {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.push(item(2));
    history.node(NodeObservation::Closed);
    history.fault(RecordedFault::Corruption { what: "a bit".to_owned() });
    for node in after {
        history.node(node.clone());
    }
    history
}

fn refused() -> NodeObservation {
    NodeObservation::Refused { message: "corrupt".to_owned() }
}

fn reported() -> NodeObservation {
    NodeObservation::Reported { message: "something is missing".to_owned() }
}

#[test]
fn i24_unreported_damage_is_a_violation() {
    let mut history = damaged(&[NodeObservation::Opened]);
    history.end(&[(1, Ready)]);
    history.assert_violates(24);
}

#[test]
fn i24_a_wrong_payload_is_never_excused() {
    let mut history = damaged(&[reported(), NodeObservation::Opened]);
    history.dump(vec![stored(1, Ready), DumpedJob { payload: PayloadHash(9), ..stored(2, Ready) }]);
    history.assert_violates(24);
}

#[test]
fn i24_a_silently_lost_report_is_a_violation() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.report(1, 1, DONE);
    history.node(NodeObservation::Closed);
    history.fault(RecordedFault::Corruption { what: "the end".to_owned() });
    history.node(NodeObservation::Opened);
    history.end(&[(1, Ready)]);
    history.assert_violates(24);
}

#[test]
fn damage_that_is_reported_refused_or_harmless_is_accepted() {
    let mut history = damaged(&[reported(), NodeObservation::Opened]);
    history.end(&[(1, Ready)]);
    history.assert_clean();
    let mut history = damaged(&[NodeObservation::Opened, reported()]);
    history.end(&[(2, Ready)]);
    history.assert_clean();
    damaged(&[refused()]).assert_clean();
    let mut history = damaged(&[NodeObservation::Opened]);
    history.end(&[(1, Ready), (2, Ready)]);
    history.assert_clean();
}

#[test]
fn i1_holds_again_after_a_repair() {
    let mut history = damaged(&[refused(), NodeObservation::Opened]);
    history.end(&[(1, Ready)]);
    history.assert_violates(1);
}

#[test]
fn i1_damage_does_not_excuse_later_losses() {
    let mut history = damaged(&[reported(), NodeObservation::Opened]);
    history.push(item(3));
    history.end(&[(1, Ready), (2, Done)]);
    let report = history.check();
    assert!(report.violations.iter().any(|found| found.invariant.0 == 1), "{report}");
}

#[test]
fn a_crash_may_forget_a_delivery_and_the_end_of_the_one_before() {
    let mut history = HistoryBuilder::new();
    history.push(item(1));
    history.fetch(vec![grant(1, 1, 1)]);
    history.push(item(2));
    let n = history.begin_report(1, 1, super::history_builder::FAILED);
    history.advance(super::history_builder::LEASE);
    history.fetch(vec![grant(1, 2, 2)]);
    history.fault(RecordedFault::PowerCut);
    history.info(n);
    history.node(NodeObservation::Opened);
    history.report(1, 1, DONE);
    history.end(&[(1, Done), (2, Ready)]);
    history.assert_clean();
}

#[test]
fn a_job_that_was_seen_before_it_was_durable_may_be_forgotten() {
    use crore_core::unique::UniqueHold;
    let mut history = HistoryBuilder::new();
    let n = history.begin_push(vec![super::history_builder::keyed(1, UniqueHold::UntilEnd, None)]);
    history.get(1, Some(super::history_builder::recorded_job(1, Ready, None)));
    history.crash();
    history.info(n);
    history.push(super::history_builder::keyed(2, UniqueHold::UntilEnd, None));
    history.dump(vec![DumpedJob { unique: Some("key".into()), ..stored(2, Ready) }]);
    history.assert_clean();
}
