//! Callers that push jobs, read them and their results, and cancel, retry, delete or edit them.

use std::time::Duration;

use crore_core::job::ResultRetention;
use crore_testkit::SeededRng;
use crore_testkit::history::op::AdminAction;

use crate::calls::RecordingCaller;
use crate::client::Unreachable;
use crate::draft::{JobDraft, PushForm};
use crate::time::sleep;

/// Above this number of unfinished jobs no more are pushed.
const MAX_UNFINISHED: i64 = 150;

/// Pushes jobs and changes others until the server is unreachable.
pub(crate) async fn run_pusher(mut caller: RecordingCaller, mut rng: SeededRng) {
    while let Ok(()) = step(&mut caller, &mut rng).await {
        sleep(Duration::from_micros(rng.below(4_000))).await;
    }
}

async fn step(caller: &mut RecordingCaller, rng: &mut SeededRng) -> Result<(), Unreachable> {
    caller.client.connect().await?;
    if rng.percent(50)
        && let Some(push) = caller.context.take_pending_push()
    {
        // A repeated push uses the encoding of the first one.
        let own = std::mem::replace(&mut caller.client.format, push.format);
        caller.send_push(push).await;
        caller.client.format = own;
        return Ok(());
    }
    match rng.below(20) {
        0..=8 if caller.context.unfinished() < MAX_UNFINISHED => push_one(caller, rng).await,
        9..=12 if caller.context.unfinished() < MAX_UNFINISHED => push_batch(caller, rng).await,
        0..=17 => read_job(caller, rng).await,
        _ => change_job(caller, rng).await,
    }
    Ok(())
}

async fn push_one(caller: &mut RecordingCaller, rng: &mut SeededRng) {
    let seq = caller.context.next_seq();
    let draft = JobDraft::new(rng, seq, caller.client.format, PushForm::Alone);
    // A job's own unique key replaces the idempotency key, and may be free again when the push is repeated.
    let may_be_named = draft.job.spec.unique.is_none();
    let key = (may_be_named && rng.percent(30)).then(|| format!("push-{seq}"));
    caller.push(draft, key).await;
}

async fn push_batch(caller: &mut RecordingCaller, rng: &mut SeededRng) {
    let n = 2 + rng.below(4);
    let draft =
        |_| JobDraft::new(rng, caller.context.next_seq(), caller.client.format, PushForm::Member);
    let drafts: Vec<JobDraft> = (0..n).map(draft).collect();
    caller.push_all(&drafts).await;
}

async fn read_job(caller: &mut RecordingCaller, rng: &mut SeededRng) {
    match caller.context.random_job(rng) {
        None => {}
        Some((id, known)) if known.keep == ResultRetention::Discard => caller.get_job(id).await,
        Some((id, _)) => caller.take_result(id).await,
    }
}

async fn change_job(caller: &mut RecordingCaller, rng: &mut SeededRng) {
    let Some((id, _)) = caller.context.random_job(rng) else { return };
    let want = match rng.below(6) {
        0..=1 => AdminAction::Cancel,
        2..=3 => AdminAction::Retry,
        4 => AdminAction::Delete,
        _ => {
            let priority = Some(rng.below(3) as i32);
            AdminAction::Edit { queue: None, priority, due: None, limits: None }
        }
    };
    caller.change_job(id, want).await;
}
