use crate::config::section::section;
use crate::config::setting::Port;

section! {
    /// Extra listeners, on the ports that programs of other queues expect. Every door is open on the main
    /// port as well.
    Doors = "doors" {
        /// For programs that speak to Jobber, which listens on 3000.
        jobber: Option<Port> = none,
        /// For programs that speak to LightJQ, which listens on 6400.
        lightjq: Option<Port> = none,
    }
}

/// The name of a door, as people know it.
pub(crate) type DoorName = &'static str;

impl Doors {
    /// The doors that are to be opened.
    pub(crate) fn open(&self) -> impl Iterator<Item = (DoorName, Port)> {
        let all = [("jobber", self.jobber), ("lightjq", self.lightjq)];
        all.into_iter().filter_map(|(name, port)| Some((name, port?)))
    }
}
