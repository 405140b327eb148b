//! Faults that a test switches on, and the count of calls that they go by.

use std::collections::BTreeMap;
use std::io;

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`crore_store::embedded::disk::Disk::list`].
    List,
    /// [`crore_store::embedded::disk::Disk::open`].
    Open,
    /// [`crore_store::embedded::disk::Disk::remove`].
    Remove,
    /// [`crore_store::embedded::disk::File::read`].
    Read,
    /// [`crore_store::embedded::disk::File::write`].
    Write,
    /// [`crore_store::embedded::disk::File::sync`].
    Sync,
    /// Any of them.
    Any,
}

/// What goes wrong, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The next `n` calls of this kind are left alone, and the one after them fails.
    AfterCalls {
        /// How many go well first, counted from now.
        n: u64,
        /// Which calls are counted and fail.
        kind: Call,
        /// What they fail with.
        error: Failure,
        /// Whether it happens again.
        then: Then,
    },
}

/// What a call fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The device could not do it.
    Eio,
    /// There is no space left; [`io::ErrorKind::StorageFull`].
    Enospc,
}

impl Failure {
    pub(super) fn error(self) -> io::Error {
        // The numbers are the same on Linux, the BSDs and macOS.
        io::Error::from_raw_os_error(match self {
            Self::Eio => 5,
            Self::Enospc => 28,
        })
    }
}

/// What comes after the first failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// All is well again.
    Once,
    /// Every later call of the kind fails too.
    FromThenOn,
}

/// The faults that are switched on.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts this call in every fault, and says what it fails with, if it does.
    pub(super) fn meet(&mut self, call: Call) -> Option<Failure> {
        let mut met = None;
        self.0.retain_mut(|fault| {
            let Fault::AfterCalls { n, kind, error, then } = fault;
            if *kind != Call::Any && *kind != call {
                return true;
            }
            if let Some(left) = n.checked_sub(1) {
                *n = left;
                return true;
            }
            met.get_or_insert(*error);
            *then == Then::FromThenOn
        });
        met
    }
}

/// How many calls there were.
#[derive(Debug, Default)]
pub(super) struct Counts(BTreeMap<Call, u64>);

impl Counts {
    pub(super) fn add(&mut self, call: Call) {
        *self.0.entry(call).or_default() += 1;
    }

    pub(super) fn of(&self, call: Call) -> u64 {
        match call {
            Call::Any => self.0.values().sum(),
            _ => self.0.get(&call).copied().unwrap_or_default(),
        }
    }
}
