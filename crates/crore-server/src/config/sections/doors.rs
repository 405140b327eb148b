use crore_core::settings::section;

use crate::config::address::Port;
section! {
    /// Extra listeners, on the ports that programs of other queues expect. Every door is open on the main
    /// port as well.
    pub(crate) struct Doors = "doors" {
        /// For programs that speak to Jobber, which listens on 3000.
        jobber: Option<Port> = none,
        /// For programs that speak to Lakh, which listens on 50051. Where the main address is the machine's own
        /// or every one of it, this is of both sorts: `127.0.0.1` and `[::1]`, or `0.0.0.0` and `[::]`.
        lakh: Option<Port> = none,
        /// For programs that speak to LightJQ, which listens on 6400.
        lightjq: Option<Port> = none,
    }
}

/// The name of a door, as people know it.
pub(crate) type DoorName = &'static str;

impl Doors {
    /// The doors that are to be opened.
    pub(crate) fn open(&self) -> impl Iterator<Item = (DoorName, Port)> {
        let all = [("jobber", self.jobber), ("lakh", self.lakh), ("lightjq", self.lightjq)];
        all.into_iter().filter_map(|(name, port)| Some((name, port?)))
    }

    /// Whether a door listens on addresses of both sorts: programs that speak to Lakh call `[::1]`, and others
    /// do not. Who names an address means that one.
    pub(crate) fn is_twofold(&self, door: DoorName) -> bool {
        door == "lakh" && matches!(self.lakh, Some(Port::Beside(_)))
    }
}
