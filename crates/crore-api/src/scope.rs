//! Sets of scopes, which are the same for all doors.

use crore_core::settings::{Setting, SettingValue, Shape};
use crore_wire::api::tokens::Preset;
pub use crore_wire::api::tokens::Scope;

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// All scopes.
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// Whether the set contains a scope.
    pub const fn has(self, scope: Scope) -> bool {
        self.0 & bit(scope) != 0
    }

    /// The scopes in the set.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.iter().copied().filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | bit(scope)))
    }
}

impl Setting for Scopes {
    const SHAPE: Shape = Shape::Texts;

    /// An empty text is the empty set.
    fn read(given: &SettingValue) -> Result<Self, String> {
        let texts = match given {
            SettingValue::One(text) if text.trim().is_empty() => Vec::new(),
            given => given.texts(),
        };
        texts.into_iter().map(str::parse::<Scope>).collect()
    }
}

impl From<Preset> for Scopes {
    fn from(preset: Preset) -> Self {
        preset.scopes().iter().copied().collect()
    }
}

const fn bit(scope: Scope) -> u8 {
    match scope {
        Scope::Push => 1,
        Scope::Work => 2,
        Scope::Read => 4,
        Scope::Operate => 8,
        Scope::Define => 16,
        Scope::Admin => 32,
    }
}

/// Whether calls that need this scope are written to the audit log.
pub(crate) const fn is_audited(scope: Scope) -> bool {
    match scope {
        Scope::Operate | Scope::Define | Scope::Admin => true,
        Scope::Push | Scope::Work | Scope::Read => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_exactly_its_scopes() {
        for scope in Scope::ALL {
            let one: Scopes = [*scope].into_iter().collect();
            assert_eq!(one.iter().collect::<Vec<_>>(), [*scope]);
            assert!(Scopes::all().has(*scope) && !Scopes::NONE.has(*scope));
        }
        assert_eq!(Scopes::from(Preset::Admin), Scopes::all());
    }
}
