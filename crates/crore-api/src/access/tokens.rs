//! All tokens: made, listed and removed through the engine, and known in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crore::Engine;
use crore::store::registry::Value;
use crore_core::{Code, Invalid, Name, Span};
use crore_wire::Secret;
use crore_wire::api::tokens::NewToken;
use tokio::time::Instant;

use super::Error;
use super::token::{Hash, Presented, Token};
use crate::scope::Scopes;

/// Makes a token and keeps it; its text is given here and never again. Works on an engine without a
/// server, so that the first token can be made for a directory that nobody serves yet. A name that
/// is taken is refused; two who take it at the same moment may both get it, and differ in their ids.
pub async fn create(engine: &Engine, new: &NewToken) -> Result<(Token, Secret), Error> {
    let name = Name::new("name", &new.name)?;
    let preset = new.preset.map(Scopes::from).unwrap_or_default();
    let scopes: Scopes = new.scopes.iter().copied().chain(preset.iter()).collect();
    if scopes == Scopes::NONE {
        let why = "a token without any scope is good for nothing; name some, or a `preset`";
        return Err(Invalid::new(Code::Malformed, "scopes", why).into());
    }
    let expires_in = new.expires_in.map(|period| period.0);
    if expires_in.is_some_and(Span::is_zero) {
        return Err(Invalid::new(Code::TimeRange, "expires_in", "`0s` is no time at all").into());
    }
    if list(engine).await?.iter().any(|token| token.name == name) {
        let what = format!("token `{name}`");
        return Err(crore::Error::Refused { what, why: "there is one of this name" }.into());
    }
    let now = engine.status().now();
    let (token, secret) = Token::mint(name, scopes, now, expires_in.map(|span| now.after(span)))?;
    engine.tokens().add(token.id.clone(), token.stored()).await?;
    Ok((token, secret))
}

/// All tokens, by name. What was stored by a later version and cannot be read is left out.
pub async fn list(engine: &Engine) -> Result<Vec<Token>, crore::Error> {
    let mut tokens: Vec<Token> = read(engine).await?.flatten().collect();
    tokens.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tokens)
}

/// Removes the token with this public part, or of this name, and says which it was.
pub async fn remove(engine: &Engine, which: &str) -> Result<Option<Token>, crore::Error> {
    let mut tokens = list(engine).await?;
    let by_id = tokens.iter().position(|token| token.id.as_str() == which);
    let by_name = || tokens.iter().position(|token| token.name.as_str() == which);
    let Some(place) = by_id.or_else(by_name) else { return Ok(None) };
    let token = tokens.swap_remove(place);
    engine.tokens().remove(token.id.clone()).await?;
    Ok(Some(token))
}

/// Whether there is any token, also one that has expired or is not understood.
pub async fn exist(engine: &Engine) -> Result<bool, crore::Error> {
    Ok(read(engine).await?.next().is_some())
}

async fn read(engine: &Engine) -> Result<impl Iterator<Item = Option<Token>>, crore::Error> {
    let entries = engine.tokens().list().await?.into_iter();
    Ok(entries.map(|entry| match &entry.value {
        Value::Token(stored) => Token::read(entry.name, stored),
        _ => None,
    }))
}

/// How old what is known may be. A change through another engine, here or on another node, holds after
/// this long at the latest; one through this server's own API at once.
const FRESH: Duration = Duration::from_secs(1);

/// What a door knows of the tokens.
#[derive(Debug)]
pub(super) struct Known {
    tokens: BTreeMap<Name, Arc<Token>>,
    /// Whether there is any, also one that is not understood.
    pub(super) any: bool,
    read_at: Instant,
}

impl Known {
    /// The token that was presented, if it is one of them and still valid.
    pub(super) fn find(&self, text: &str, now: crore_core::Time) -> Option<Arc<Token>> {
        let presented = Presented::read(text)?;
        let token = self.tokens.get(presented.id);
        let is_it = presented.is(token.map_or(&Hash::NONE, |token| token.hash()));
        token.filter(|token| is_it && token.is_valid(now)).cloned()
    }
}

/// The tokens in memory, read again when they are asked for and what is known is too old.
#[derive(Debug)]
pub(super) struct Tokens {
    engine: Engine,
    known: RwLock<Option<Arc<Known>>>,
    /// Whether they were changed here since they were read.
    is_changed: AtomicBool,
    /// Held by the one who reads them again.
    reading: tokio::sync::Mutex<()>,
}

impl Tokens {
    pub(super) fn new(engine: Engine) -> Self {
        let reading = tokio::sync::Mutex::default();
        Self { engine, known: RwLock::default(), is_changed: AtomicBool::new(false), reading }
    }

    /// What is known, and not too old. If the store has no answer, what was known before holds.
    pub(super) async fn known(&self) -> Result<Arc<Known>, crore::Error> {
        if let Some(known) = self.fresh() {
            return Ok(known);
        }
        let _reading = self.reading.lock().await;
        if let Some(known) = self.fresh() {
            return Ok(known);
        }
        // What changes while they are read may be missing.
        self.is_changed.store(false, Ordering::Release);
        let read_at = Instant::now();
        match read(&self.engine).await {
            Ok(tokens) => {
                let (mut any, mut by_id) = (false, BTreeMap::new());
                for token in tokens {
                    any = true;
                    by_id.extend(token.map(|token| (token.id.clone(), Arc::new(token))));
                }
                let known = Arc::new(Known { tokens: by_id, any, read_at });
                let mut last = self.known.write().unwrap_or_else(PoisonError::into_inner);
                *last = Some(Arc::clone(&known));
                Ok(known)
            }
            Err(error) => self.last().ok_or(error),
        }
    }

    /// They were changed here: whoever asks next reads them again.
    pub(super) fn changed(&self) {
        self.is_changed.store(true, Ordering::Release);
    }

    fn fresh(&self) -> Option<Arc<Known>> {
        let is_fresh = |known: &Arc<Known>| known.read_at.elapsed() < FRESH;
        self.last().filter(is_fresh).filter(|_| !self.is_changed.load(Ordering::Acquire))
    }

    fn last(&self) -> Option<Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
