//! Access tokens: text format and stored form.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crore_core::restriction::NamePattern;
use crore_core::{Name, Restriction, Time};
use crore_wire::TokenSecret;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Error;
use crate::scope::{Scope, Scopes};

/// Prefix of every token, so that leaked ones can be found.
const PREFIX: &str = "crore_";
/// Length of the public id.
const ID_CHARS: usize = 12;
/// Length of the secret: more entropy than 32 random bytes.
const SECRET_CHARS: usize = 43;
/// Alphabet of both parts.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A stored token: enough to recognize its text, but not to recover it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Public id.
    pub id: Name,
    /// Name given by the operator.
    pub name: Name,
    /// Scopes of its bearer.
    pub scopes: Scopes,
    /// Creation time.
    pub created_at: Time,
    /// Expiry time.
    pub expires_at: Option<Time>,
    /// The queues and kinds that its bearer is restricted to.
    pub only: Restriction,
    hash: TokenHash,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenHash([u8; 32]);

impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl TokenHash {
    /// A value that no token hashes to. It is compared if the id is unknown, so that the check takes the same time.
    pub(super) const NONE: Self = Self([0; 32]);

    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

/// Stored form of a token. Any change needs a new `version`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredToken {
    version: u8,
    name: Name,
    scopes: Vec<Scope>,
    hash: String,
    created_at: Time,
    expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<String>,
}

const UNRESTRICTED: u8 = 1;
/// A token with `queues` or `kinds`. Servers that do not know them must not accept it.
const RESTRICTED: u8 = 2;

/// The definition of a new token.
#[derive(Debug)]
pub(super) struct TokenPlan {
    pub(super) name: Name,
    pub(super) scopes: Scopes,
    pub(super) only: Restriction,
    pub(super) expires_at: Option<Time>,
}

impl Token {
    /// Creates a token. Its text is not stored anywhere.
    pub(super) fn mint(plan: TokenPlan, created_at: Time) -> Result<(Self, TokenSecret), Error> {
        let TokenPlan { name, scopes, only, expires_at } = plan;
        let id = random::<ID_CHARS>()?;
        let text = format!("{PREFIX}{id}_{}", random::<SECRET_CHARS>()?);
        let (id, hash) = (Name::new("token", &id)?, TokenHash::of(&text));
        let token = Self { id, name, scopes, created_at, expires_at, only, hash };
        Ok((token, TokenSecret::new(text)))
    }

    /// Encodes the token for the store.
    pub(super) fn stored(&self) -> String {
        let texts = |patterns: &[NamePattern]| patterns.iter().map(ToString::to_string).collect();
        let stored = StoredToken {
            version: if self.only.is_none() { UNRESTRICTED } else { RESTRICTED },
            name: self.name.clone(),
            scopes: self.scopes.iter().collect(),
            hash: URL_SAFE_NO_PAD.encode(self.hash.0),
            created_at: self.created_at,
            expires_at: self.expires_at,
            queues: texts(self.only.queues()),
            kinds: texts(self.only.kinds()),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Decodes a stored token; `None` if the format is unknown.
    pub(super) fn read(id: Name, stored: &str) -> Option<Self> {
        let stored: StoredToken = serde_json::from_str(stored).ok()?;
        let hash = URL_SAFE_NO_PAD.decode(&stored.hash).ok()?;
        let only = Restriction::new(&stored.queues, &stored.kinds).ok()?;
        let is_known = match stored.version {
            UNRESTRICTED => only.is_none(),
            RESTRICTED => true,
            _ => false,
        };
        Some(Self {
            id,
            name: stored.name,
            scopes: stored.scopes.into_iter().collect(),
            created_at: stored.created_at,
            expires_at: stored.expires_at,
            only,
            hash: TokenHash(hash.try_into().ok()?),
        })
        .filter(|_| is_known)
    }

    pub(super) const fn hash(&self) -> &TokenHash {
        &self.hash
    }

    /// Whether it has not expired.
    pub(super) fn is_valid(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }
}

/// A text in the format of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresentedToken<'a> {
    pub(super) id: &'a str,
    text: &'a str,
}

impl<'a> PresentedToken<'a> {
    /// Parses a text; `None` if it does not have the format.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_made_of = |part: &str, n| {
            part.len() == n && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        (is_made_of(id, ID_CHARS) && is_made_of(secret, SECRET_CHARS)).then_some(Self { id, text })
    }

    /// Whether its hash is this one; takes constant time.
    pub(super) fn is(self, hash: &TokenHash) -> bool {
        TokenHash::of(self.text).0.ct_eq(&hash.0).into()
    }
}

/// Replaces the secrets of tokens in a text with `***`.
pub fn redacted(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        let end = part.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        match end.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')) {
            Some((id, _)) => {
                out.push_str(PREFIX);
                out.push_str(id);
                out.push_str("_***");
                out.extend(part.strip_prefix(end));
            }
            None => out.push_str(part),
        }
    }
    out
}

