//! Those who push jobs, look at them, take their results and meddle with them.

use std::time::Duration;

use crore_core::job::Keep;
use crore_testkit::Dice;
use crore_testkit::history::op::Want;

use crate::asked::Caller;
use crate::client::Away;
use crate::draft::{Draft, Sort};
use crate::pause::pause;

/// From so many jobs on that are not done nobody pushes.
const ENOUGH: i64 = 150;

/// Pushes and meddles until there is nobody to speak to.
pub(crate) async fn push_on(mut caller: Caller, mut dice: Dice) {
    while let Ok(()) = step(&mut caller, &mut dice).await {
        pause(Duration::from_micros(dice.below(4_000))).await;
    }
}

async fn step(caller: &mut Caller, dice: &mut Dice) -> Result<(), Away> {
    caller.client.connect().await?;
    if dice.percent(50)
        && let Some(push) = caller.desk.to_say_again()
    {
        // What was said in one encoding is said again in the same.
        let own = std::mem::replace(&mut caller.client.format, push.format);
        caller.push_said(push).await;
        caller.client.format = own;
        return Ok(());
    }
    match dice.below(20) {
        0..=8 if caller.desk.live() < ENOUGH => push_one(caller, dice).await,
        9..=12 if caller.desk.live() < ENOUGH => push_some(caller, dice).await,
        0..=17 => look(caller, dice).await,
        _ => meddle(caller, dice).await,
    }
    Ok(())
}

async fn push_one(caller: &mut Caller, dice: &mut Dice) {
    let seq = caller.desk.next();
    let draft = Draft::new(dice, seq, caller.client.format, Sort::Alone);
    // A job's own unique key takes the place of the push's name, and may be free again when it is said again.
    let may_be_named = draft.job.spec.unique.is_none();
    let key = (may_be_named && dice.percent(30)).then(|| format!("push-{seq}"));
    caller.push(draft, key).await;
}

async fn push_some(caller: &mut Caller, dice: &mut Dice) {
    let n = 2 + dice.below(4);
    let draft = |_| Draft::new(dice, caller.desk.next(), caller.client.format, Sort::Member);
    let drafts: Vec<Draft> = (0..n).map(draft).collect();
    caller.push_all(&drafts).await;
}

async fn look(caller: &mut Caller, dice: &mut Dice) {
    match caller.desk.any(dice) {
        None => {}
        Some((id, known)) if known.keep == Keep::Discard => caller.look(id).await,
        Some((id, _)) => caller.take(id).await,
    }
}

async fn meddle(caller: &mut Caller, dice: &mut Dice) {
    let Some((id, _)) = caller.desk.any(dice) else { return };
    let want = match dice.below(6) {
        0..=1 => Want::Cancel,
        2..=3 => Want::Retry,
        4 => Want::Delete,
        _ => {
            let priority = Some(dice.below(3) as i32);
            Want::Edit { queue: None, priority, due: None, limits: None }
        }
    };
    caller.want(id, want).await;
}
