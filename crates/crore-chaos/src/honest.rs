//! The end of a run: nothing is broken any more, and honest workers bring every job to its end.

use std::time::Duration;

use crore_testkit::history::answer::Count;
use crore_testkit::history::{Answer, Op};
use crore_wire::api::queues::Counts;
use crore_wire::api::workers::Workers;

use crate::asked::{Caller, done, fetch_all};
use crate::client::{Ask, Heard};
use crate::draft::name;
use crate::pause::{LIMIT, instant, pause};

/// Says again what was not answered, and works until every job has ended. The error says what hangs.
pub(crate) async fn settle(caller: &mut Caller) -> Result<(), String> {
    let away = |_| "the server went away by itself".to_owned();
    let start = instant();
    loop {
        caller.client.connect().await.map_err(away)?;
        while let Some(push) = caller.desk.to_say_again() {
            caller.client.format = push.format;
            caller.push_said(push).await;
            caller.client.connect().await.map_err(away)?;
        }
        let held = caller.fetch(&fetch_all(100)).await;
        caller.client.connect().await.map_err(away)?;
        if held.is_empty() {
            let counts = counts(caller).await?;
            let live = counts.iter().filter(|count| !count.state.has_ended());
            let live: u64 = live.map(|count| count.n).sum();
            if live == 0 {
                return Ok(());
            }
            if start.elapsed() > LIMIT {
                return Err(format!("{live} jobs never end, though workers wait: {counts:?}"));
            }
            pause(Duration::from_millis(10)).await;
        } else {
            let reports: Vec<_> = held.into_iter().map(done).collect();
            caller.finish(&reports).await;
        }
    }
}

/// Waits until others have brought every job to its end. The error says what hangs.
pub(crate) async fn until_ended(caller: &mut Caller, at_most: Duration) -> Result<(), String> {
    let start = instant();
    loop {
        caller.client.connect().await.map_err(|_| "the server went away by itself".to_owned())?;
        let counts = counts(caller).await?;
        if counts.iter().all(|count| count.state.has_ended()) {
            return Ok(());
        }
        if start.elapsed() > at_most {
            return Err(format!("jobs never end, though workers wait: {counts:?}"));
        }
        pause(Duration::from_millis(50)).await;
    }
}

/// Those push workers that the server does not know any more, though it said that it does.
pub(crate) async fn forgotten(
    caller: &mut Caller,
    workers: &[String],
) -> Result<Vec<String>, String> {
    caller.client.connect().await.map_err(|_| "the server went away by itself".to_owned())?;
    match caller.client.call::<Workers>(&Ask::get("/v1/workers".to_owned())).await {
        Heard::Yes(there) => {
            let knows = |id: &&String| there.workers.iter().any(|worker| worker.name == **id);
            Ok(workers.iter().filter(|id| !knows(id)).cloned().collect())
        }
        other => Err(format!("workers cannot be listed: {other:?}")),
    }
}

async fn counts(caller: &mut Caller) -> Result<Vec<Count>, String> {
    let call = caller.desk.recorder.invoke(caller.name.as_str(), Op::Counts);
    match caller.client.call::<Counts>(&Ask::get("/v1/counts".to_owned())).await {
        Heard::Yes(counts) => {
            let counts = counts.counts.iter().map(|count| Count {
                queue: name(&count.queue),
                kind: name(&count.kind),
                state: count.state.into(),
                n: count.n,
            });
            let counts: Vec<_> = counts.collect();
            caller.desk.recorder.ok(call, None, Answer::Counts(counts.clone()));
            Ok(counts)
        }
        other => Err(format!("jobs cannot be counted: {other:?}")),
    }
}