/// Returns uniformly distributed, cryptographically random characters.
pub fn random<const N: usize>() -> Result<String, Error> {
    let mut text = String::with_capacity(N);
    while text.len() < N {
        let mut bytes = [0; 64];
        getrandom::fill(&mut bytes).map_err(|_| Error::NoRandomness)?;
        // 248 is the largest multiple of 62 in a byte; larger values would bias the result.
        let fair = bytes.iter().filter(|byte| **byte < 248);
        let letters = fair.filter_map(|byte| ALPHABET.get(usize::from(byte % 62)));
        text.extend(letters.take(N - text.len()).map(|letter| char::from(*letter)));
    }
    Ok(text)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn minted() -> (Token, TokenSecret) {
        let name = Name::new("name", "mailer").expect("a name");
        let scopes = [Scope::Push, Scope::Read].into_iter().collect();
        let expires_at = Some(Time::from_millis(2000));
        let plan = TokenPlan { name, scopes, only: Restriction::default(), expires_at };
        Token::mint(plan, Time::from_millis(1000)).expect("minted")
    }

    #[test]
    fn a_token_is_recognized_by_its_text_and_stored_without_it() {
        let ((token, secret), (other, _)) = (minted(), minted());
        let presented = PresentedToken::read(secret.reveal()).expect("the form of a token");
        assert_eq!(presented.id, token.id.as_str());
        assert!(presented.is(token.hash()) && !presented.is(other.hash()));
        let stored = token.stored();
        let (_, hidden) = secret.reveal().rsplit_once('_').expect("two parts");
        assert!(!stored.contains(hidden) && !format!("{token:?} {secret:?}").contains(hidden));
        assert_eq!(Token::read(token.id.clone(), &stored), Some(token));
    }

    #[test]
    fn a_stored_token_keeps_its_form() {
        let id = Name::new("token", "abcdefghijkl").expect("a name");
        let stored = r#"{"version":1,"name":"mailer","scopes":["push","operate"],
            "hash":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE","created_at":1000,"expires_at":null}"#;
        let token = Token::read(id.clone(), stored).expect("version 1 stays readable");
        assert_eq!(token.hash, TokenHash([1; 32]));
        assert_eq!(token.scopes.iter().collect::<Vec<_>>(), [Scope::Push, Scope::Operate]);
        assert!(token.only.is_none());
        let version_3 = stored.replace("\"version\":1", "\"version\":3");
        assert_eq!(Token::read(id.clone(), &version_3), None);
        assert_eq!(Token::read(id, "{}"), None);
    }

    #[test]
    fn a_restricted_token_has_a_version_that_servers_without_restrictions_refuse() {
        let id = Name::new("token", "abcdefghijkl").expect("a name");
        let stored = r#"{"version":2,"name":"mailer","scopes":["push"],"hash":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE","created_at":1000,"expires_at":null,"queues":["mail*"],"kinds":["send","render*"]}"#;
        let token = Token::read(id.clone(), stored).expect("version 2 stays readable");
        let patterns =
            |all: &[NamePattern]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(patterns(token.only.queues()), ["mail*"]);
        assert_eq!(patterns(token.only.kinds()), ["send", "render*"]);
        assert_eq!(token.stored(), stored);
        // A restriction that its version does not announce is not dropped.
        assert_eq!(Token::read(id, &stored.replace("\"version\":2", "\"version\":1")), None);
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let (token, _) = minted();
        assert!(
            token.is_valid(Time::from_millis(1999)) && !token.is_valid(Time::from_millis(2000))
        );
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let (_, secret) = minted();
        let text = secret.reveal();
        let long = "x".repeat(1 << 20);
        let space = format!(" {text}");
        let other = format!("{text}0");
        for text in ["", "crore_", "crore__", &text[1..], &space, &other, &long, "crore_ä_ö"] {
            assert!(PresentedToken::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn secrets_are_redacted() {
        let (token, secret) = minted();
        let text = format!("/v1/tokens/{}/x?{}&a", secret.reveal(), secret.reveal());
        let id = &token.id;
        let shown = format!("/v1/tokens/crore_{id}_***/x?crore_{id}_***&a");
        assert_eq!(redacted(&text), shown);
        assert_eq!(redacted("/v1/jobs/crore_x/ä"), "/v1/jobs/crore_x/ä");
    }

    #[test]
    fn random_texts_are_long_and_differ() {
        let texts: std::collections::BTreeSet<_> =
            (0..1000).map(|_| random::<ID_CHARS>().expect("random")).collect();
        assert_eq!(texts.len(), 1000);
        let used: std::collections::BTreeSet<_> =
            texts.iter().flat_map(|text| text.bytes()).collect();
        assert_eq!(used.len(), ALPHABET.len(), "every character is used");
    }
}
