//! A history: everything that callers did and were told, in one recorded form, and the checker that
//! holds it to the promises.
//!
//! One format serves every harness that breaks a store on purpose (a simulator, a killed process, a
//! cluster), because the checker knows nothing of a store: only what was asked, what was answered,
//! which faults were injected, and what an offline dump found in the end. A history is JSON lines,
//! one [`Event`] each:
//!
//! ```text
//! {"i":0,"t":10,"p":"c1","k":"invoke","n":0,"op":"get","a":{"id":7}}
//! {"i":1,"t":35,"p":"c1","k":"ok","n":0,"r":{"job":null}}
//! {"i":2,"t":40,"p":"n1","k":"fault","fault":"crash"}
//! {"i":3,"t":90,"p":"n1","k":"node","node":"opened"}
//! ```
//!
//! - `i` is the total order of the recorder and `t` its own time in nanoseconds (simulated time in a
//!   simulator), which never goes back. No clock of a store or of a machine is trusted: where an
//!   answer says the store's time, that is kept beside as `now`.
//! - `p` is the caller, or for `fault` and `node` the node.
//! - `k` is `invoke`, or how the call numbered `n` ended: `ok` is what its caller saw, `fail` means
//!   that it certainly had no effect, and `info` that nobody knows. A call without an end is like
//!   one that ended in `info`. To take `info` for `fail`, or for `ok`, would be wrong.
//!
//! **Payloads tell jobs apart.** Whoever records must give every pushed item a payload of its own
//! (the caller's name and a number of its own in it), because a job whose push ended in `info` is
//! recognised by the [`struct@Hash`] of its payload alone. Results likewise.

pub mod answer;
pub mod check;
mod event;
mod file;
mod hash;
pub mod node;
pub mod op;
mod record;

pub use answer::Answer;
pub use check::{Report, Rules, check};
pub use event::{Event, History, LEFT, What};
pub use hash::Hash;
pub use node::{Fault, Node};
pub use op::Op;
pub use record::{Pending, Recorder};
