//! What a caller may do: one table for all doors.

/// What a call needs its caller to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// To push jobs, and to wait for their results.
    Push,
    /// To fetch jobs and to report on them.
    Work,
    /// To look at anything.
    Read,
    /// To pause, retry, cancel and change what is there.
    Operate,
    /// To define handlers, schedules and limits.
    Define,
    /// To see to tokens and nodes, and to remove for good.
    Admin,
}
