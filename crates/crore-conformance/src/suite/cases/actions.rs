//! Actions by hand, which are recorded with their callers.

use crore_core::job::{MAX_HISTORY, ManualActionType};
use crore_core::machine::{JobEdit, JobEvent, NewManualAction, decide};
use crore_store::jobs::{Applied, StoreWrite};

use super::super::job_builder::{SECOND, job};
use super::super::subject::{StoreSubject, expect_ok};

pub(in super::super) async fn actions_by_hand_are_newest_first_and_bounded(s: &StoreSubject) {
    let id = s.push(job("q")).await;
    let mut expected = Vec::new();
    for n in 0..MAX_HISTORY + 2 {
        s.advance(SECOND);
        let record = NewManualAction {
            action: ManualActionType::Edit,
            by: format!("caller {n}").into(),
            detail: (n % 2 == 0).then(|| "queue q".into()),
        };
        let event = JobEvent::Edit(JobEdit::default());
        let change = decide(&s.job(id).await, &event, 0).expect("it waits");
        let write = StoreWrite::Job(change.recorded(record.clone()));
        let applied = expect_ok(s.store.apply(vec![write])).await.into_inner();
        assert!(matches!(applied.as_slice(), [Applied::Yes(_)]), "{applied:?}");
        expected.insert(0, (s.now(), record.by, record.detail));
    }
    let actions = s.job(id).await.live.actions;
    let kept: Vec<_> =
        actions.into_iter().map(|action| (action.at, action.by, action.detail)).collect();
    assert_eq!(kept, expected[..MAX_HISTORY]);
    // A claim and its report keep them.
    let running = s.claim_one("q").await;
    assert_eq!(running.live.actions.len(), MAX_HISTORY);
}
