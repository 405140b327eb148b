//! The plan: which crate may use which, which external crates it may not use, and which texts are allowed only in some
//! folders. `ARCHITECTURE.md` gives the reasons; both change together.

/// The rules for a crate of the workspace.
#[derive(Debug)]
pub(super) struct CrateRule {
    pub(super) name: &'static str,
    /// The crates of the workspace that it may use, in its code and in its tests.
    pub(super) uses: &'static [&'static str],
    /// External crates that its code may not use; its tests may.
    pub(super) forbids: &'static [&'static ExternalCrates],
}

/// External crates that are forbidden together.
#[derive(Debug)]
pub(super) struct ExternalCrates {
    pub(super) crates: &'static [&'static str],
    /// Where they belong, as the second half of the error message.
    pub(super) hint: &'static str,
}

/// Texts that are allowed only in some folders.
#[derive(Debug)]
pub(super) struct TextRule {
    pub(super) texts: &'static [&'static str],
    pub(super) folders: FolderRule,
    pub(super) reason: &'static str,
}

/// Folders, as path prefixes.
#[derive(Debug)]
pub(super) enum FolderRule {
    /// Forbidden in these.
    Not(&'static [&'static str]),
    /// Allowed only in these.
    Only(&'static [&'static str]),
}

/// Test support: the product may use it only as a dev-dependency.
pub(super) const TESTS_ONLY: &str = "crore-testkit";

/// The conformance suite, the model test and the simulator: only for the tests of stores.
pub(super) const CONFORMANCE: &str = "crore-conformance";

/// Crates that are not part of the product, and may use those two in every build.
pub(super) const FOR_DEVELOPERS: &[&str] =
    &[CONFORMANCE, "crore-bench", "crore-chaos", "crore-fuzz", "crore-peers"];

