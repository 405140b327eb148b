//! The plan of the house: which crate may use which, what each keeps out, and which words stand
//! only where. `ARCHITECTURE.md` says why; a change there is a change here.

/// A crate of the workspace.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) name: &'static str,
    /// The crates of the workspace that it may use, in its code and in its tests.
    pub(super) uses: &'static [&'static str],
    /// What its code keeps out; its tests may use it.
    pub(super) shuns: &'static [&'static Family],
}

/// Crates from outside that are kept out of a room together.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) crates: &'static [&'static str],
    /// Where they belong, as the end of a sentence.
    pub(super) belong: &'static str,
}

/// A text that stands only in some folders.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) texts: &'static [&'static str],
    pub(super) place: Place,
    pub(super) reason: &'static str,
}

/// Folders, as prefixes of a path.
#[derive(Debug)]
pub(super) enum Place {
    /// The text stands in none of these.
    Not(&'static [&'static str]),
    /// The text stands in these alone.
    Only(&'static [&'static str]),
}

/// Helpers for tests: the product uses them as a dev-dependency alone.
pub(super) const TESTS_ONLY: &str = "crore-testkit";

/// The conformance suite, the model test and the simulator: likewise for the tests of stores alone.
pub(super) const CONFORMANCE: &str = "crore-conformance";

/// The crates that are no part of the product either, and may use those two in every build.
pub(super) const FOR_DEVELOPERS: &[&str] =
    &[CONFORMANCE, "crore-bench", "crore-chaos", "crore-peers"];

