//! Enumerations of the API, and their conversion to core types.

use crore_core::{event, handler, job, schedule, unique};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! mirror_enums {
    ($($(#[$doc:meta])+ $name:ident = $core:path { $($(#[$about:meta])+ $word:ident,)+ })+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$about])+ $word,)+
        }

        impl From<$core> for $name {
            fn from(word: $core) -> Self {
                use $core as Core;
                match word { $(Core::$word => Self::$word,)+ }
            }
        }

        impl From<$name> for $core {
            fn from(word: $name) -> Self {
                match word { $($name::$word => Self::$word,)+ }
            }
        }
    )+};
}

mirror_enums! {
    /// Which callers can wait for a result.
    AnswerTo = handler::ResultWaiter {
        /// None.
        None,
        /// The caller that pushes the job: the push returns the result.
        Push,
        /// Any caller, in a separate call.
        Listen,
    }
    /// Payload of a follow-up.
    Gives = handler::FollowUpPayload {
        /// One job per item of the result, with the item as its payload.
        Items,
        /// One job, with an object that describes the ended job.
        Summary,
    }
    /// State of a job.
    State = job::State {
        /// Waits for other jobs or groups.
        Waiting,
        /// Due later.
        Scheduled,
        /// May be fetched now.
        Ready,
        /// Being run by a worker.
        Running,
        /// Succeeded.
        Done,
        /// Failed permanently; kept, and may be retried by hand.
        Dead,
        /// Cancelled by a caller, by its worker, or by a broken dependency.
        Cancelled,
    }
    /// Encoding of a payload.
    Encoding = crore_core::Encoding {
        /// One JSON text.
        Json,
        /// One MessagePack object.
        Msgpack,
        /// A protobuf message.
        Protobuf,
        /// UTF-8.
        Text,
        /// Arbitrary bytes.
        Bytes,
    }
    /// When a job releases its unique key.
    Hold = unique::UniqueHold {
        /// When the job is delivered to a worker.
        UntilStart,
        /// When the job is done, cancelled or removed; a dead job keeps the key.
        UntilSuccess,
        /// When the job ends.
        UntilEnd,
        /// Only at the end of the window.
        Window,
    }
    /// Retention of a job that is done.
    Retain = job::JobRetention {
        /// According to the settings of its queue.
        AsQueue,
        /// The job is removed.
        Nothing,
    }
    /// Condition of a dependency.
    Needs = job::DependencyCondition {
        /// The job or group has ended.
        End,
        /// The job or group has succeeded.
        Success,
    }
    /// How a delivery ended.
    HowEnded = job::DeliveryEnd {
        /// It reported success.
        Done,
        /// It reported a failure.
        Failed,
        /// It asked to run again later.
        Snoozed,
        /// The worker returned the job unfinished.
        Interrupted,
        /// Its lease expired without a report.
        Lapsed,
        /// It took longer than the job's timeout.
        TimedOut,
        /// It stopped on request, or the worker cancelled the job.
        Cancelled,
    }
    /// An action by hand.
    ActionName = job::ManualActionType {
        /// Cancelled, or asked to stop.
        Cancel,
        /// Retried, or made due.
        Retry,
        /// Edited.
        Edit,
    }
    /// Why a job is dead or cancelled.
    Why = job::EndReason {
        /// Its last allowed attempt failed.
        Exhausted,
        /// It failed, and the report forbade a retry.
        NotRetried,
        /// Its workers crashed too often.
        Quarantined,
        /// A caller cancelled it.
        Asked,
        /// Its worker cancelled it.
        GivenUp,
        /// A dependency can no longer succeed.
        DependencyBroken,
        /// Its record is damaged.
        Damaged,
        /// It was not started by its deadline.
        Expired,
        /// The event that it waited for was not sent in time.
        EventTimedOut,
    }
    /// Action on a job whose event was not sent in time.
    OnTimeout = event::OnEventTimeout {
        /// It runs without the event.
        Run,
        /// It is cancelled.
        Cancel,
        /// It is dead.
        Dead,
    }
    /// Policy for firing times (ticks) that were missed because no server was running.
    Missed = schedule::Missed {
        /// Skip them, except one that is at most a minute late.
        Skip,
        /// Push one job for all of them.
        Once,
        /// Push one job for each of them.
        All,
    }
}
