//! Creates, lists and revokes tokens through the engine, and caches them for authentication.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crore::Engine;
use crore::store::registry::RegistryValue;
use crore_core::{Code, Invalid, Name, Restriction, Span};
use crore_wire::TokenSecret;
use crore_wire::api::tokens::NewToken;
use tokio::time::Instant;

use super::Error;
use super::grant::Grant;
use super::token::{PresentedToken, Token, TokenHash, TokenPlan};
use crate::scope::{Scope, Scopes};

/// Creates and stores a token; its text is returned only here. Works without a server, so that the first token can be
/// created offline. A name that is in use is refused; two concurrent calls may both get it, with different ids.
pub async fn create(engine: &Engine, new: &NewToken) -> Result<(Token, TokenSecret), Error> {
    let name = Name::new("name", &new.name)?;
    let preset = new.preset.map(Scopes::from).unwrap_or_default();
    let scopes: Scopes = new.scopes.iter().copied().chain(preset.iter()).collect();
    if scopes == Scopes::NONE {
        let why = "a token needs at least one scope; set `scopes` or a `preset`";
        return Err(Invalid::new(Code::Malformed, "scopes", why).into());
    }
    let only = Restriction::new(&new.queues, &new.kinds)?;
    if scopes.has(Scope::Admin) && !only.is_none() {
        let why = "the scope `admin` cannot be restricted to queues or kinds";
        return Err(Invalid::new(Code::Malformed, "scopes", why).into());
    }
    let expires_in = new.expires_in.map(|period| period.0);
    if expires_in.is_some_and(Span::is_zero) {
        return Err(Invalid::new(Code::TimeRange, "expires_in", "`0s` is too short").into());
    }
    if list(engine).await?.iter().any(|token| token.name == name) {
        let what = format!("token `{name}`");
        return Err(crore::Error::Refused { what, why: "the name is already in use" }.into());
    }
    let now = engine.status().now();
    let expires_at = expires_in.map(|span| now.after(span));
    let (token, secret) = Token::mint(TokenPlan { name, scopes, only, expires_at }, now)?;
    engine.tokens().add(token.id.clone(), token.stored()).await?;
    Ok((token, secret))
}

/// All tokens by name; those stored by a newer version in an unknown format are left out.
pub async fn list(engine: &Engine) -> Result<Vec<Token>, crore::Error> {
    let mut tokens: Vec<Token> = read(engine).await?.flatten().collect();
    tokens.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tokens)
}

/// Revokes the token with this id or name, and returns it.
pub async fn remove(engine: &Engine, which: &str) -> Result<Option<Token>, crore::Error> {
    let mut tokens = list(engine).await?;
    let by_id = tokens.iter().position(|token| token.id.as_str() == which);
    let by_name = || tokens.iter().position(|token| token.name.as_str() == which);
    let Some(place) = by_id.or_else(by_name) else { return Ok(None) };
    let token = tokens.swap_remove(place);
    engine.tokens().remove(token.id.clone()).await?;
    Ok(Some(token))
}

/// Whether any token exists, including expired and unreadable ones.
pub async fn any_exist(engine: &Engine) -> Result<bool, crore::Error> {
    Ok(read(engine).await?.next().is_some())
}

async fn read(engine: &Engine) -> Result<impl Iterator<Item = Option<Token>>, crore::Error> {
    let entries = engine.tokens().list().await?.into_iter();
    Ok(entries.map(|entry| match &entry.value {
        RegistryValue::Token(stored) => Token::read(entry.name, stored),
        _ => None,
    }))
}

/// Maximum age of the cached tokens. Changes by other processes take effect after this time at the latest; changes
/// through this server's API take effect immediately.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Snapshot of the tokens.
#[derive(Debug)]
pub(super) struct TokenSnapshot {
    tokens: BTreeMap<Name, (Token, Grant)>,
    /// Whether any token exists, including unreadable ones.
    pub(super) any_exist: bool,
    read_at: Instant,
}

impl TokenSnapshot {
    pub(super) const fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Whether the token with this id exists and has not expired.
    pub(super) fn is_valid(&self, id: &Name, now: crore_core::Time) -> bool {
        self.tokens.get(id).is_some_and(|(token, _)| token.is_valid(now))
    }

    /// The grant of the token with this id, if it is known and has not expired.
    pub(super) fn grant(&self, id: &Name, now: crore_core::Time) -> Option<Grant> {
        let token = self.tokens.get(id).filter(|(token, _)| token.is_valid(now));
        token.map(|(_, grant)| grant.clone())
    }

    /// The grant of the presented token, if it is known and has not expired.
    pub(super) fn find(&self, text: &str, now: crore_core::Time) -> Option<Grant> {
        let presented = PresentedToken::read(text)?;
        let token = self.tokens.get(presented.id);
        let is_it = presented.is(token.map_or(&TokenHash::NONE, |(token, _)| token.hash()));
        token.filter(|(token, _)| is_it && token.is_valid(now)).map(|(_, grant)| grant.clone())
    }
}

/// Cache of the tokens, refreshed on demand.
#[derive(Debug)]
pub(super) struct TokenCache {
    engine: Engine,
    snapshot: RwLock<Option<Arc<TokenSnapshot>>>,
    /// Whether this server has changed the tokens since they were read.
    is_changed: AtomicBool,
    /// Held while the tokens are read, so that only one caller reads them.
    reading: tokio::sync::Mutex<()>,
}

impl TokenCache {
    pub(super) fn new(engine: Engine) -> Self {
        let reading = tokio::sync::Mutex::default();
        Self { engine, snapshot: RwLock::default(), is_changed: AtomicBool::new(false), reading }
    }

    /// The current snapshot. If the store is unavailable, the previous snapshot is used.
    pub(super) async fn snapshot(&self) -> Result<Arc<TokenSnapshot>, crore::Error> {
        if let Some(snapshot) = self.fresh() {
            return Ok(snapshot);
        }
        let _reading = self.reading.lock().await;
        if let Some(snapshot) = self.fresh() {
            return Ok(snapshot);
        }
        // Cleared before reading, so that a change during the read causes another one.
        self.is_changed.store(false, Ordering::Release);
        let read_at = Instant::now();
        match read(&self.engine).await {
            Ok(tokens) => {
                let (mut any, mut by_id) = (false, BTreeMap::new());
                for token in tokens {
                    any = true;
                    by_id.extend(token.map(|token| {
                        let grant = Grant::of_token(&token);
                        (token.id.clone(), (token, grant))
                    }));
                }
                let snapshot = Arc::new(TokenSnapshot { tokens: by_id, any_exist: any, read_at });
                let mut last = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
                *last = Some(Arc::clone(&snapshot));
                Ok(snapshot)
            }
            Err(error) => self.last().ok_or(error),
        }
    }

    /// Marks the snapshot as stale after a change by this server.
    pub(super) fn changed(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    fn fresh(&self) -> Option<Arc<TokenSnapshot>> {
        let is_fresh = |snapshot: &Arc<TokenSnapshot>| snapshot.read_at.elapsed() < MAX_AGE;
        self.last().filter(is_fresh).filter(|_| !self.is_changed.load(Ordering::Acquire))
    }

    fn last(&self) -> Option<Arc<TokenSnapshot>> {
        self.snapshot.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
