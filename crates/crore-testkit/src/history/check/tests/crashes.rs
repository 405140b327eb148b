//! I23 and I24: errors of the disk.

use crore_core::State::{Done, Ready};

use super::tape::{DONE, Tape, grant, item, stored};
use crate::history::node::Stored;
use crate::history::{Fault, Hash, Node};

#[test]
fn i23_nothing_is_acknowledged_after_a_sync_failed() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fault(Fault::SyncError);
    tape.push(item(2));
    tape.breaks(23);
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.fault(Fault::SyncError);
    tape.report(1, 1, DONE);
    tape.breaks(23);
}

#[test]
fn after_a_sync_failed_a_node_may_open_again() {
    let mut tape = Tape::new();
    let early = tape.begin_push(vec![item(1)]);
    tape.fault(Fault::SyncError);
    tape.pushed(early, vec![super::tape::new(1)]);
    let n = tape.begin_push(vec![item(2)]);
    tape.fail(n);
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.node(Node::Opened);
    tape.push(item(3));
    tape.fetch(vec![grant(1, 2, 1)]);
    tape.end(&[(1, Ready), (3, Ready)]);
    assert_eq!(tape.is_fine().counters.crashes, 1);
}

fn damaged(after: &[Node]) -> Tape {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.push(item(2));
    tape.node(Node::Closed);
    tape.fault(Fault::Corruption { what: "a bit".to_owned() });
    for node in after {
        tape.node(node.clone());
    }
    tape
}

fn refused() -> Node {
    Node::Refused { message: "corrupt".to_owned() }
}

fn reported() -> Node {
    Node::Reported { message: "something is missing".to_owned() }
}

#[test]
fn i24_damage_is_not_passed_over_in_silence() {
    let mut tape = damaged(&[Node::Opened]);
    tape.end(&[(1, Ready)]);
    tape.breaks(24);
}

#[test]
fn i24_a_wrong_payload_is_never_excused() {
    let mut tape = damaged(&[reported(), Node::Opened]);
    tape.dump(vec![stored(1, Ready), Stored { payload: Hash(9), ..stored(2, Ready) }]);
    tape.breaks(24);
}

#[test]
fn i24_a_report_that_is_forgotten_in_silence() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.report(1, 1, DONE);
    tape.node(Node::Closed);
    tape.fault(Fault::Corruption { what: "the end".to_owned() });
    tape.node(Node::Opened);
    tape.end(&[(1, Ready)]);
    tape.breaks(24);
}

#[test]
fn damage_that_is_reported_or_refused_or_does_no_harm_is_fine() {
    let mut tape = damaged(&[reported(), Node::Opened]);
    tape.end(&[(1, Ready)]);
    tape.is_fine();
    let mut tape = damaged(&[Node::Opened, reported()]);
    tape.end(&[(2, Ready)]);
    tape.is_fine();
    damaged(&[refused()]).is_fine();
    let mut tape = damaged(&[Node::Opened]);
    tape.end(&[(1, Ready), (2, Ready)]);
    tape.is_fine();
}

#[test]
fn i1_holds_again_once_the_files_are_put_right() {
    let mut tape = damaged(&[refused(), Node::Opened]);
    tape.end(&[(1, Ready)]);
    tape.breaks(1);
}

#[test]
fn i1_damage_does_not_excuse_what_comes_after() {
    let mut tape = damaged(&[reported(), Node::Opened]);
    tape.push(item(3));
    tape.end(&[(1, Ready), (2, Done)]);
    let report = tape.check();
    assert!(report.violations.iter().any(|found| found.promise.0 == 1), "{report}");
}

#[test]
fn a_crash_may_forget_a_delivery_and_the_end_of_the_one_before() {
    let mut tape = Tape::new();
    tape.push(item(1));
    tape.fetch(vec![grant(1, 1, 1)]);
    tape.push(item(2));
    let n = tape.begin_report(1, 1, super::tape::FAILED);
    tape.pass(super::tape::LEASE);
    tape.fetch(vec![grant(1, 2, 2)]);
    tape.fault(Fault::PowerCut);
    tape.info(n);
    tape.node(Node::Opened);
    tape.report(1, 1, DONE);
    tape.end(&[(1, Done), (2, Ready)]);
    tape.is_fine();
}

#[test]
fn a_job_that_was_seen_before_it_was_durable_may_be_forgotten() {
    use crore_core::unique::Hold;
    let mut tape = Tape::new();
    let n = tape.begin_push(vec![super::tape::keyed(1, Hold::UntilEnd, None)]);
    tape.get(1, Some(super::tape::look(1, Ready, None)));
    tape.crash();
    tape.info(n);
    tape.push(super::tape::keyed(2, Hold::UntilEnd, None));
    tape.dump(vec![Stored { unique: Some("key".into()), ..stored(2, Ready) }]);
    tape.is_fine();
}
