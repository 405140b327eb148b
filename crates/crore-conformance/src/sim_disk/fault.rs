//! Faults that a test enables, and the counters of calls.

use std::collections::BTreeMap;
use std::io;

/// The kind of a disk call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskCall {
    /// [`crore_store::embedded::disk::Disk::list`].
    List,
    /// [`crore_store::embedded::disk::Disk::open`].
    Open,
    /// [`crore_store::embedded::disk::Disk::remove`].
    Remove,
    /// [`crore_store::embedded::disk::DiskFile::read`].
    Read,
    /// [`crore_store::embedded::disk::DiskFile::write`].
    Write,
    /// [`crore_store::embedded::disk::DiskFile::sync`].
    Sync,
    /// Any of them.
    Any,
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The next `n` calls of this kind succeed, and the one after them fails.
    AfterCalls {
        /// Number of calls that succeed first, counted from now.
        n: u64,
        /// The kind of call that is counted and fails.
        kind: DiskCall,
        /// The error.
        error: DiskError,
        /// Whether it repeats.
        then: Recurrence,
    },
}

/// The error of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskError {
    /// An I/O error of the device.
    Eio,
    /// No space left; [`io::ErrorKind::StorageFull`].
    Enospc,
}

impl DiskError {
    pub(super) fn error(self) -> io::Error {
        // The numbers are the same on Linux, the BSDs and macOS.
        io::Error::from_raw_os_error(match self {
            Self::Eio => 5,
            Self::Enospc => 28,
        })
    }
}

/// Behavior after the first failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurrence {
    /// Later calls succeed.
    Once,
    /// Every later call of the kind fails too.
    FromThenOn,
}

/// The enabled faults.
#[derive(Debug, Default)]
pub(super) struct ActiveFaults(Vec<DiskFault>);

impl ActiveFaults {
    pub(super) fn add(&mut self, fault: DiskFault) {
        self.0.push(fault);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts this call in every fault, and returns its error if it fails.
    pub(super) fn on_call(&mut self, call: DiskCall) -> Option<DiskError> {
        let mut met = None;
        self.0.retain_mut(|fault| {
            let DiskFault::AfterCalls { n, kind, error, then } = fault;
            if *kind != DiskCall::Any && *kind != call {
                return true;
            }
            if let Some(left) = n.checked_sub(1) {
                *n = left;
                return true;
            }
            met.get_or_insert(*error);
            *then == Recurrence::FromThenOn
        });
        met
    }
}

/// Number of calls by kind.
#[derive(Debug, Default)]
pub(super) struct CallCounts(BTreeMap<DiskCall, u64>);

impl CallCounts {
    pub(super) fn add(&mut self, call: DiskCall) {
        *self.0.entry(call).or_default() += 1;
    }

    pub(super) fn of(&self, call: DiskCall) -> u64 {
        match call {
            DiskCall::Any => self.0.values().sum(),
            _ => self.0.get(&call).copied().unwrap_or_default(),
        }
    }
}
