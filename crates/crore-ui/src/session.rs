//! Sessions of callers that have logged in with a token.
//!
//! A session is a random id in a cookie, and the id of the token here. The token itself is not kept: its grant is looked
//! up on each request, so a session ends with its token. Sessions are in memory, and end with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_api::access::{self, random};
use crore_core::{Name, Span, Time};

/// A session without requests ends after this time. Live updates do not count as requests.
pub(crate) const MAX_IDLE: Span = Span::from_secs(30 * 60);
/// Every session ends after this time.
pub(crate) const MAX_AGE: Span = Span::from_secs(8 * 60 * 60);
/// Maximum number of sessions; the one that was idle longest ends.
const MAX_SESSIONS: usize = 1000;
/// Length of a session id: 256 bits.
const ID_CHARS: usize = 43;

/// The open sessions, by their ids.
#[derive(Debug, Default)]
pub(crate) struct SessionTable(Mutex<BTreeMap<String, UiSession>>);

#[derive(Debug, Clone)]
struct UiSession {
    token: Name,
    since: Time,
    used_at: Time,
}

impl UiSession {
    fn is_open(&self, now: Time) -> bool {
        now.since(self.since) < MAX_AGE && now.since(self.used_at) < MAX_IDLE
    }
}

impl SessionTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, UiSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session for the bearer of a token, and returns its id.
    pub(crate) fn open(&self, token: Name, now: Time) -> Result<String, access::Error> {
        let id = random::<ID_CHARS>()?;
        let mut sessions = self.lock();
        sessions.retain(|_, session| session.is_open(now));
        if sessions.len() >= MAX_SESSIONS {
            let idle = sessions.iter().min_by_key(|(_, session)| session.used_at);
            let idle = idle.map(|(id, _)| id.clone());
            idle.and_then(|id| sessions.remove(&id));
        }
        sessions.insert(id.clone(), UiSession { token, since: now, used_at: now });
        Ok(id)
    }

    /// The token of a session, if the session is open. A request of a person keeps it open.
    pub(crate) fn token(&self, id: &str, now: Time, is_by_person: bool) -> Option<Name> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(id)?;
        if !session.is_open(now) {
            sessions.remove(id);
            return None;
        }
        if is_by_person {
            session.used_at = now;
        }
        Some(session.token.clone())
    }

    /// Ends a session.
    pub(crate) fn close(&self, id: &str) {
        self.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO.after(Span::from_secs(seconds))
    }

    #[test]
    fn a_session_ends_when_it_is_idle_too_old_or_closed() {
        let (table, token) = (SessionTable::default(), Name::new("id", "t").unwrap());
        let id = table.open(token.clone(), at(0)).unwrap();
        assert_eq!(table.token(&id, at(1799), true), Some(token.clone()));
        assert_eq!(table.token(&id, at(3000), false), Some(token.clone()));
        assert_eq!(table.token(&id, at(3599), false), None, "live updates keep no session open");
        let id = table.open(token.clone(), at(0)).unwrap();
        for n in 1..24 {
            assert!(table.token(&id, at(n * 1200), true).is_some());
        }
        assert_eq!(table.token(&id, at(24 * 1200), true), None);
        let id = table.open(token, at(0)).unwrap();
        table.close(&id);
        assert_eq!(table.token(&id, at(1), true), None);
        assert_eq!(table.token("", at(1), true), None);
    }

    #[test]
    fn the_session_that_was_idle_longest_makes_room() {
        let (table, token) = (SessionTable::default(), Name::new("id", "t").unwrap());
        let first = table.open(token.clone(), at(0)).unwrap();
        let second = table.open(token.clone(), at(0)).unwrap();
        table.token(&first, at(5), true);
        for _ in 2..=MAX_SESSIONS {
            table.open(token.clone(), at(9)).unwrap();
        }
        assert!(table.token(&first, at(9), true).is_some());
        assert!(table.token(&second, at(9), true).is_none());
    }
}
