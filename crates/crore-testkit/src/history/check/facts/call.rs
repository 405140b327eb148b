//! Calls: an invocation joined with its end.

use std::sync::Arc;

use crore_core::Time;

use crate::history::response::{RecordedChange, RecordedPush, RecordedReport};
use crate::history::{RecordedOp, RecordedResponse};

/// A position in the history, and the clock readings possible there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryMoment {
    /// The event.
    pub(crate) i: u64,
    /// The recorder's time.
    pub(crate) t: u64,
    /// The recorder's time plus all forward jumps so far: an upper bound for the store's clock between two
    /// moments.
    pub(crate) fast: u64,
    /// The recorder's time minus all backward jumps so far. A monotonic store clock stands still after a
    /// backward jump, for at most the length of the jump.
    pub(crate) slow: i128,
}

impl HistoryMoment {
    pub(crate) const fn is_before(&self, other: &Self) -> bool {
        self.i < other.i
    }
}

/// Whether a call had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectCertainty {
    Yes,
    No,
    Perhaps,
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallEnd<'h> {
    Ok {
        at: HistoryMoment,
        now: Option<Time>,
        r: &'h RecordedResponse,
    },
    Fail(HistoryMoment),
    Info(HistoryMoment),
    /// Unknown effect, and the caller was seen to leave.
    Left(HistoryMoment),
    Open,
}

/// An invocation and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedCall<'h> {
    pub(crate) p: &'h Arc<str>,
    pub(crate) at: Option<&'h Arc<str>>,
    pub(crate) op: &'h RecordedOp,
    pub(crate) begun: HistoryMoment,
    pub(crate) end: CallEnd<'h>,
}

impl<'h> RecordedCall<'h> {
    /// When its end was recorded, of any kind.
    pub(crate) const fn ended(&self) -> Option<HistoryMoment> {
        match self.end {
            CallEnd::Ok { at, .. } | CallEnd::Fail(at) | CallEnd::Info(at) | CallEnd::Left(at) => {
                Some(at)
            }
            CallEnd::Open => None,
        }
    }

    /// Its response, and when it came.
    pub(crate) const fn response(&self) -> Option<(&'h RecordedResponse, HistoryMoment)> {
        match self.end {
            CallEnd::Ok { at, r, .. } => Some((r, at)),
            CallEnd::Fail(_) | CallEnd::Info(_) | CallEnd::Left(_) | CallEnd::Open => None,
        }
    }

    /// The store's time in its response.
    pub(crate) const fn now(&self) -> Option<Time> {
        match self.end {
            CallEnd::Ok { now, .. } => now,
            CallEnd::Fail(_) | CallEnd::Info(_) | CallEnd::Left(_) | CallEnd::Open => None,
        }
    }

    /// Whether its effect is unknown.
    pub(crate) const fn is_unknown(&self) -> bool {
        matches!(self.end, CallEnd::Info(_) | CallEnd::Left(_) | CallEnd::Open)
    }

    /// Whether it had an effect.
    pub(crate) fn had_effect(&self) -> EffectCertainty {
        let Some((response, _)) = self.response() else {
            return if self.is_unknown() { EffectCertainty::Perhaps } else { EffectCertainty::No };
        };
        let took_effect = match response {
            RecordedResponse::Pushed { items, .. } => {
                items.iter().any(|i| matches!(i, RecordedPush::New(_)))
            }
            RecordedResponse::Reported(reported) => matches!(reported, RecordedReport::Accepted(_)),
            RecordedResponse::Changed(changed) => {
                matches!(changed, RecordedChange::Yes | RecordedChange::Asked)
            }
            RecordedResponse::Result(result) => result.is_some(),
            RecordedResponse::Ticked(ticked) => ticked.is_some(),
            RecordedResponse::Defined(written) => written.contains(&true),
            RecordedResponse::Fetched(_)
            | RecordedResponse::Renewed(_)
            | RecordedResponse::Job(_)
            | RecordedResponse::Listed(_)
            | RecordedResponse::Counts(_) => true,
        };
        if took_effect { EffectCertainty::Yes } else { EffectCertainty::No }
    }
}
