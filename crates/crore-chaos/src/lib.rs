//! Fault injection for a real server: it is killed, stopped, drained, cut off from power, run on a full disk or given a
//! wrong clock while many clients and workers use it. Every call and every response is recorded, and a checker compares
//! the history with crore's promises.
//!
//! A **round** starts the built server on a directory, lets its callers work for a moment, injects a fault and waits
//! until the server has ended. A **run** is a number of rounds on one directory; the server is then started once more,
//! correct workers finish every job, and the checker judges the whole history together with an offline dump of the
//! store ([`crore_testkit::history`]).
//!
//! ```text
//! run             rounds on one directory, and the verdict   client   HTTP on one connection
//! round           start, load, fault, end                    calls    API calls, recorded in the history
//! fault           the faults                                 draft    random jobs to push
//! data_dir        the server's directory and its disk        pusher   callers that push, read, cancel and edit
//! clock           a clock that jumps, for the server alone   worker   callers that fetch and report, some badly
//! server          the server process                         settle   finishes every job at the end of a run
//! dump            offline dump of the store                  context  state shared by all callers; the recorder
//! verdict         broken promises, with the job's events     tally    counts of jobs, deliveries and calls
//! drill           planted bugs, all of them to be found      time     real time, sleep and timeout
//! push_workers    push workers, called by the server         seed     fresh seeds
//! stream_workers  workers on a gRPC stream
//! ```
//!
//! A **crowd** injects no fault: a hundred workers connect and disconnect.
//!
//! A seed determines the jobs, the callers' actions and the moments of the faults, but not how the threads of a real
//! server interleave with them. A failure prints the command that runs its plan again.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod calls;
mod client;
mod clock;
mod context;
mod crowd;
mod data_dir;
mod draft;
mod drill;
mod dump;
mod fault;
mod push_workers;
mod pusher;
mod round;
mod run;
mod seed;
mod server;
mod settle;
mod stream_workers;
mod tally;
mod time;
mod verdict;
mod worker;

pub use crowd::{CrowdPlan, run_crowd};
pub use drill::{drill, server_with_bugs};
pub use fault::ChaosFault;
pub use run::{ChaosError, ChaosPlan, run};
pub use seed::fresh_seed;
pub use tally::ChaosTally;
pub use verdict::{ChaosFailure, judge};
