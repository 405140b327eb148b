//! The permissions of an authenticated caller. This is the one place that decides; doors and calls ask it.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use crore_core::restriction::NamePattern;
use crore_core::{Code, Invalid, Name, OwnerId, Restriction, Spec};
use http::request::Parts;
use sha2::{Digest, Sha256};

use super::{Identity, Token};
use crate::Fault;
use crate::scope::{Scope, Scopes};

/// The permissions of an authenticated caller: its scopes, and the queues and kinds that they are restricted to. The
/// gate puts it into the extensions of each request. Clones share it.
#[derive(Debug, Clone)]
pub struct Grant(Arc<GrantState>);

#[derive(Debug)]
struct GrantState {
    who: Identity,
    scopes: Scopes,
    owner: Option<OwnerId>,
    only: Option<Arc<Restriction>>,
}

impl Grant {
    /// The grant of a caller in this process, which is as trusted as the server.
    pub fn full() -> Self {
        Self::unrestricted(Identity::Loopback, Scopes::all())
    }

    pub(super) fn unrestricted(who: Identity, scopes: Scopes) -> Self {
        let owner = owner(&who);
        Self(Arc::new(GrantState { who, scopes, owner, only: None }))
    }

    pub(super) fn of_token(token: &Token) -> Self {
        let who = Identity::Token { id: token.id.clone(), name: token.name.clone() };
        let only = (!token.only.is_none()).then(|| Arc::new(token.only.clone()));
        let owner = owner(&who);
        Self(Arc::new(GrantState { who, scopes: token.scopes, owner, only }))
    }

    /// The caller.
    pub fn who(&self) -> &Identity {
        &self.0.who
    }

    /// Whether the caller has a scope, for some jobs at least.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.scopes.has(scope)
    }

    pub(crate) fn scopes(&self) -> Scopes {
        self.0.scopes
    }

    /// Owner of the jobs and groups that this caller creates; `None`: the caller has no token and no certificate, and
    /// so full access.
    pub fn owner(&self) -> Option<OwnerId> {
        self.0.owner
    }

    /// The queues and kinds that the caller is restricted to; `None`: it is not restricted.
    pub fn only(&self) -> Option<&Arc<Restriction>> {
        self.0.only.as_ref()
    }

    /// Whether jobs of this queue and kind are within the restriction.
    pub fn covers(&self, queue: &Name, kind: &Name) -> bool {
        self.only().is_none_or(|only| only.covers(queue, kind))
    }

    /// Whether a job is within the restriction.
    pub fn covers_job(&self, spec: &Spec) -> bool {
        self.covers(&spec.queue, &spec.kind)
    }

    /// Whether the caller has a scope for jobs of this queue and kind; otherwise, why not.
    pub fn may(&self, scope: Scope, queue: &Name, kind: &Name) -> Result<(), Invalid> {
        if !self.has(scope) {
            let why = format!("jobs of kind `{kind}` in queue `{queue}` need the scope `{scope}`");
            return Err(Invalid::new(Code::ScopeMissing, "kind", why));
        }
        self.check(queue, kind)
    }

    /// Refuses a queue and kind outside the restriction.
    pub fn check(&self, queue: &Name, kind: &Name) -> Result<(), Invalid> {
        let Some(only) = self.only() else { return Ok(()) };
        check_queue(only, queue)?;
        check_kind(only, kind)
    }

    /// Refuses a job outside the restriction.
    pub fn check_job(&self, spec: &Spec) -> Result<(), Invalid> {
        self.check(&spec.queue, &spec.kind)
    }

    /// Refuses a queue outside the restriction.
    pub fn check_queue(&self, queue: &Name) -> Result<(), Invalid> {
        self.only().map_or(Ok(()), |only| check_queue(only, queue))
    }

    /// Refuses a kind outside the restriction.
    pub fn check_kind(&self, kind: &Name) -> Result<(), Invalid> {
        self.only().map_or(Ok(()), |only| check_kind(only, kind))
    }

    /// Refuses a call that affects all jobs of a queue if the caller is restricted to kinds.
    pub fn check_whole_queue(&self, queue: &Name) -> Result<(), Invalid> {
        let Some(only) = self.only() else { return Ok(()) };
        check_queue(only, queue)?;
        match only.kinds() {
            [] => Ok(()),
            kinds => {
                let why = format!(
                    "this call concerns all kinds in queue `{queue}`, and the token is restricted to kinds {}; it \
                     lacks the kind pattern `*`",
                    list(kinds)
                );
                Err(Invalid::new(Code::ScopeMissing, "kind", why))
            }
        }
    }

    /// Refuses a call that affects all jobs of a kind if the caller is restricted to queues.
    pub fn check_whole_kind(&self, kind: &Name) -> Result<(), Invalid> {
        let Some(only) = self.only() else { return Ok(()) };
        check_kind(only, kind)?;
        match only.queues() {
            [] => Ok(()),
            queues => {
                let why = format!(
                    "this call concerns kind `{kind}` in all queues, and the token is restricted to queues {}; it \
                     lacks the queue pattern `*`",
                    list(queues)
                );
                Err(Invalid::new(Code::ScopeMissing, "queue", why))
            }
        }
    }

    /// Refuses a call about `what`, which belongs to no queue and kind, if the caller is restricted.
    pub fn check_unrestricted(&self, what: &str) -> Result<(), Fault> {
        let Some(only) = self.only() else { return Ok(()) };
        let named = |name: &str, patterns: &[NamePattern]| {
            (!patterns.is_empty()).then(|| format!("{name} {}", list(patterns)))
        };
        let named = [named("queues", only.queues()), named("kinds", only.kinds())];
        let named: Vec<_> = named.into_iter().flatten().collect();
        let why = format!(
            "{what} belong to no queue and kind, and the token is restricted to {}; it lacks the pattern `*`",
            named.join(" and ")
        );
        Err(Fault::new(Code::ScopeMissing, why))
    }
}

