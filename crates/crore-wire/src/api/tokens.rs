//! Access tokens and scopes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::secret::TokenSecret;
use crate::units::{Moment, Period};

macro_rules! text_enum {
    ($(#[$about:meta])+ $name:ident { $($(#[$doc:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$doc])+ $variant,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text used in the API and on the command line.
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

text_enum! {
    /// A permission that a call requires, the same for all protocols. No scope includes another.
    Scope {
        /// Push jobs, seal own groups, and read the results of jobs that a token of the same name pushed.
        Push = "push",
        /// Fetch jobs and report on them.
        Work = "work",
        /// Read jobs, results, queues, definitions, workers, events and metrics.
        Read = "read",
        /// Retry, cancel, delete and change jobs; pause queues and schedules, and set retention.
        Operate = "operate",
        /// Define handlers, schedules and limits.
        Define = "define",
        /// Manage tokens, and make backups.
        Admin = "admin",
    }
}

text_enum! {
    /// A predefined set of scopes.
    Preset {
        /// For a program that pushes jobs: `push`.
        Producer = "producer",
        /// For a worker: `work`.
        Worker = "worker",
        /// For operators: `read`, `operate` and `define`.
        Operator = "operator",
        /// All scopes.
        Admin = "admin",
    }
}

impl Preset {
    /// The scopes of the preset.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Producer => &[Scope::Push],
            Self::Worker => &[Scope::Work],
            Self::Operator => &[Scope::Read, Scope::Operate, Scope::Define],
            Self::Admin => Scope::ALL,
        }
    }
}

/// Request for a token, with `preset`, `scopes`, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Name of the token, recorded in the audit log.
    #[schema(example = "mailer")]
    pub name: String,
    /// A predefined set of scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Scopes of the token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// Time until the token expires. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Period>,
    /// Patterns of the queues that the token is restricted to, with `*` for any characters. Default: any queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32, example = json!(["mail*"]))]
    pub queues: Vec<String>,
    /// Patterns of the kinds that the token is restricted to, with `*` for any characters. Default: any kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32, example = json!(["resize*"]))]
    pub kinds: Vec<String>,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Id of the token, which is not secret.
    pub id: String,
    /// Name of the token.
    pub name: String,
    /// Scopes of the token.
    pub scopes: Vec<Scope>,
    /// Patterns of the queues that it is restricted to; absent: any queue.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queues: Vec<String>,
    /// Patterns of the kinds that it is restricted to; absent: any kind.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub kinds: Vec<String>,
    /// When it was created.
    pub created_at: Moment,
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<Moment>,
}

/// A created token. The secret is returned only once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token, without its secret.
    pub about: Token,
    /// The token itself, for the header `Authorization: Bearer …`.
    #[schema(value_type = String)]
    pub token: TokenSecret,
}

/// All tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// The tokens, by name.
    pub tokens: Vec<Token>,
}
