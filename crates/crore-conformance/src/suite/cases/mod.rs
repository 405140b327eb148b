//! The cases, by topic. Each is named after what must hold.
//!
//! They cover the store's part of these invariants:
//!
//! | invariant | topics |
//! |---|---|
//! | I1 no push is lost, I4 nor changed, I17 nor torn | `push`, `batch` |
//! | I2, I3 nothing exists that was not pushed | `batch`, `stale` |
//! | I5 one live lease per job | `claim`, `renew`, `promote` |
//! | I6 deliveries never repeat, attempts are bounded | `claim`, `apply` |
//! | I7 the first report wins | `stale` |
//! | I8 order | `claim`, `fair`, `limits`, `promote` |
//! | I9 one job per key | `unique` |
//! | I10 never early, I13 nor after a failure | `push`, `promote`, `apply` |
//! | I11 a schedule fires once per tick | `tick` |
//! | I12 results are kept for their time | `results`, `prune` |
//! | I14 retries end | `apply`, `prune` |
//! | I15 limits hold | `limits`, `permits`, `costs` |
//! | I16 a cancelled job is not delivered | `apply`, `stale` |
//! | I18 follow-ups come once | `apply`, `depend`, `breaks`, `group` |
//! | I19 counts match the jobs | `lists`, `deadlines` |
//! | I26 no job starts after its deadline | `deadlines` |
//! | I27 an event releases each job that waits for it once, with its payload | `events` |
//! | a required version is satisfied | `versions` |
//! | an index finds every job with a key, and no other | `index` |

pub(super) mod actions;
pub(super) mod apply;
pub(super) mod batch;
pub(super) mod breaks;
pub(super) mod claim;
pub(super) mod costs;
pub(super) mod deadlines;
pub(super) mod depend;
pub(super) mod events;
pub(super) mod fair;
pub(super) mod group;
pub(super) mod identity;
pub(super) mod index;
pub(super) mod job_stats;
pub(super) mod lead;
pub(super) mod limits;
pub(super) mod lists;
pub(super) mod notes;
pub(super) mod permits;
pub(super) mod promote;
pub(super) mod prune;
pub(super) mod push;
pub(super) mod registry;
pub(super) mod renew;
pub(super) mod results;
pub(super) mod stale;
pub(super) mod tick;
pub(super) mod unique;
pub(super) mod versions;
pub(super) mod wakes;
