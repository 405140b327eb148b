//! Harm to a real server: it is killed, stopped, drained, cut off from power, filled up and shown wrong
//! clocks while many clients and workers use it, and everything that they did and were told is held to
//! the promises.
//!
//! A **round** starts the built server on a directory, lets its callers work for a moment, harms it and
//! waits for its end. A **run** is some rounds on one directory; then the server is started once more,
//! honest workers bring every job to its end, and the checker judges the whole history together with
//! what an offline look into the store found ([`crore_testkit::history`]).
//!
//! ```text
//! run       a directory, its rounds, and the verdict       client    HTTP on one connection
//! round     start, use, harm, end                          asked     what one can ask, and how it is written down
//! harm      what can be done to a server                   draft     the jobs that are pushed
//! place     where its directory is: a disk that breaks     pusher    who pushes, looks, takes and meddles
//! clock     a clock that jumps, for the server alone       worker    who works; badly, too
//! server    the process                                    honest    who brings everything to its end
//! dump      an offline look into the store                 desk      what callers share, and the recorder
//! verdict   what was broken, with the events of the job    tally     every job accounted for
//! drill     planted mistakes, each of which must be caught    pause     time, in one place
//! posted    push workers, whom the server calls             seed      seeds that nobody has seen
//! streamed  workers with a stream of gRPC
//! ```
//!
//! A **crowd** is another thing: nothing is done to the server, and a hundred workers come and go.
//!
//! A seed gives the same jobs, the same deeds and the same moments of harm; how the threads of a real
//! server interleave with them is not in anybody's hand. A failure prints the command that runs its plan again.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asked;
mod client;
mod clock;
mod crowd;
mod desk;
mod draft;
mod drill;
mod dump;
mod harm;
mod honest;
mod pause;
mod place;
mod posted;
mod pusher;
mod round;
mod run;
mod seed;
mod server;
mod streamed;
mod tally;
mod verdict;
mod worker;

pub use crowd::{Crowd, crowd};
pub use drill::{drill, server_with_bugs};
pub use harm::Harm;
pub use run::{Failed, Plan, run};
pub use seed::fresh_seed;
pub use tally::Tally;
pub use verdict::{Broken, judge};
