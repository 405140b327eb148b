//! The server itself: version, durability and health.

use crore::store::Ailment;
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

    /// Whether the server can be used, and if not, why.
    pub fn health(&self) -> Health {
        let is_ending = self.engine().lifecycle().is_stopping() || self.is_closing();
        health(self.engine().status().ailment().as_ref(), is_ending)
    }
}

fn health(ailment: Option<&Ailment>, is_ending: bool) -> Health {
    let ailment = ailment.map(|ailment| match ailment {
        Ailment::Poisoned => "the store gave up after a failed write",
        Ailment::Full(_) => "the store is full",
    });
    let ending = is_ending.then_some("the server is stopping");
    let faults: Vec<String> = ailment.into_iter().chain(ending).map(str::to_owned).collect();
    Health { ok: faults.is_empty(), faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_store_is_full_or_poisoned_cannot_be_used() {
        assert!(health(None, false).ok && !health(None, true).ok);
        let full = Ailment::Full("a place that is nobody's business".to_owned());
        let said = health(Some(&full), true);
        assert_eq!(said.faults, ["the store is full", "the server is stopping"]);
        assert!(!said.ok && !health(Some(&Ailment::Poisoned), false).ok);
    }
}
