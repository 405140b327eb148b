//! One node at a time leads a duty.

use crore_core::Span;
use crore_store::upkeep::Lead;

use super::super::job_builder::{MILLI, MINUTE, SECOND, name};
use super::super::subject::{StoreSubject, expect_ok};

async fn lead(s: &StoreSubject, node: u64, span: Span) -> Lead {
    expect_ok(s.store.lead(name("promote"), node, span)).await
}

pub(in super::super) async fn one_node_leads_at_a_time(s: &StoreSubject) {
    let until = s.now().after(MINUTE);
    assert_eq!(lead(s, 1, MINUTE).await, Lead::Yes(until));
    s.advance(SECOND);
    assert_eq!(lead(s, 2, MINUTE).await, Lead::No(until));
    assert_eq!(lead(s, u64::MAX, MINUTE).await, Lead::No(until), "any number is a node");
}

pub(in super::super) async fn one_of_two_concurrent_nodes_leads(s: &StoreSubject) {
    let (a, b) = tokio::join!(lead(s, 1, MINUTE), lead(s, 2, MINUTE));
    let yes = [a, b].iter().filter(|lead| matches!(lead, Lead::Yes(_))).count();
    assert_eq!(yes, 1, "{a:?} and {b:?}");
}

pub(in super::super) async fn a_leader_that_asks_again_keeps_leading(s: &StoreSubject) {
    lead(s, 1, MINUTE).await;
    s.advance(Span::from_millis(59_999));
    let until = s.now().after(MINUTE);
    assert_eq!(lead(s, 1, MINUTE).await, Lead::Yes(until));
    s.advance(MILLI);
    assert_eq!(lead(s, 2, MINUTE).await, Lead::No(until));
}

pub(in super::super) async fn another_node_takes_over_after_the_term(s: &StoreSubject) {
    lead(s, 1, SECOND).await;
    s.advance(Span::from_millis(999));
    assert!(matches!(lead(s, 2, MINUTE).await, Lead::No(_)));
    s.advance(MILLI);
    let until = s.now().after(MINUTE);
    assert_eq!(lead(s, 2, MINUTE).await, Lead::Yes(until));
    assert_eq!(lead(s, 1, MINUTE).await, Lead::No(until), "the first worker has lost it");
}

pub(in super::super) async fn a_leader_that_asks_for_no_time_resigns(s: &StoreSubject) {
    lead(s, 1, MINUTE).await;
    assert!(matches!(lead(s, 2, Span::ZERO).await, Lead::No(_)), "no other node takes over");
    assert!(matches!(lead(s, 2, MINUTE).await, Lead::No(_)));
    lead(s, 1, Span::ZERO).await;
    assert_eq!(lead(s, 2, MINUTE).await, Lead::Yes(s.now().after(MINUTE)));
}

pub(in super::super) async fn duties_have_separate_leaders(s: &StoreSubject) {
    lead(s, 1, MINUTE).await;
    let other = expect_ok(s.store.lead(name("prune"), 2, MINUTE)).await;
    assert_eq!(other, Lead::Yes(s.now().after(MINUTE)));
}
