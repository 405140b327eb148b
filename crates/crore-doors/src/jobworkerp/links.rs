//! What comes next: numbers of workers there, kinds here.
//!
//! A worker may name others that are not there yet, and they may be renamed and removed. So the numbers are kept as
//! they were said, and the kinds are made anew whenever workers come, go, or are called otherwise.

use crore_core::handler::{Follow, Gives};
use crore_core::{Handler, Name, Revision};
use crore_wire::grpc::jobworkerp::data::WorkerId;

use super::built_in;
use super::kept::Kept;
use super::options::Options;
use super::workers::{self, BUILT_IN_ID, BUSY, TRIES, Workers};
use crate::Doors;

/// Lets a handler be followed by the workers of these numbers, as far as they are there.
pub(super) fn link(handler: &mut Handler, ids: &[i64], workers: &Workers, options: &Options) {
    let (next, on_failure) = follows(ids, workers, options);
    handler.next = next;
    handler.on_failure.retain(|follow| follow.kind.as_str() != built_in::NAME);
    handler.on_failure.extend(on_failure);
}

/// A worker that is said anew: what it has no word for stays as it was.
pub(super) fn unsaid(said: Handler, before: &Handler) -> Handler {
    let Handler { id, timeout, schedule, formerly, mut on_failure, .. } = before.clone();
    on_failure.retain(|follow| follow.kind.as_str() != built_in::NAME);
    on_failure.extend(said.on_failure);
    Handler { id, timeout, schedule, formerly, on_failure, ..said }
}

/// Who follows on success, and who on failure.
fn follows(ids: &[i64], workers: &Workers, options: &Options) -> (Vec<Follow>, Vec<Follow>) {
    let (mut next, mut on_failure) = (Vec::new(), Vec::new());
    for id in ids {
        if *id != BUILT_IN_ID {
            let found = workers.by_id(*id);
            next.extend(found.map(|(kind, _)| Follow { kind: kind.clone(), gives: Gives::Items }));
        } else if let (Some(_), Some(kind)) = (options.slack(), built_in::name()) {
            let told = Follow { kind, gives: Gives::Summary };
            next.extend(options.slack_on_success.then(|| told.clone()));
            on_failure.extend(options.slack_on_failure.then_some(told));
        }
    }
    (next, on_failure)
}

/// The numbers of the workers that follow a handler: as they were said, unless somebody has said otherwise since.
pub(super) fn said(handler: &Handler, workers: &Workers, options: &Options) -> Vec<WorkerId> {
    let kept = Kept::of(handler).map(|kept| kept.next);
    let ids = match kept.filter(|ids| follows(ids, workers, options).0 == handler.next) {
        Some(ids) => ids,
        None => {
            let id = |follow: &Follow| {
                workers.by_name(follow.kind.as_str()).map(|(_, known)| workers::id(&known.handler))
            };
            handler.next.iter().filter_map(id).collect()
        }
    };
    ids.into_iter().map(|value| WorkerId { value }).collect()
}

/// Makes all links anew that have changed. Whatever somebody else says of a worker meanwhile stays.
pub(super) async fn relink(doors: &Doors) -> Result<(), crore::Error> {
    for _ in 0..TRIES {
        let workers = Workers::of(doors.engine().handlers().list().await?);
        if relink_seen(doors, &workers).await? {
            return Ok(());
        }
    }
    Err(crore::Error::Refused { what: "`next_workers` of others".to_owned(), why: BUSY })
}

/// The same, for workers as they were seen; `false`: one was changed meanwhile, and is as it was made.
async fn relink_seen(doors: &Doors, workers: &Workers) -> Result<bool, crore::Error> {
    let mut is_all = true;
    for (seen, handler) in changed(workers, &doors.options().jobworkerp) {
        is_all &= doors.engine().handlers().replace(seen, handler).await?;
    }
    Ok(is_all)
}

fn changed(workers: &Workers, options: &Options) -> Vec<((Name, Revision), Handler)> {
    let mut changed = Vec::new();
    for (kind, known) in workers.all() {
        let Some(kept) = Kept::of(&known.handler).filter(|kept| !kept.next.is_empty()) else {
            continue;
        };
        let mut handler = (*known.handler).clone();
        link(&mut handler, &kept.next, workers, options);
        if handler != *known.handler {
            changed.push(((kind.clone(), known.revision), handler));
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use crore::Engine;
    use crore_core::Span;
    use crore_wire::grpc::jobworkerp::data::WorkerData;

    use super::super::translate;
    use super::*;

    #[tokio::test]
    async fn links_that_are_made_anew_take_nobodys_word_back() {
        let doors = Doors::new(Engine::memory(), crate::Options::default());
        let engine = doors.engine();
        let workers = async || Workers::of(engine.handlers().list().await.expect("asked"));
        let add = async |name: &str, next: i64| {
            let operation = "ls".to_owned();
            let next_workers = vec![WorkerId { value: next }];
            let data =
                WorkerData { name: name.to_owned(), operation, next_workers, ..Default::default() };
            // Nobody is known, so whom it names is not linked.
            let (nobody, options) =
                (Workers::of(crore::handlers::All::default()), Options::default());
            let (kind, handler) = translate::read(&data, &nobody, &options).expect("good");
            engine.handlers().set(kind.clone(), handler).await.expect("set");
            kind
        };
        let (first, second) = (add("first", 2).await, add("second", 9).await);
        let seen = workers().await;
        let known = engine.handlers().get(&first).await.expect("asked").expect("it is there");
        let timeout = Some(Span::from_secs(9));
        let said = Handler { timeout, ..(*known.handler).clone() };
        engine.handlers().set(first.clone(), said).await.expect("set");
        assert!(!relink_seen(&doors, &seen).await.expect("asked"));
        let known = engine.handlers().get(&first).await.expect("asked").expect("it is there");
        assert_eq!((known.handler.timeout, known.handler.next.len()), (timeout, 0));
        relink(&doors).await.expect("linked");
        let known = engine.handlers().get(&first).await.expect("asked").expect("it is there");
        assert_eq!((known.handler.timeout, &known.handler.next[0].kind), (timeout, &second));
        assert!(
            relink_seen(&doors, &workers().await).await.expect("asked"),
            "nothing is left to do"
        );
    }
}
