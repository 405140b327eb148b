//! Notices when a token is revoked or expires while calls of its bearer are running.
//!
//! One task checks the tokens that running calls use. It ends when there are none.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use crore_core::{Code, Name};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::access::Identity;
use crate::{Api, Fault};

/// Interval of the checks. Changes by other processes are noticed one second later, the age of the cached tokens.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time that a call has to end by itself after its token was revoked.
const GRACE: Duration = Duration::from_millis(500);

/// The tokens of running calls.
#[derive(Debug, Default)]
pub(crate) struct Revocations(Mutex<WatchedTokens>);

#[derive(Debug, Default)]
struct WatchedTokens {
    tokens: HashMap<Name, Arc<WatchedToken>>,
    is_checking: bool,
}

#[derive(Debug)]
struct WatchedToken {
    /// The token was valid at this time.
    since: Instant,
    is_revoked: AtomicBool,
    revoked: Notify,
}

impl WatchedToken {
    fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Release);
        self.revoked.notify_waiters();
    }

    fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Acquire)
    }

    async fn revoked(&self) {
        let mut revoked = std::pin::pin!(self.revoked.notified());
        // Registered before the check, so that no revocation is missed between the two.
        revoked.as_mut().enable();
        if !self.is_revoked() {
            revoked.await;
        }
    }
}

impl Revocations {
    fn lock(&self) -> MutexGuard<'_, WatchedTokens> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a token that is valid now.
    fn watch(&self, api: &Api, id: &Name) -> Arc<WatchedToken> {
        let mut watched = self.lock();
        if let Some(token) = watched.tokens.get(id) {
            return Arc::clone(token);
        }
        let token = Arc::new(WatchedToken {
            since: Instant::now(),
            is_revoked: AtomicBool::new(false),
            revoked: Notify::new(),
        });
        watched.tokens.insert(id.clone(), Arc::clone(&token));
        if !std::mem::replace(&mut watched.is_checking, true) {
            let api = api.downgrade();
            tokio::spawn(async move {
                loop {
                    sleep_until(Instant::now() + CHECK_INTERVAL).await;
                    let Some(api) = api.upgrade() else { return };
                    if !api.check_watched_tokens().await {
                        return;
                    }
                }
            });
        }
        token
    }

    /// Removes tokens without a running call and those that are no longer valid. Returns whether any is left.
    fn remove(&self, read_at: Instant, is_valid: impl Fn(&Name) -> bool) -> bool {
        let mut watched = self.lock();
        watched.tokens.retain(|id, token| {
            // A token may be newer than the list.
            let is_revoked = token.since < read_at && !is_valid(id);
            if is_revoked {
                token.revoke();
            }
            !is_revoked && Arc::strong_count(token) > 1
        });
        watched.is_checking = !watched.tokens.is_empty();
        watched.is_checking
    }
}

impl Api {
    async fn check_watched_tokens(&self) -> bool {
        match self.access().valid_tokens().await {
            Ok((read_at, is_valid)) => self.revocations().remove(read_at, is_valid),
            // They are checked again.
            Err(_) => true,
        }
    }

    /// Completes [`GRACE`] after the caller's token was revoked or has expired; the call can end by itself until then.
    /// Never completes for callers without a token.
    pub(crate) async fn revoked(&self, who: &Identity) {
        let Identity::Token { id, .. } = who else { return std::future::pending().await };
        let token = self.revocations().watch(self, id);
        token.revoked().await;
        sleep_until(Instant::now() + GRACE).await;
    }
}

/// The error of a call whose token was revoked or has expired.
pub(crate) fn revoked_fault() -> Fault {
    Fault::new(Code::TokenNeeded, "the access token was revoked or has expired")
}

/// Watches the token of a stream.
pub struct RevocationWatch {
    token: Arc<WatchedToken>,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for RevocationWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.token.fmt(f)
    }
}

impl RevocationWatch {
    /// `None`: the caller has no token. With `grace`, the watch completes [`GRACE`] after the revocation; the stream
    /// can end by itself until then.
    pub(crate) fn new(api: &Api, who: &Identity, grace: bool) -> Option<Self> {
        let Identity::Token { id, .. } = who else { return None };
        let token = api.revocations().watch(api, id);
        let watched = Arc::clone(&token);
        let revoked = Box::pin(async move {
            watched.revoked().await;
            if grace {
                sleep_until(Instant::now() + GRACE).await;
            }
        });
        Some(Self { token, revoked })
    }

    /// Ready if the stream has to end. `is_busy`: the stream has something to do, and needs no wake-up; then this is
    /// one atomic read as long as the token is valid.
    pub fn poll(&mut self, context: &mut Context<'_>, is_busy: bool) -> Poll<Fault> {
        if is_busy && !self.token.is_revoked() {
            return Poll::Pending;
        }
        self.revoked.as_mut().poll(context).map(|()| revoked_fault())
    }
}
