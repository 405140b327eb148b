//! Stored numbers of enum variants. They never change.

use crore_core::event::OnEventTimeout;
use crore_core::job::{DeliveryEnd, DependencyCondition, EndReason, ManualActionType};
use crore_core::unique::UniqueHold;
use crore_core::{Encoding, State};

use super::{ByteReader, Damaged};

/// An enum whose variants have stored numbers.
pub(super) trait StoredNumber: Sized {
    fn number(self) -> u8;
    fn from_number(number: u8) -> Result<Self, Damaged>;

    fn read(reader: &mut ByteReader<'_>) -> Result<Self, Damaged> {
        Self::from_number(reader.u8()?)
    }
}

/// Defines both directions from one list, so that they cannot differ.
macro_rules! numbered {
    ($($name:ident, $unknown:literal { $($variant:ident = $number:literal,)+ })+) => {$(
        impl StoredNumber for $name {
            #[inline]
            fn number(self) -> u8 {
                match self {
                    $(Self::$variant => $number,)+
                }
            }

            #[inline]
            fn from_number(number: u8) -> Result<Self, Damaged> {
                match number {
                    $($number => Ok(Self::$variant),)+
                    _ => Err(Damaged($unknown)),
                }
            }
        }
    )+};
}

numbered! {
    State, "unknown state" {
        Waiting = 0,
        Scheduled = 1,
        Ready = 2,
        Running = 3,
        Done = 4,
        Dead = 5,
        Cancelled = 6,
    }
    Encoding, "unknown payload encoding" {
        Json = 0,
        Msgpack = 1,
        Protobuf = 2,
        Text = 3,
        Bytes = 4,
    }
    UniqueHold, "unknown lock hold" {
        UntilStart = 0,
        UntilSuccess = 1,
        UntilEnd = 2,
        Window = 3,
    }
    DependencyCondition, "unknown dependency need" {
        End = 0,
        Success = 1,
    }
    DeliveryEnd, "unknown end of a delivery" {
        Done = 0,
        Failed = 1,
        Snoozed = 2,
        Interrupted = 3,
        Lapsed = 4,
        TimedOut = 5,
        Cancelled = 6,
    }
    OnEventTimeout, "unknown action after a time-out" {
        Run = 0,
        Cancel = 1,
        Dead = 2,
    }
    EndReason, "unknown end reason" {
        Exhausted = 0,
        NotRetried = 1,
        Quarantined = 2,
        Asked = 3,
        GivenUp = 4,
        DependencyBroken = 5,
        Damaged = 6,
        Expired = 7,
        EventTimedOut = 8,
    }
    ManualActionType, "unknown action" {
        Cancel = 0,
        Retry = 1,
        Edit = 2,
    }
}
