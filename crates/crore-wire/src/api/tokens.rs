//! Tokens, and what they let their bearers do.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::secret::Secret;
use crate::words::{Moment, Period};

macro_rules! words {
    ($(#[$about:meta])+ $name:ident { $($(#[$doc:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$doc])+ $variant,)+
        }

        impl $name {
            /// All there are.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it stands in answers and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|one| one.as_str() == text);
                found.copied().ok_or_else(|| {
                    let text = crore_core::code::excerpt(text);
                    format!("`{text}` is not one of {}", [$($word),+].join(", "))
                })
            }
        }
    };
}

words! {
    /// What a call needs its caller to be allowed: one table for all doors. No scope includes another.
    Scope {
        /// To push jobs, and to wait for their results.
        Push = "push",
        /// To fetch jobs and to report on them.
        Work = "work",
        /// To look at anything.
        Read = "read",
        /// To pause, retry, cancel and change what is there.
        Operate = "operate",
        /// To define handlers, schedules and limits.
        Define = "define",
        /// To see to tokens and nodes, and to remove for good.
        Admin = "admin",
    }
}

words! {
    /// Scopes that are often wanted together.
    Preset {
        /// For a program that pushes jobs: `push`.
        Producer = "producer",
        /// For a worker: `work`.
        Worker = "worker",
        /// For people who keep things running: `read`, `operate` and `define`.
        Operator = "operator",
        /// For who may do everything.
        Admin = "admin",
    }
}

impl Preset {
    /// The scopes that are meant.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Producer => &[Scope::Push],
            Self::Worker => &[Scope::Work],
            Self::Operator => &[Scope::Read, Scope::Operate, Scope::Define],
            Self::Admin => Scope::ALL,
        }
    }
}

/// A token to be made: `preset`, `scopes`, or both together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Who it is for; it stands in the audit log.
    #[schema(example = "mailer")]
    pub name: String,
    /// Scopes that are often wanted together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// What its bearer may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// After this long it is good for nothing; never, unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Period>,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its public part, which also stands in the token itself.
    pub id: String,
    /// Who it is for.
    pub name: String,
    /// What its bearer may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: Moment,
    /// From when on it is good for nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Moment>,
}

/// A token that was made. This is the only time that it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// What is kept of it.
    pub about: Token,
    /// The token itself, for the header `Authorization: Bearer …`.
    #[schema(value_type = String)]
    pub token: Secret,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// By name.
    pub tokens: Vec<Token>,
}
