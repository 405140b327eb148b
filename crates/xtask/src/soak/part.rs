//! The parts of a soak.

/// A part, which can be chosen by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Audit,
    Docs,
    Damage,
    Seeds,
    Drill,
    Harm,
    Chaos,
}

/// Parts of the same lane run one after the other, and the lanes side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Builds, tests and simulators.
    Checks,
    /// Real processes and file systems.
    Processes,
}

impl Part {
    /// In the order in which each lane runs them: short parts first.
    pub(super) const ALL: [Self; 7] =
        [Self::Audit, Self::Docs, Self::Damage, Self::Seeds, Self::Drill, Self::Harm, Self::Chaos];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Docs => "docs",
            Self::Damage => "damage",
            Self::Seeds => "seeds",
            Self::Drill => "drill",
            Self::Harm => "harm",
            Self::Chaos => "chaos",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Audit => "dependencies against the advisory database",
            Self::Docs => "documentation built, its links checked",
            Self::Damage => "every bit of a store flipped, every file cut at every byte",
            Self::Seeds => "fresh seeds of the simulators of store and engine",
            Self::Drill => "planted mistakes of the doors, each of which chaos has to catch",
            Self::Harm => "kills, power cuts, full and broken disks of a store",
            Self::Chaos => "harm to the built server while many clients use it",
        }
    }

    pub(super) const fn lane(self) -> Lane {
        match self {
            Self::Audit | Self::Docs | Self::Damage | Self::Seeds => Lane::Checks,
            Self::Drill | Self::Harm | Self::Chaos => Lane::Processes,
        }
    }

    /// The flags of `crore-testservers` for the packages that it needs.
    pub(super) const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Chaos => &["--xfs", "--faketime"],
            Self::Harm => &["--xfs"],
            _ => &[],
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    /// The part that a command repeats. Files of soaks hold only the commands.
    pub(super) fn repeated_by(command: &str) -> Self {
        let prefixes = [
            ("cargo xtask sim", Self::Seeds),
            ("cargo xtask harm", Self::Harm),
            ("cargo xtask chaos drill", Self::Drill),
            ("cargo audit", Self::Audit),
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
        for part in Part::ALL {
            assert_eq!(Part::named(part.name()), Some(part));
        }
        assert_eq!(Part::named("sedes"), None);
    }

    #[test]
    fn commands_of_failures_tell_their_part() {
        for (command, part) in [
            ("cargo xtask sim --engine --seed 7", Part::Seeds),
            ("cargo xtask chaos stop --plan-seed 7", Part::Chaos),
            ("chaos all --seed 7", Part::Chaos),
            ("cargo xtask chaos drill --seed 7", Part::Drill),
            ("cargo xtask harm kill --rounds 10 --seed 7", Part::Harm),
        ] {
            assert_eq!(Part::repeated_by(command), part, "{command}");
        }
    }
}
