//! The numbers that stand for the variants of plain enums. They are for ever.

use crore_core::job::{Ended, Needs, Why};
use crore_core::unique::Hold;
use crore_core::{Encoding, State};

use super::{Damaged, Reader};

/// An enum whose variants have numbers.
pub(super) trait Numbered: Sized {
    fn number(self) -> u8;
    fn from_number(number: u8) -> Result<Self, Damaged>;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        Self::from_number(reader.u8()?)
    }
}

/// One line for both directions, so that they cannot differ.
macro_rules! numbered {
    ($($name:ident, $unknown:literal { $($variant:ident = $number:literal,)+ })+) => {$(
        impl Numbered for $name {
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
    State, "its state is unknown" {
        Waiting = 0,
        Scheduled = 1,
        Ready = 2,
        Running = 3,
        Done = 4,
        Dead = 5,
        Cancelled = 6,
    }
    Encoding, "a payload's encoding is unknown" {
        Json = 0,
        Msgpack = 1,
        Protobuf = 2,
        Text = 3,
        Bytes = 4,
    }
    Hold, "what ends its lock is unknown" {
        UntilStart = 0,
        UntilSuccess = 1,
        UntilEnd = 2,
        Window = 3,
    }
    Needs, "what it needs is unknown" {
        End = 0,
        Success = 1,
    }
    Ended, "how a delivery ended is unknown" {
        Done = 0,
        Failed = 1,
        Snoozed = 2,
        Interrupted = 3,
        Lapsed = 4,
        TimedOut = 5,
        Cancelled = 6,
    }
    Why, "why it ended is unknown" {
        Exhausted = 0,
        NotRetried = 1,
        Quarantined = 2,
        Asked = 3,
        GivenUp = 4,
        DependencyBroken = 5,
        Damaged = 6,
    }
}
