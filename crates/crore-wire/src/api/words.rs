//! Words that stand for one of a few things, and what they mean to the rules.

use crore_core::{handler, job, schedule, unique};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! words {
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

words! {
    /// Who waits for a result.
    AnswerTo = handler::Answer {
        /// Nobody.
        None,
        /// Whoever pushes the job.
        Push,
        /// Whoever asks for it afterwards.
        Listen,
    }
    /// What a job that follows another is given.
    Gives = handler::Gives {
        /// One job for each item that came out, with that item.
        Items,
        /// One job, with an object about the job that has ended.
        Summary,
    }
    /// Where a job stands.
    State = job::State {
        /// Held until other jobs or groups have ended.
        Waiting,
        /// Due later.
        Scheduled,
        /// May be fetched now.
        Ready,
        /// A worker has it.
        Running,
        /// Ended well.
        Done,
        /// Ended badly, and kept; may be retried.
        Dead,
        /// Ended because somebody said so.
        Cancelled,
    }
    /// What the bytes of a payload are.
    Encoding = crore_core::Encoding {
        /// One JSON text.
        Json,
        /// One MessagePack object.
        Msgpack,
        /// A protobuf message.
        Protobuf,
        /// UTF-8.
        Text,
        /// Anything.
        Bytes,
    }
    /// What ends the lock on a unique key.
    Hold = unique::Hold {
        /// The job is handed to a worker.
        UntilStart,
        /// The job is done, cancelled or removed; a dead one keeps its lock.
        UntilSuccess,
        /// The job has ended.
        UntilEnd,
        /// Nothing but the window.
        Window,
    }
    /// What becomes of a job that is done.
    Retain = job::Retain {
        /// It is kept as long as its queue's settings say.
        AsQueue,
        /// It is removed.
        Nothing,
    }
    /// What has to become of something for those that wait for it.
    Needs = job::Needs {
        /// It has ended.
        End,
        /// It has succeeded.
        Success,
    }
    /// How a delivery came to its end.
    HowEnded = job::Ended {
        /// It reported success.
        Done,
        /// It reported a failure.
        Failed,
        /// It asked to be run again later.
        Snoozed,
        /// It was handed back unfinished.
        Interrupted,
        /// It was silent until its lease ended.
        Lapsed,
        /// It took longer than the job's timeout.
        TimedOut,
        /// It was given up, or stopped because it was asked to.
        Cancelled,
    }
    /// Why a job is dead or cancelled.
    Why = job::Why {
        /// It failed as often as it may.
        Exhausted,
        /// It failed, and its worker said not to try again.
        NotRetried,
        /// Its workers crashed too often.
        Quarantined,
        /// Somebody cancelled it.
        Asked,
        /// Its worker gave it up.
        GivenUp,
        /// Something that it waited for can no longer succeed.
        DependencyBroken,
        /// Its record is damaged.
        Damaged,
    }
    /// What becomes of the ticks of a schedule that nobody was there for.
    Missed = schedule::Missed {
        /// They are skipped.
        Skip,
        /// They are made up for by one.
        Once,
        /// They are made up for one by one.
        All,
    }
}