/// Each crate with the crates that it may use, which come before it: core, store, crore, remote; wire, client, runner;
/// api, dispatch, doors, ui; server. A crate that is missing here is a fault.
#[rustfmt::skip]
pub(super) const CRATES: &[CrateRule] = &[
    CrateRule { name: "crore-core",    uses: &[], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES, RANDOMNESS] },
    CrateRule { name: "crore-store",   uses: &["crore-core", TESTS_ONLY, CONFORMANCE], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES] },
    CrateRule { name: "crore",         uses: &["crore-core", "crore-store", TESTS_ONLY, CONFORMANCE], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES] },
    CrateRule { name: "crore-remote",  uses: &["crore-core", "crore-store", "crore", TESTS_ONLY, CONFORMANCE], forbids: &[PROTOCOLS] },
    CrateRule { name: "crore-wire",    uses: &["crore-core"], forbids: &[DRIVERS, RUNTIMES] },
    CrateRule { name: "crore-client",  uses: &["crore-core", "crore-wire", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-outbound", uses: &["crore-core", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-plugin",  uses: &[], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES, RANDOMNESS] },
    CrateRule { name: "crore-plugin-host", uses: &["crore-plugin", TESTS_ONLY], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES, RANDOMNESS] },
    CrateRule { name: "crore-runner",  uses: &["crore-core", "crore-wire", "crore-client", "crore-outbound", "crore-plugin-host", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-api",     uses: &["crore-core", "crore", "crore-wire", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-dispatch", uses: &["crore-core", "crore", "crore-outbound", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-doors",   uses: &["crore-core", "crore", "crore-wire", "crore-api", "crore-outbound", "crore-dispatch", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-ui",      uses: &["crore-core", "crore", "crore-wire", "crore-api", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-server",  uses: &["crore-core", "crore-store", "crore-remote", "crore", "crore-plugin-host", "crore-runner", "crore-wire", "crore-client", "crore-outbound", "crore-api", "crore-doors", "crore-ui", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-testkit", uses: &["crore-core"], forbids: &[DRIVERS] },
    CrateRule { name: CONFORMANCE,     uses: &["crore-core", "crore-store", TESTS_ONLY], forbids: &[DRIVERS, PROTOCOLS] },
    CrateRule { name: "crore-chaos",   uses: &["crore-core", "crore-store", "crore-wire", TESTS_ONLY], forbids: &[DRIVERS] },
    // The log is compared with SQLite, through its driver.
    CrateRule { name: "crore-bench",   uses: &["crore-core", "crore-store", "crore", "crore-wire", "crore-client"], forbids: &[] },
    CrateRule { name: "crore-peers",   uses: &["crore-client", "crore-bench", TESTS_ONLY], forbids: &[DRIVERS] },
    CrateRule { name: "crore-fuzz",    uses: &["crore-core", "crore-store", "crore", "crore-wire", "crore-outbound", "crore-plugin-host", "crore-runner", "crore-api", "crore-doors", "crore-server", TESTS_ONLY, CONFORMANCE], forbids: &[DRIVERS] },
    CrateRule { name: "xtask",         uses: &[], forbids: &[DRIVERS, PROTOCOLS, RUNTIMES] },
];

const DRIVERS: &ExternalCrates = &ExternalCrates {
    crates: &["mysql_async", "postgres", "redis", "rusqlite", "sqlx", "tokio-postgres"],
    hint: "drivers of databases belong in `crore-remote`",
};

const PROTOCOLS: &ExternalCrates = &ExternalCrates {
    crates: &["axum", "hyper", "prost", "reqwest", "tonic", "ureq"],
    hint: "protocols belong in the doors, the runners and the client",
};

const RUNTIMES: &ExternalCrates = &ExternalCrates {
    crates: &["async-std", "smol", "tokio"],
    hint: "it has to run without a runtime, and under a simulated one",
};

const RANDOMNESS: &ExternalCrates = &ExternalCrates {
    crates: &["fastrand", "getrandom", "rand", "uuid"],
    hint: "randomness is passed in",
};

/// The crates whose public signatures contain no external types.
const CORE_SOURCES: &[&str] =
    &["crates/crore-core/src/", "crates/crore-store/src/", "crates/crore/src/"];

/// The doors other than the native HTTP API.
const OTHER_DOORS: &[&str] = &[
    "crates/crore-doors/src/grpc/",
    "crates/crore-doors/src/jobber/",
    "crates/crore-doors/src/jobworkerp/",
    "crates/crore-doors/src/lakh/",
    "crates/crore-doors/src/lightjq/",
    "crates/crore-doors/src/listen",
    "crates/crore-doors/src/guard",
];

/// Rules that the compiler and clippy cannot check.
pub(super) const TEXT_RULES: &[TextRule] = &[
    TextRule {
        texts: &["sqlx::", "redis::", "tonic::", "axum::", "prost::"],
        folders: FolderRule::Not(CORE_SOURCES),
        reason: "signatures of core, store and crore contain no type of a driver or a protocol",
    },
    TextRule {
        texts: &["Committed::synced", ">::synced"],
        folders: FolderRule::Only(&[
            "crates/crore-store/src/",
            "crates/crore-remote/src/",
            "crates/crore-conformance/tests/it/model/",
            "crates/crore-conformance/tests/it/plain/",
        ]),
        reason: "only a store creates a `Committed`, after its sync",
    },
    TextRule {
        texts: &["crate::http::"],
        folders: FolderRule::Not(OTHER_DOORS),
        reason: "code that several doors use belongs in `crore-api`",
    },
    TextRule {
        texts: &["crore::", ".engine()"],
        folders: FolderRule::Not(&["crates/crore-ui/src/"]),
        reason: "pages call `crore-api`; only the tests of the pages name the engine",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate may use only crates above it in the table, or those for tests: the table is ordered and has no cycle.
    #[test]
    fn crates_use_only_crates_above_them_in_the_table() {
        for (i, rule) in CRATES.iter().enumerate() {
            for used in rule.uses.iter().filter(|used| ![TESTS_ONLY, CONFORMANCE].contains(used)) {
                let above = CRATES[..i].iter().any(|other| other.name == *used);
                assert!(above, "`{}` uses `{used}`, which is not above it in the table", rule.name);
            }
        }
        assert!(CRATES.iter().any(|rule| rule.name == TESTS_ONLY && rule.uses == ["crore-core"]));
        let is_for_developers = |used: &&str| FOR_DEVELOPERS.contains(used) && *used != CONFORMANCE;
        let mut product = CRATES.iter().filter(|rule| !is_for_developers(&rule.name));
        assert!(!product.any(|rule| rule.uses.iter().any(is_for_developers)));
        assert!(CRATES.iter().any(|rule| rule.name == "crore-core" && rule.uses.is_empty()));
    }

    #[test]
    fn folder_rules_name_folders_of_crates() {
        let all_folders = TEXT_RULES.iter().flat_map(|rule| match rule.folders {
            FolderRule::Not(folders) | FolderRule::Only(folders) => folders,
        });
        for folder in all_folders {
            let exists =
                CRATES.iter().any(|rule| folder.starts_with(&format!("crates/{}/", rule.name)));
            assert!(exists, "{folder}");
        }
    }
}
