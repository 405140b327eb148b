//! Makes a failing run smaller: fewer steps, callers, features and kinds of fault, as long as it goes on
//! to fail in the same way. Each step has numbers of its own, so that one can be left out alone.

use super::config::{Callers, Config, Hands, Jobs};
use super::coverage::Fault;
use super::failure::Failure;
use super::run::run_as;
use super::subject::Subject;

/// How many runs are made at the most to shrink one: about a second of them.
const TRIES: usize = 600;

/// The smallest failure of the same sort that was found.
pub fn shrink<S: Subject>(failure: Failure, make: impl FnMut() -> S) -> Failure {
    let sort = failure.sort();
    let mut shrinker = Shrinker { failure, sort, make, left: TRIES };
    shrinker.cut_short();
    loop {
        let before = shrinker.failure.config.clone();
        shrinker.do_without();
        shrinker.leave_out_steps();
        if shrinker.left == 0 || shrinker.failure.config == before {
            return shrinker.failure;
        }
    }
}

struct Shrinker<M> {
    failure: Failure,
    sort: String,
    make: M,
    left: usize,
}

impl<S: Subject, M: FnMut() -> S> Shrinker<M> {
    /// Takes a smaller configuration if it fails in the same way.
    fn accept(&mut self, config: Config) -> bool {
        if config == self.failure.config || self.left == 0 {
            return false;
        }
        self.left -= 1;
        match run_as(config, &mut (self.make)()) {
            Err(failure) if failure.sort() == self.sort => {
                self.failure = *failure;
                true
            }
            _ => false,
        }
    }

    /// Ends the run as early as possible, by halves.
    fn cut_short(&mut self) {
        let (mut low, mut high) = (0, self.failure.config.last_step);
        while low < high {
            let last_step = low.midpoint(high);
            if self.accept(Config { last_step, ..self.failure.config.clone() }) {
                high = last_step;
            } else {
                low = last_step + 1;
            }
        }
    }

    /// Does without kinds of faults, features and callers, one by one.
    fn do_without(&mut self) {
        for fault in Fault::ALL {
            let config = self.failure.config.clone();
            self.accept(Config { faults: config.faults.clone().without(fault), ..config });
        }
        for simpler in SIMPLER {
            let mut config = self.failure.config.clone();
            simpler(&mut config);
            self.accept(config);
        }
    }

    /// Leaves out steps: large parts first, then smaller ones, then single steps.
    fn leave_out_steps(&mut self) {
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

type Simpler = fn(&mut Config);

/// Changes that make a run simpler.
const SIMPLER: [Simpler; 24] = [
    |config| config.callers = Callers { pushers: 1, ..config.callers.clone() },
    |config| config.callers = Callers { workers: 1, ..config.callers.clone() },
    |config| config.callers = Callers { admins: 0, ..config.callers.clone() },
    |config| config.callers = Callers { keepers: 1, ..config.callers.clone() },
    |config| config.callers = Callers { depth: 1, ..config.callers.clone() },
    |config| config.callers = Callers { max_claim: 1, ..config.callers.clone() },
    |config| config.jobs = Jobs { queues: 1, ..config.jobs.clone() },
    |config| config.jobs = Jobs { kinds: 1, ..config.jobs.clone() },
    |config| config.jobs = Jobs { max_batch: 1, ..config.jobs.clone() },
    |config| config.jobs = Jobs { max_payload: 0, ..config.jobs.clone() },
    |config| config.jobs = Jobs { priorities: false, delays: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { fire_and_forget: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { keys: None, ..config.jobs.clone() },
    |config| config.jobs = Jobs { groups: false, waits: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { limits: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { follow_ups: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { results: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { unfenced: false, ..config.jobs.clone() },
    |config| config.jobs = Jobs { vanish: false, ..config.jobs.clone() },
    |config| config.hands = Hands { cancel: false, retry: false, ..config.hands.clone() },
    |config| config.hands = Hands { delete: false, edit: false, ..config.hands.clone() },
    |config| config.hands = Hands { settings: false, ..config.hands.clone() },
    |config| config.hands = Hands { schedules: false, notes: false, ..config.hands.clone() },
    |config| config.hands = Hands { programs: false, ..config.hands.clone() },
];