fn check_queue(only: &Restriction, queue: &Name) -> Result<(), Invalid> {
    if only.covers_queue(queue) {
        return Ok(());
    }
    let patterns = list(only.queues());
    let why = format!(
        "queue `{queue}` is outside the token's restriction to queues {patterns}; it lacks a queue pattern such as \
         `{queue}`"
    );
    Err(Invalid::new(Code::ScopeMissing, "queue", why))
}

fn check_kind(only: &Restriction, kind: &Name) -> Result<(), Invalid> {
    if only.covers_kind(kind) {
        return Ok(());
    }
    let patterns = list(only.kinds());
    let why = format!(
        "kind `{kind}` is outside the token's restriction to kinds {patterns}; it lacks a kind pattern such as `{kind}`"
    );
    Err(Invalid::new(Code::ScopeMissing, "kind", why))
}

/// The patterns in backticks, separated by commas.
pub(crate) fn list(patterns: &[NamePattern]) -> String {
    patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ")
}

/// A fingerprint of the caller's name: a token that replaces another one under the same name owns the same jobs.
fn owner(who: &Identity) -> Option<OwnerId> {
    let digest = match who {
        Identity::Token { name, .. } => Sha256::digest(format!("token {name}")),
        Identity::Certificate(name) => Sha256::digest(format!("certificate {name}")),
        Identity::Loopback | Identity::Anyone | Identity::Unauthenticated => return None,
    };
    let first = digest.iter().take(8);
    Some(OwnerId(first.fold(0, |number, byte| number << 8 | u64::from(*byte))))
}

/// The grant that the gate has put there. A route without a gate has none, and is refused.
impl<S: Sync> FromRequestParts<S> for Grant {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        Self::from_extensions(&parts.extensions)
    }
}

impl Grant {
    /// The grant of a request.
    pub fn from_extensions(extensions: &http::Extensions) -> Result<Self, Fault> {
        let missing = || Fault::new(Code::TokenNeeded, "this call was not authenticated");
        extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a good name")
    }

    fn grant(queues: &[&str], kinds: &[&str]) -> Grant {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let only = Restriction::new(&owned(queues), &owned(kinds)).expect("good patterns");
        let who = Identity::Token { id: name("id"), name: name("app") };
        let scopes = [Scope::Push].into_iter().collect();
        let owner = owner(&who);
        let only = (!only.is_none()).then(|| Arc::new(only));
        Grant(Arc::new(GrantState { who, scopes, owner, only }))
    }

    fn refusal(result: Result<(), Invalid>) -> (Code, String, String) {
        let Invalid { code, field, message, .. } = result.expect_err("refused");
        (code, field, message)
    }

    #[test]
    fn a_refusal_names_the_queue_or_kind_and_the_pattern_that_is_missing() {
        let grant = grant(&["mail*", "news"], &["send*"]);
        assert_eq!(grant.may(Scope::Push, &name("mail"), &name("send")), Ok(()));
        let (code, field, message) = refusal(grant.may(Scope::Push, &name("sms"), &name("send")));
        assert_eq!((code, field.as_str()), (Code::ScopeMissing, "queue"));
        assert!(message.contains("`sms`") && message.contains("`mail*`, `news`"), "{message}");
        let (_, field, message) = refusal(grant.may(Scope::Push, &name("mail"), &name("resize")));
        assert_eq!(field, "kind");
        assert!(message.contains("`resize`") && message.contains("`send*`"), "{message}");
        let (_, _, message) = refusal(grant.may(Scope::Read, &name("mail"), &name("send")));
        assert!(message.contains("`read`"), "{message}");
    }

    #[test]
    fn what_concerns_a_whole_queue_or_kind_needs_a_token_that_the_other_does_not_restrict() {
        let (queues, kinds) = (grant(&["mail*"], &[]), grant(&[], &["send*"]));
        assert_eq!(queues.check_whole_queue(&name("mail")), Ok(()));
        assert_eq!(kinds.check_whole_kind(&name("send")), Ok(()));
        assert_eq!(refusal(queues.check_whole_kind(&name("send"))).1, "queue");
        assert_eq!(refusal(kinds.check_whole_queue(&name("mail"))).1, "kind");
        assert_eq!(refusal(queues.check_whole_queue(&name("sms"))).1, "queue");
        assert!(queues.check_unrestricted("limits").is_err());
        assert!(grant(&["*"], &[]).check_unrestricted("limits").is_ok());
    }

    #[test]
    fn owners_are_distinguished_by_their_names_and_callers_without_one_own_nothing() {
        let of = |who: Identity| Grant::unrestricted(who, Scopes::all()).owner();
        let token = |id: &str, text: &str| of(Identity::Token { id: name(id), name: name(text) });
        assert_eq!(token("1", "app"), token("2", "app"), "a replaced token owns the same jobs");
        assert_ne!(token("1", "app"), token("1", "other"));
        assert_ne!(token("1", "app"), of(Identity::Certificate("app".into())));
        assert_eq!(of(Identity::Loopback), None);
        // Stored with jobs: it must never change.
        assert_eq!(token("1", "app"), Some(OwnerId(0xe8e5_1439_a48e_56a0)));
    }
}
