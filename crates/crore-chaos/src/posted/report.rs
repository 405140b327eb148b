//! What a worker says by itself: that it is there, and how a job went.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crore_core::Code;
use crore_testkit::Dice;
use crore_testkit::history::answer::Reported;
use crore_testkit::history::op::Outcome;
use crore_testkit::history::{Answer, Pending};
use serde::{Deserialize, Serialize};

use super::MAX_JOBS;
use super::deed::Said;
use super::place::Worker;
use crate::asked::Caller;

use crate::client::{Ask, Away, Heard, Nothing};
use crate::desk::Held;
use crate::pause::{instant, pause};

/// So often a worker starts anew in a run, at most.
const LIVES: usize = 4;

/// A report that is to be made.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) call: Pending,
    /// Under which the worker was given the job.
    pub(super) id: String,
    pub(super) held: Held,
    pub(super) said: Said,
    /// Not before then.
    pub(super) at: Instant,
    /// Whether it was said before, and nobody heard an answer.
    pub(super) sent: bool,
}

#[derive(Debug, Serialize)]
struct Register<'a> {
    name: &'a str,
    max_jobs: u32,
    url: String,
}

#[derive(Debug, Deserialize)]
struct Registered {
    worker_id: String,
}

/// Speaks until there is nobody to speak to.
pub(super) async fn speak_on(worker: Arc<Worker>, mut caller: Caller, mut dice: Dice) {
    while let Ok(()) = step(&worker, &mut caller, &mut dice).await {
        pause(Duration::from_micros(dice.below(4_000))).await;
    }
}

async fn step(worker: &Worker, caller: &mut Caller, dice: &mut Dice) -> Result<(), Away> {
    caller.client.connect().await?;
    let (starts, leaves) = {
        let inner = worker.inner();
        match (inner.ids.len(), inner.standing.is_empty(), inner.honest) {
            (0, ..) => (100, 0),
            (_, true, _) => (20, 0),
            (..LIVES, _, false) => (1, 1),
            (_, _, false) => (0, 1),
            (_, _, true) => (0, 0),
        }
    };
    if dice.percent(starts) {
        register(worker, caller).await;
    } else if dice.percent(leaves) {
        leave(worker, caller).await;
    }
    let due = {
        let (now, mut inner) = (instant(), worker.inner());
        let next = inner.due.iter().position(|due| due.at <= now);
        next.and_then(|next| inner.due.remove(next))
    };
    if let Some(due) = due {
        caller.client.connect().await?;
        report(worker, caller, due, dice).await;
    }
    Ok(())
}

/// Says that it is there, as one that knows nothing of its former lives.
async fn register(worker: &Worker, caller: &mut Caller) {
    let n = {
        let mut inner = worker.inner();
        inner.ids.push(None);
        inner.ids.len() - 1
    };
    let url = format!("http://{}/{n}", worker.address);
    let register = Register { name: worker.name(), max_jobs: MAX_JOBS, url };
    let ask = Ask::post("/worker", caller.client.format, &register);
    match caller.client.call::<Registered>(&ask).await {
        Heard::Yes(registered) => {
            let mut inner = worker.inner();
            inner.ids[n] = Some(registered.worker_id.clone());
            inner.standing.push(registered.worker_id);
        }
        Heard::No(..) => {}
        Heard::Nothing(why) => worker.desk.heard_nothing("register", &why),
    }
}

/// Takes its leave under the oldest of its ids; what it has it may still report.
async fn leave(worker: &Worker, caller: &mut Caller) {
    let id = {
        let mut inner = worker.inner();
        if inner.standing.len() < 2 {
            return;
        }
        inner.standing.remove(0)
    };
    let ask = Ask { method: "DELETE", worker: Some(id), ..Ask::get("/worker".to_owned()) };
    match caller.client.call::<Nothing>(&ask).await {
        Heard::Yes(_) => {}
        Heard::No(Code::NotFound, why) => {
            worker.desk.wrong(format!("a worker was forgotten: {why}"));
        }
        Heard::No(..) => {}
        Heard::Nothing(why) => worker.desk.heard_nothing("leave", &why),
    }
}

async fn report(worker: &Worker, caller: &mut Caller, due: Due, dice: &mut Dice) {
    let Due { call, id, held, said, at, sent } = due;
    let heard = say(caller, &id, &said).await;
    match heard {
        Heard::Yes(_) => {
            worker.desk.ended();
            worker.desk.answered(call, Answer::Reported(Reported::Accepted(Vec::new())));
            if dice.percent(20) {
                again(worker, caller, (held, &id, &said), dice).await;
            }
        }
        // It is not with this worker any more. What was said before may have counted.
        Heard::No(Code::NotFound, _) if !sent => {
            worker.desk.answered(call, Answer::Reported(Reported::Stale));
        }
        Heard::No(_, why) if !sent => worker.desk.recorder.fail(call, why),
        Heard::No(_, why) => worker.desk.recorder.info(call, why),
        Heard::Nothing(why) => {
            worker.desk.heard_nothing("done", &why);
            if dice.percent(70) {
                worker.inner().due.push_back(Due { call, id, held, said, at, sent: true });
            } else {
                worker.desk.recorder.info(call, why);
            }
        }
    }
}

/// Reports once more what has counted: the same, which is nothing new, or something else, which must not count.
async fn again(
    worker: &Worker,
    caller: &mut Caller,
    (held, id, said): (Held, &str, &Said),
    dice: &mut Dice,
) {
    if caller.client.connect().await.is_err() {
        return;
    }
    if dice.percent(50) {
        if let Heard::Nothing(why) = say(caller, id, said).await {
            worker.desk.heard_nothing("done", &why);
        }
        return;
    }
    let (other, outcome): (Said, Outcome) = Said::about(held, dice, false);
    let call = worker.begin(held, outcome);
    match say(caller, id, &other).await {
        // Who says it again is not told that it did not count.
        Heard::Yes(_) | Heard::No(Code::NotFound, _) => {
            worker.desk.answered(call, Answer::Reported(Reported::Stale));
        }
        Heard::No(_, why) => worker.desk.recorder.fail(call, why),
        Heard::Nothing(why) => {
            worker.desk.heard_nothing("done", &why);
            worker.desk.recorder.info(call, why);
        }
    }
}

async fn say(caller: &mut Caller, id: &str, said: &Said) -> Heard<Nothing> {
    let ask = Ask::post("/done", caller.client.format, said);
    caller.client.call(&Ask { worker: Some(id.to_owned()), ..ask }).await
}
