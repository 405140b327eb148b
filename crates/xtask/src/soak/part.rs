//! The parts of a soak.

/// A part, which can be chosen by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SoakPart {
    Audit,
    Deny,
    Docs,
    Damage,
    Looks,
    Fuzz,
    Seeds,
    Drill,
    Harm,
    Chaos,
}

/// Parts of one lane run sequentially, the lanes in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoakLane {
    /// Builds, tests and simulators.
    Checks,
    /// Real processes and file systems.
    Processes,
}

impl SoakPart {
    /// In the order of execution within a lane: short parts first.
    pub(super) const ALL: [Self; 10] = [
        Self::Audit,
        Self::Deny,
        Self::Docs,
        Self::Damage,
        Self::Looks,
        Self::Fuzz,
        Self::Seeds,
        Self::Drill,
        Self::Harm,
        Self::Chaos,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Deny => "deny",
            Self::Docs => "docs",
            Self::Damage => "damage",
            Self::Looks => "looks",
            Self::Fuzz => "fuzz",
            Self::Seeds => "seeds",
            Self::Drill => "drill",
            Self::Harm => "harm",
            Self::Chaos => "chaos",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Audit => "check dependencies against the advisory database",
            Self::Deny => "check licences, bans and sources of dependencies",
            Self::Docs => "build the documentation and check its links",
            Self::Damage => "flip every bit of a store, cut every file at every byte",
            Self::Looks => "check every page of the Web UI at three widths with axe-core",
            Self::Fuzz => "fuzz every reader of bytes from outside",
            Self::Seeds => "run the simulators of store and engine on fresh seeds",
            Self::Drill => "check that chaos finds each bug planted in the doors",
            Self::Harm => "inject kills, power cuts, full and failing disks into a store",
            Self::Chaos => "inject faults into the built server under load",
        }
    }

    pub(super) const fn lane(self) -> SoakLane {
        match self {
            Self::Audit
            | Self::Deny
            | Self::Docs
            | Self::Damage
            | Self::Looks
            | Self::Fuzz
            | Self::Seeds => SoakLane::Checks,
            Self::Drill | Self::Harm | Self::Chaos => SoakLane::Processes,
        }
    }

    /// The flags of `crore-testservers` for the packages that it needs.
    pub(super) const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Chaos => &["--xfs", "--faketime"],
            Self::Harm => &["--xfs"],
            Self::Looks => &["--npm", "--fonts"],
            _ => &[],
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The part of a failure, recognized by the command that repeats it; soak files store only the commands.
    pub(super) fn repeated_by(command: &str) -> Self {
        let prefixes = [
            ("cargo xtask sim", Self::Seeds),
            ("cargo xtask harm", Self::Harm),
            ("cargo xtask chaos drill", Self::Drill),
            ("cargo audit", Self::Audit),
            ("cargo deny", Self::Deny),
            ("cargo fuzz", Self::Fuzz),
            ("cargo test -q -p crore-server", Self::Looks),
            ("cargo test", Self::Damage),
            ("cargo doc", Self::Docs),
            ("cargo xtask links", Self::Docs),
        ];
        let found = prefixes.into_iter().find(|(prefix, _)| command.starts_with(prefix));
        found.map_or(Self::Chaos, |(_, part)| part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_their_names() {
        for part in SoakPart::ALL {
            assert_eq!(SoakPart::named(part.name()), Some(part));
        }
        assert_eq!(SoakPart::named("sedes"), None);
    }

    #[test]
    fn commands_of_failures_identify_their_part() {
        for (command, part) in [
            ("cargo xtask sim --engine --seed 7", SoakPart::Seeds),
            ("cargo xtask chaos stop --plan-seed 7", SoakPart::Chaos),
            ("chaos all --seed 7", SoakPart::Chaos),
            ("cargo xtask chaos drill --seed 7", SoakPart::Drill),
            ("cargo xtask harm kill --rounds 10 --seed 7", SoakPart::Harm),
            ("cargo deny check licenses bans sources", SoakPart::Deny),
            ("cargo test --release -q -p crore-store --test it damage::all", SoakPart::Damage),
            ("cargo test -q -p crore-server --test it ui::pages", SoakPart::Looks),
            ("cargo fuzz run -s none texts crash-1", SoakPart::Fuzz),
        ] {
            assert_eq!(SoakPart::repeated_by(command), part, "{command}");
        }
    }
}
