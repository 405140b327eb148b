use crore_core::settings::section;

use crate::config::address::ListenPort;
section! {
    /// Extra listeners for doors (the protocols of other job queues), on the ports that their clients expect. The main
    /// port serves these clients too.
    pub(crate) struct DoorsConfig = "doors" {
        /// Port or address for Jobber clients; Jobber's own default is 3000.
        jobber: Option<ListenPort> = none,
        /// Port or address for Lakh clients; Lakh's own default is 50051. A port listens on both IPv4 and IPv6 if the
        /// main address is loopback (`127.0.0.1` and `[::1]`) or unspecified (`0.0.0.0` and `[::]`).
        lakh: Option<ListenPort> = none,
        /// Port or address for LightJQ clients; LightJQ's own default is 6400.
        lightjq: Option<ListenPort> = none,
    }
}

/// Name of a door in the configuration.
pub(crate) type DoorName = &'static str;

impl DoorsConfig {
    /// Doors with a listener of their own.
    pub(crate) fn open(&self) -> impl Iterator<Item = (DoorName, ListenPort)> {
        let all = [("jobber", self.jobber), ("lakh", self.lakh), ("lightjq", self.lightjq)];
        all.into_iter().filter_map(|(name, port)| Some((name, port?)))
    }

    /// Whether a door listens on both IPv4 and IPv6. Lakh's clients call `[::1]`, others `127.0.0.1`. A full address
    /// in the configuration means that address only.
    pub(crate) fn is_dual_stack(&self, door: DoorName) -> bool {
        door == "lakh" && matches!(self.lakh, Some(ListenPort::OnMainAddress(_)))
    }
}
