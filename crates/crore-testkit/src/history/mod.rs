//! A history: every call that callers made, its response, and every injected fault, in one recorded format;
//! and the checker that compares it with the invariants.
//!
//! Every harness that breaks a store on purpose (the simulator, a killed process, a cluster) records this
//! format. The checker knows nothing about a store: it sees calls, responses, injected faults and the offline
//! dump at the end. A history is JSON lines, one [`HistoryEvent`] each:
//!
//! ```text
//! {"i":0,"t":10,"p":"c1","k":"invoke","n":0,"op":"get","a":{"id":7}}
//! {"i":1,"t":35,"p":"c1","k":"ok","n":0,"r":{"job":null}}
//! {"i":2,"t":40,"p":"n1","k":"fault","fault":"crash"}
//! {"i":3,"t":90,"p":"n1","k":"node","node":"opened"}
//! ```
//!
//! - `i` is the recorder's total order and `t` its monotonic time in nanoseconds (simulated time in a
//!   simulator). No clock of a store or of a machine is trusted; a store's time from a response is recorded
//!   separately as `now`.
//! - `p` is the caller, or the node for `fault` and `node`.
//! - `k` is `invoke`, or the end of the call numbered `n`: `ok` is the response that its caller received,
//!   `fail` means that the call certainly had no effect, `info` means that its effect is unknown. A call
//!   without an end counts as `info`. Treating `info` as `fail` or as `ok` would be wrong.
//!
//! **Payloads identify jobs.** A harness gives every pushed item a unique payload (the caller's name and a
//! counter), because a job whose push ended in `info` is recognized only by the [`struct@PayloadHash`] of its
//! payload. The same holds for results.

pub mod check;
mod event;
mod file;
mod hash;
pub mod node;
pub mod op;
mod record;
pub mod response;

pub use check::{CheckReport, CheckRules, check};
pub use event::{CALLER_LEFT, History, HistoryEvent, HistoryEventBody};
pub use hash::PayloadHash;
pub use node::{NodeObservation, RecordedFault};
pub use op::RecordedOp;
pub use record::{PendingCall, Recorder};
pub use response::RecordedResponse;
