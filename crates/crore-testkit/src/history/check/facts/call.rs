//! Calls: an invocation and its end as one thing.

use std::sync::Arc;

use crore_core::Time;

use crate::history::answer::{Changed, Pushed, Reported};
use crate::history::{Answer, Op};

/// A place in the history, and what clocks may have shown there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The event.
    pub(crate) i: u64,
    /// The recorder's time.
    pub(crate) t: u64,
    /// The recorder's time and all jumps forward so far: no store's clock runs further than this
    /// between two moments.
    pub(crate) fast: u64,
    /// The recorder's time less all jumps back so far: a store's clock that never goes back stands
    /// still after a jump, but for no longer than its length.
    pub(crate) slow: i128,
}

impl Moment {
    pub(crate) const fn is_before(&self, other: &Self) -> bool {
        self.i < other.i
    }
}

/// Whether a call had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Took {
    Yes,
    No,
    Perhaps,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End<'h> {
    Ok {
        at: Moment,
        now: Option<Time>,
        r: &'h Answer,
    },
    Fail(Moment),
    Info(Moment),
    /// Unknown as well, and its caller was seen to leave.
    Left(Moment),
    Open,
}

/// An invocation and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'h> {
    pub(crate) p: &'h Arc<str>,
    pub(crate) at: Option<&'h Arc<str>>,
    pub(crate) op: &'h Op,
    pub(crate) begun: Moment,
    pub(crate) end: End<'h>,
}

impl<'h> Call<'h> {
    /// When its end was recorded, whatever it was.
    pub(crate) const fn ended(&self) -> Option<Moment> {
        match self.end {
            End::Ok { at, .. } | End::Fail(at) | End::Info(at) | End::Left(at) => Some(at),
            End::Open => None,
        }
    }

    /// Its answer, and when it came.
    pub(crate) const fn answer(&self) -> Option<(&'h Answer, Moment)> {
        match self.end {
            End::Ok { at, r, .. } => Some((r, at)),
            End::Fail(_) | End::Info(_) | End::Left(_) | End::Open => None,
        }
    }

    /// The store's time in its answer.
    pub(crate) const fn now(&self) -> Option<Time> {
        match self.end {
            End::Ok { now, .. } => now,
            End::Fail(_) | End::Info(_) | End::Left(_) | End::Open => None,
        }
    }

    /// Whether nobody knows what became of it.
    pub(crate) const fn is_unknown(&self) -> bool {
        matches!(self.end, End::Info(_) | End::Left(_) | End::Open)
    }

    /// Whether it had its effect.
    pub(crate) fn took(&self) -> Took {
        let Some((answer, _)) = self.answer() else {
            return if self.is_unknown() { Took::Perhaps } else { Took::No };
        };
        let took = match answer {
            Answer::Pushed { items, .. } => items.iter().any(|i| matches!(i, Pushed::New(_))),
            Answer::Reported(reported) => matches!(reported, Reported::Accepted(_)),
            Answer::Changed(changed) => matches!(changed, Changed::Yes | Changed::Asked),
            Answer::Result(result) => result.is_some(),
            Answer::Ticked(ticked) => ticked.is_some(),
            Answer::Defined(written) => written.contains(&true),
            Answer::Fetched(_)
            | Answer::Renewed(_)
            | Answer::Job(_)
            | Answer::Listed(_)
            | Answer::Counts(_) => true,
        };
        if took { Took::Yes } else { Took::No }
    }
}
