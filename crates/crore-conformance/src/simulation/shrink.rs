//! Makes a failing run smaller: fewer steps, callers, features and faults, as long as it fails in the same
//! way. Each step has its own random numbers, so that it can be removed alone.

use super::config::{AdminFeatures, CallerCounts, JobFeatures, SimConfig};
use super::coverage::SimFault;
use super::failure::SimFailure;
use super::run::run_as;
use super::subject::SimulatedStore;

/// Maximum number of runs to shrink one failure: about a second.
const TRIES: usize = 600;

/// The smallest failure of the same class that was found.
pub fn shrink<S: SimulatedStore>(failure: SimFailure, make: impl FnMut() -> S) -> SimFailure {
    let class = failure.class();
    let mut shrinker = Shrinker { failure, class, make, left: TRIES };
    shrinker.truncate();
    loop {
        let before = shrinker.failure.config.clone();
        shrinker.drop_features();
        shrinker.drop_steps();
        if shrinker.left == 0 || shrinker.failure.config == before {
            return shrinker.failure;
        }
    }
}

struct Shrinker<M> {
    failure: SimFailure,
    class: String,
    make: M,
    left: usize,
}

impl<S: SimulatedStore, M: FnMut() -> S> Shrinker<M> {
    /// Accepts a smaller configuration if it fails in the same way.
    fn accept(&mut self, config: SimConfig) -> bool {
        if config == self.failure.config || self.left == 0 {
            return false;
        }
        self.left -= 1;
        match run_as(config, &mut (self.make)()) {
            Err(failure) if failure.class() == self.class => {
                self.failure = *failure;
                true
            }
            _ => false,
        }
    }

    /// Ends the run as early as possible, by binary search.
    fn truncate(&mut self) {
        let (mut low, mut high) = (0, self.failure.config.last_step);
        while low < high {
            let last_step = low.midpoint(high);
            if self.accept(SimConfig { last_step, ..self.failure.config.clone() }) {
                high = last_step;
            } else {
                low = last_step + 1;
            }
        }
    }

    /// Removes faults, features and callers, one by one.
    fn drop_features(&mut self) {
        for fault in SimFault::ALL {
            let config = self.failure.config.clone();
            self.accept(SimConfig { faults: config.faults.clone().without(fault), ..config });
        }
        for simpler in SIMPLER {
            let mut config = self.failure.config.clone();
            simpler(&mut config);
            self.accept(config);
        }
    }

    /// Removes steps: large ranges first, then smaller ones, then single steps.
    fn drop_steps(&mut self) {
        let mut part = self.failure.config.last_step.div_ceil(2);
        while part > 0 {
            let mut start = 1;
            while start <= self.failure.config.last_step && self.left > 0 {
                let mut config = self.failure.config.clone();
                config.skip.extend(start..start + part);
                self.accept(config);
                start += part;
            }
            part /= 2;
        }
    }
}

type Simpler = fn(&mut SimConfig);

/// Changes that make a run simpler.
const SIMPLER: [Simpler; 27] = [
    |config| config.callers = CallerCounts { pushers: 1, ..config.callers.clone() },
    |config| config.callers = CallerCounts { workers: 1, ..config.callers.clone() },
    |config| config.callers = CallerCounts { admins: 0, ..config.callers.clone() },
    |config| config.callers = CallerCounts { upkeepers: 1, ..config.callers.clone() },
    |config| config.callers = CallerCounts { depth: 1, ..config.callers.clone() },
    |config| config.callers = CallerCounts { max_claim: 1, ..config.callers.clone() },
    |config| config.jobs = JobFeatures { queues: 1, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { kinds: 1, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { max_batch: 1, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { max_payload: 0, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { priorities: false, delays: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { versions: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { fire_and_forget: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { keys: None, ..config.jobs.clone() },
    |config| {
        config.jobs = JobFeatures { groups: false, dependencies: false, ..config.jobs.clone() }
    },
    |config| config.jobs = JobFeatures { limits: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { follow_ups: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { results: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { unfenced: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { deadlines: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { events: false, ..config.jobs.clone() },
    |config| config.jobs = JobFeatures { removed_when_done: false, ..config.jobs.clone() },
    |config| config.admin = AdminFeatures { cancel: false, retry: false, ..config.admin.clone() },
    |config| config.admin = AdminFeatures { delete: false, edit: false, ..config.admin.clone() },
    |config| config.admin = AdminFeatures { settings: false, ..config.admin.clone() },
    |config| {
        config.admin = AdminFeatures { schedules: false, notes: false, ..config.admin.clone() }
    },
    |config| config.admin = AdminFeatures { programs: false, ..config.admin.clone() },
];
