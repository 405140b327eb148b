//! What all callers of a run share: the recorder, what they know of jobs, and what is left to do.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crore_core::job::Keep;
use crore_core::{Code, Delivery, Encoding, JobId, Payload, Span};
use crore_testkit::Dice;
use crore_testkit::history::{Answer, Hash, Pending, Recorder};
use crore_wire::Format;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::client::{Ask, NEVER, STRANGE};
use crate::draft::{Draft, value};
use crate::harm::Harm;
use crate::pause::instant;

/// The server, in the history.
pub(crate) const NODE: &str = "server";
/// How a question ends that no job has answered, of those who are posted jobs without asking.
pub(crate) const UNANSWERED: &str = "nothing was posted";
/// Of so many jobs callers know the numbers, to look at them and to meddle.
const KNOWN: usize = 500;

/// What all callers of a run share.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) recorder: Recorder,
    /// Whether a server has reason to give itself up: its disk took something and then did not.
    may_give_up: bool,
    /// How many answers were heard.
    heard: watch::Sender<u64>,
    /// Whether there is a server.
    serves: watch::Sender<bool>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pushed: u64,
    drafts: HashMap<Hash, Known>,
    numbered: HashMap<u64, Known>,
    known: Vec<(JobId, Known)>,
    held: Vec<Held>,
    unanswered: Vec<Unanswered>,
    wrong: Vec<String>,
    /// About how many jobs have not ended.
    live: i64,
}

/// What callers know of a job from its push.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Known {
    pub(crate) lease: Option<Span>,
    pub(crate) keep: Keep,
    pub(crate) priority: i32,
    encoding: Encoding,
}

/// A delivery in somebody's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: JobId,
    pub(crate) delivery: Delivery,
    pub(crate) lease: Option<Span>,
}

/// A push with a name that was sent, perhaps several times, and not answered: it is said again until it is.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) ask: Ask,
    pub(crate) format: Format,
    pub(crate) call: Pending,
    pub(crate) known: Known,
}

impl Desk {
    pub(crate) fn new(harm: Harm) -> Self {
        let start = instant();
        let now = move || u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (heard, serves) = (watch::Sender::new(0), watch::Sender::new(false));
        let may_give_up = matches!(harm, Harm::Power | Harm::PowerExt4 | Harm::Full | Harm::Fill);
        Self { recorder: Recorder::new(now), may_give_up, heard, serves, inner: Mutex::default() }
    }

    /// A call was answered.
    pub(crate) fn answered(&self, call: Pending, answer: Answer) {
        self.recorder.ok(call, None, answer);
        self.heard.send_modify(|heard| *heard += 1);
    }

    /// Lets callers work until so many more calls are answered, or for as long as that takes at most.
    pub(crate) async fn until_heard(&self, more: u64, at_most: Duration) {
        let mut heard = self.heard.subscribe();
        let enough = *heard.borrow() + more;
        // Either way it is over now.
        let _ = timeout(at_most, heard.wait_for(|heard| *heard >= enough)).await;
    }

    /// A server is there, or not any more.
    pub(crate) fn serves(&self, serves: bool) {
        self.serves.send_replace(serves);
    }

    /// Does nothing for a while: as long as there is a server that could suffer from it.
    pub(crate) async fn rest(&self, span: Duration) {
        let mut serves = self.serves.subscribe();
        // Either way it is over now.
        let _ = timeout(span, serves.wait_for(|serves| !serves)).await;
    }

    /// The number of the next job that is pushed.
    pub(crate) fn next(&self) -> u64 {
        let mut inner = self.inner();
        inner.pushed += 1;
        inner.pushed
    }

    /// About how many jobs there are to do.
    pub(crate) fn live(&self) -> i64 {
        self.inner().live
    }

    /// A job is about to be pushed.
    pub(crate) fn remember(&self, draft: &Draft) -> Known {
        let spec = &draft.job.spec;
        let known = Known {
            lease: spec.lease,
            keep: spec.keep,
            priority: spec.priority,
            encoding: spec.payload.encoding,
        };
        let mut inner = self.inner();
        inner.drafts.insert(Hash::of(&spec.payload), known);
        inner.numbered.insert(draft.seq, known);
        known
    }

    /// A job was pushed.
    pub(crate) fn has(&self, id: JobId, known: Known) {
        let mut inner = self.inner();
        inner.live += 1;
        if inner.known.len() < KNOWN {
            inner.known.push((id, known));
        } else {
            let place = id.0 as usize % KNOWN;
            inner.known[place] = (id, known);
        }
    }

    /// A job has ended.
    pub(crate) fn ended(&self) {
        self.inner().live -= 1;
    }

    /// What is known of the job with this payload.
    pub(crate) fn of(&self, payload: Hash) -> Option<Known> {
        self.inner().drafts.get(&payload).copied()
    }

    /// The payload of a job that was posted, as its pusher gave it, and what is known of that job.
    pub(crate) fn posted(&self, argument: &[u8]) -> Option<(Hash, Known)> {
        let text = text(argument)?;
        let seq = text.split(':').next()?.parse().ok()?;
        let known = self.inner().numbered.get(&seq).copied()?;
        let payload = match known.encoding {
            Encoding::Json => value(text, Format::Json),
            Encoding::Msgpack => value(text, Format::Msgpack),
            other => Payload::new(other, text.as_bytes()),
        };
        Some((Hash::of(&payload), known))
    }

    /// Some job that was pushed.
    pub(crate) fn any(&self, dice: &mut Dice) -> Option<(JobId, Known)> {
        let inner = self.inner();
        let n = u64::try_from(inner.known.len()).ok().filter(|n| *n > 0)?;
        inner.known.get(dice.below(n) as usize).copied()
    }

    /// Somebody keeps a job in his hands, and may come back with it in another life.
    pub(crate) fn hold(&self, held: Held) {
        self.inner().held.push(held);
    }

    /// The job that was held longest.
    pub(crate) fn held(&self) -> Option<Held> {
        let mut inner = self.inner();
        if inner.held.is_empty() { None } else { Some(inner.held.remove(0)) }
    }

    /// A push was not answered.
    pub(crate) fn unanswered(&self, push: Unanswered) {
        self.inner().unanswered.push(push);
    }

    /// A push that was not answered.
    pub(crate) fn to_say_again(&self) -> Option<Unanswered> {
        self.inner().unanswered.pop()
    }

    /// Notes what no server should ever do, whatever is done to it.
    pub(crate) fn heard_nothing(&self, what: &str, why: &str) {
        let gave_up = why.contains(Code::Poisoned.as_str()) && !self.may_give_up;
        if why == NEVER || why.starts_with(STRANGE) || gave_up {
            self.wrong(format!("{what}: {why}"));
        }
    }

    /// Notes something that is wrong and stands in no history.
    pub(crate) fn wrong(&self, what: String) {
        self.inner().wrong.push(what);
    }

    /// All that is wrong and stands in no history.
    pub(crate) fn all_wrong(&self) -> Vec<String> {
        self.inner().wrong.clone()
    }

    /// A panic of another task leaves whole entries behind.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text in an argument of MessagePack, which may stand there as bytes.
fn text(argument: &[u8]) -> Option<&str> {
    let (length, rest) = match argument {
        [head @ 0xa0..=0xbf, rest @ ..] => (usize::from(head & 0x1f), rest),
        [0xd9 | 0xc4, n, rest @ ..] => (usize::from(*n), rest),
        [0xda | 0xc5, a, b, rest @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), rest),
        _ => return None,
    };
    std::str::from_utf8(rest.get(..length)?).ok()
}
