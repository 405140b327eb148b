//! Those who work. Most do well; some crash with a job in their hands, are silent for too long, report
//! twice, or come back with a job after the server was started anew.

use std::time::Duration;

use crore_core::Span;
use crore_testkit::Dice;
use crore_testkit::history::Hash;
use crore_testkit::history::op::{Again, Outcome};
use crore_wire::Raw;
use crore_wire::api::fetch::{Fetch, Order};
use crore_wire::api::finish;
use crore_wire::words::Period;
use tokio::time::timeout;

use crate::asked::{Caller, Report, done, fetch_from};
use crate::client::Away;
use crate::desk::Held;
use crate::draft::{Draft, QUEUES, Sort, value};
use crate::pause::pause;

/// Works until there is nobody to speak to.
pub(crate) async fn work_on(mut caller: Caller, mut dice: Dice) {
    while let Ok(()) = step(&mut caller, &mut dice).await {
        pause(Duration::from_micros(dice.below(3_000))).await;
    }
}

async fn step(caller: &mut Caller, dice: &mut Dice) -> Result<(), Away> {
    caller.client.connect().await?;
    if dice.percent(10)
        && let Some(held) = caller.desk.held()
    {
        let report = report(caller, dice, held);
        caller.finish(&[report]).await;
        return Ok(());
    }
    let ask = ask(caller, dice);
    if dice.percent(2) {
        // It crashes while it waits for the answer, and nobody learns what it was given.
        let patience = Duration::from_micros(dice.below(2_000));
        let _ = timeout(patience, caller.fetch(&ask)).await;
        caller.client.hang_up();
        return Ok(());
    }
    let held = caller.fetch(&ask).await;
    if dice.percent(20) && !held.is_empty() {
        caller.client.connect().await?;
        caller.renew(&held).await;
    }
    let reports = reports(caller, dice, held);
    if !reports.is_empty() {
        caller.client.connect().await?;
        caller.finish(&reports).await;
    }
    Ok(())
}

fn ask(caller: &Caller, dice: &mut Dice) -> Fetch {
    let first = dice.below(QUEUES.len() as u64) as usize;
    let mut queues = QUEUES.to_vec();
    queues.rotate_left(first);
    queues.truncate(1 + dice.below(QUEUES.len() as u64) as usize);
    let mut fetch = fetch_from(&queues, 1 + dice.below(4) as usize);
    fetch.worker = Some(caller.name.clone());
    fetch.wait = dice.percent(50).then(|| Period(Span::from_millis(dice.below(40))));
    if dice.percent(20) {
        fetch.order = Order::Strict;
    }
    fetch
}

/// What is reported of what was fetched, now.
fn reports(caller: &Caller, dice: &mut Dice, held: Vec<Held>) -> Vec<Report> {
    let mut reports = Vec::new();
    for held in held {
        match dice.below(20) {
            // The worker has crashed.
            0 => {}
            // It is silent, and comes back with it later.
            1 | 2 => caller.desk.hold(held),
            3 => {
                let report = report(caller, dice, held);
                reports.extend([report.clone(), report]);
            }
            _ => reports.push(report(caller, dice, held)),
        }
    }
    reports
}

fn report(caller: &Caller, dice: &mut Dice, held: Held) -> Report {
    let mut report = done(held);
    let Report { said, outcome, follow_ups } = &mut report;
    let format = caller.client.format;
    match dice.below(20) {
        0..=2 => {
            said.outcome = finish::Outcome::Failed;
            said.error = Some("it went wrong".to_owned());
            let again = match dice.below(4) {
                0 => Again::Never,
                1 => Again::After(Span::from_millis(dice.below(40))),
                _ => Again::ByPolicy,
            };
            said.retry = (again == Again::Never).then_some(false);
            if let Again::After(span) = again {
                said.after = Some(Period(span));
            }
            *outcome = Outcome::Failed { again, detail: None };
        }
        3 => {
            let span = Span::from_millis(dice.below(40));
            (said.outcome, said.after) = (finish::Outcome::Snooze, Some(Period(span)));
            *outcome = Outcome::Snooze(span);
        }
        4 => (said.outcome, *outcome) = (finish::Outcome::Interrupted, Outcome::Interrupted),
        5 => (said.outcome, *outcome) = (finish::Outcome::Cancel, Outcome::Cancel),
        n => {
            let text = format!("{}:{}:{}", held.id, held.delivery.0, dice.roll());
            let result = value(&text, format);
            *outcome = Outcome::Done { result: Some(Hash::of(&result)) };
            said.result = Some(Raw::new(format, result.bytes));
            if n == 6 {
                follow_ups.push(Draft::new(dice, caller.desk.next(), format, Sort::Member));
                said.on_done = follow_ups.iter().map(|draft| draft.said(format)).collect();
                caller.desk.remember(&follow_ups[0]);
            }
        }
    }
    report
}
