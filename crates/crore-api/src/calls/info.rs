//! The server itself: version, durability and health.

use crore::store::StoreProblem;
use crore_wire::api::info::{Health, Info};

use crate::Api;

impl Api {
    /// Name, version, durability class and doors of the server.
    pub fn info(&self) -> Info {
        Info {
            name: "crore".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            durability: self.engine().status().durability().to_string(),
            doors: self.doors().iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether the server is usable, and if not, why.
    pub fn health(&self) -> Health {
        let is_ending = self.engine().lifecycle().is_stopping() || self.is_closing();
        health(self.engine().status().store_problem().as_ref(), is_ending)
    }
}

fn health(problem: Option<&StoreProblem>, is_ending: bool) -> Health {
    let problem = problem.map(|problem| match problem {
        StoreProblem::Poisoned => {
            "the store is poisoned: a write or a sync failed; restart the server"
        }
        StoreProblem::Full(_) => "the store is full",
    });
    let ending = is_ending.then_some("the server is stopping");
    let faults: Vec<String> = problem.into_iter().chain(ending).map(str::to_owned).collect();
    Health { ok: faults.is_empty(), faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_store_is_full_or_poisoned_cannot_be_used() {
        assert!(health(None, false).ok && !health(None, true).ok);
        let full = StoreProblem::Full("/secret/path".to_owned());
        let report = health(Some(&full), true);
        assert_eq!(report.faults, ["the store is full", "the server is stopping"]);
        assert!(!report.ok && !health(Some(&StoreProblem::Poisoned), false).ok);
    }
}