/// Arrows point down: server → doors, ui, runner, remote → crore → store → core, with wire beside
/// doors and client. A crate that is not listed here is a fault.
#[rustfmt::skip]
pub(super) const ROOMS: &[Room] = &[
    Room { name: "crore-core",    uses: &[], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES, CHANCE] },
    Room { name: "crore-store",   uses: &["crore-core", TESTS_ONLY, CONFORMANCE], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES] },
    Room { name: "crore",         uses: &["crore-core", "crore-store", TESTS_ONLY, CONFORMANCE], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES] },
    Room { name: "crore-remote",  uses: &["crore-core", "crore-store", "crore", TESTS_ONLY, CONFORMANCE], shuns: &[PROTOCOLS] },
    Room { name: "crore-wire",    uses: &["crore-core"], shuns: &[DRIVERS, RUNTIMES] },
    Room { name: "crore-client",  uses: &["crore-core", "crore-wire", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-outbound", uses: &["crore-core", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-plugin",  uses: &[], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES, CHANCE] },
    Room { name: "crore-plugin-host", uses: &["crore-plugin", TESTS_ONLY], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES, CHANCE] },
    Room { name: "crore-runner",  uses: &["crore-core", "crore-wire", "crore-client", "crore-outbound", "crore-plugin-host", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-api",     uses: &["crore-core", "crore", "crore-wire", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-dispatch", uses: &["crore-core", "crore", "crore-outbound", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-doors",   uses: &["crore-core", "crore", "crore-wire", "crore-api", "crore-outbound", "crore-dispatch", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-ui",      uses: &["crore-core", "crore-wire", "crore-api", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-server",  uses: &["crore-core", "crore-store", "crore-remote", "crore", "crore-plugin-host", "crore-runner", "crore-wire", "crore-client", "crore-outbound", "crore-api", "crore-doors", "crore-ui", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "crore-testkit", uses: &["crore-core"], shuns: &[DRIVERS] },
    Room { name: CONFORMANCE,     uses: &["crore-core", "crore-store", TESTS_ONLY], shuns: &[DRIVERS, PROTOCOLS] },
    Room { name: "crore-chaos",   uses: &["crore-core", "crore-store", "crore-wire", TESTS_ONLY], shuns: &[DRIVERS] },
    // The log is measured beside SQLite, by its driver.
    Room { name: "crore-bench",   uses: &["crore-core", "crore-store", "crore", "crore-wire", "crore-client"], shuns: &[] },
    Room { name: "crore-peers",   uses: &["crore-client", "crore-bench", TESTS_ONLY], shuns: &[DRIVERS] },
    Room { name: "xtask",         uses: &[], shuns: &[DRIVERS, PROTOCOLS, RUNTIMES] },
];

const DRIVERS: &Family = &Family {
    crates: &["mysql_async", "postgres", "redis", "rusqlite", "sqlx", "tokio-postgres"],
    belong: "drivers of databases belong in `crore-remote`",
};

const PROTOCOLS: &Family = &Family {
    crates: &["axum", "hyper", "prost", "reqwest", "tonic", "ureq"],
    belong: "protocols belong in the doors, the runners and the client",
};

const RUNTIMES: &Family = &Family {
    crates: &["async-std", "smol", "tokio"],
    belong: "it has to run without a runtime, and under a simulated one",
};

const CHANCE: &Family = &Family {
    crates: &["fastrand", "getrandom", "rand", "uuid"],
    belong: "randomness is passed in",
};

/// The sources of the crates whose public signatures are ours alone.
const OURS: &[&str] = &["crates/crore-core/src/", "crates/crore-store/src/", "crates/crore/src/"];

/// The doors beside the native HTTP API.
const OTHER_DOORS: &[&str] = &[
    "crates/crore-doors/src/grpc/",
    "crates/crore-doors/src/jobber/",
    "crates/crore-doors/src/jobworkerp/",
    "crates/crore-doors/src/lakh/",
    "crates/crore-doors/src/lightjq/",
    "crates/crore-doors/src/listen",
    "crates/crore-doors/src/guard",
];

/// What the compiler's own checks cannot say.
pub(super) const WORDS: &[Word] = &[
    Word {
        texts: &["sqlx::", "redis::", "tonic::", "axum::", "prost::"],
        place: Place::Not(OURS),
        reason: "no type of a driver or a protocol stands in a signature of core, store or crore",
    },
    Word {
        texts: &["Committed::synced", ">::synced"],
        place: Place::Only(&[
            "crates/crore-store/src/",
            "crates/crore-remote/src/",
            "crates/crore-conformance/tests/it/model/",
            "crates/crore-conformance/tests/it/plain/",
        ]),
        reason: "only a store's sync hands out a `Committed`",
    },
    Word {
        texts: &["crate::http::"],
        place: Place::Not(OTHER_DOORS),
        reason: "what several doors use stands in `crore-api`",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A room may only use rooms that stand above it in the table, or those of the tests: so the table
    /// is ordered, and has no circle.
    #[test]
    fn arrows_point_at_rooms_that_stand_higher_in_the_table() {
        for (i, room) in ROOMS.iter().enumerate() {
            for used in room.uses.iter().filter(|used| ![TESTS_ONLY, CONFORMANCE].contains(used)) {
                let above = ROOMS[..i].iter().any(|other| other.name == *used);
                assert!(above, "`{}` uses `{used}`, which does not stand above it", room.name);
            }
        }
        assert!(ROOMS.iter().any(|room| room.name == TESTS_ONLY && room.uses == ["crore-core"]));
        let is_for_developers = |used: &&str| FOR_DEVELOPERS.contains(used) && *used != CONFORMANCE;
        let mut product = ROOMS.iter().filter(|room| !is_for_developers(&room.name));
        assert!(!product.any(|room| room.uses.iter().any(is_for_developers)));
        assert!(ROOMS.iter().any(|room| room.name == "crore-core" && room.uses.is_empty()));
    }

    #[test]
    fn places_are_folders_of_rooms() {
        let places = WORDS.iter().flat_map(|word| match word.place {
            Place::Not(folders) | Place::Only(folders) => folders,
        });
        for folder in places {
            let room =
                ROOMS.iter().any(|room| folder.starts_with(&format!("crates/{}/", room.name)));
            assert!(room, "{folder}");
        }
    }
}
