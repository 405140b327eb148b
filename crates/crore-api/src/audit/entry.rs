//! One line of the audit log.

use axum::response::Response;
use crore_core::Time;
use crore_wire::api::act::ActOnAll;
use crore_wire::words::Moment;
use http::HeaderValue;
use serde::Serialize;

use super::Audit;
use crate::Fault;
use crate::access::{Caller, REQUEST_ID, Who, random, redacted};
use crate::scope::Scope;
use crate::status::answered;

/// How many characters of an address, or of what a handler says, are written.
const LONGEST: usize = 1000;

/// What a handler has to say about a call, for its line: put into the response.
#[derive(Debug, Clone)]
pub struct About(pub String);

impl About {
    /// A bulk act.
    pub fn many(ask: &ActOnAll) -> Self {
        Self(serde_json::to_string(ask).unwrap_or_default())
    }
}

/// Who did what, from where, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    at: Moment,
    who: String,
    from: String,
    /// The method and the path, without what stands behind a question mark.
    call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<Scope>,
    /// The status of the answer; none if the caller left before there was one, and it is open what
    /// came of it.
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    request: String,
}

impl Entry {
    pub(crate) fn new(at: Time, caller: &Caller, who: &Who, needs: Option<Scope>) -> Self {
        let path = redacted(caller.uri.path());
        let path: String = path.chars().take(LONGEST).collect();
        Self {
            at: Moment(at),
            who: who.to_string(),
            from: caller.address(),
            call: format!("{} {path}", caller.method),
            needs,
            status: None,
            code: None,
            about: None,
            request: request_id(caller.request_id.as_ref()),
        }
    }

    /// The same, with what was answered; and the answer, with the id by which the entry is found.
    pub fn answered(mut self, response: &mut Response) -> Self {
        self.status = Some(answered(response));
        let fault = response.extensions().get::<Fault>();
        self.code = fault.map(|fault| fault.problem().code.clone().into_owned());
        let about = response.extensions().get::<About>();
        self.about = about.map(|About(text)| redacted(text).chars().take(LONGEST).collect());
        if let Ok(id) = HeaderValue::from_str(&self.request) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        self
    }

    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The id that the caller gave, if it is a plain one, or a new one.
fn request_id(given: Option<&HeaderValue>) -> String {
    let is_plain = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=64).contains(&id.len()) && id.bytes().all(plain)
    };
    match given.and_then(|id| id.to_str().ok()).filter(is_plain) {
        Some(id) => redacted(id),
        None => random::<16>().unwrap_or_default(),
    }
}

/// An entry about a call that is under way: it is written even if the caller leaves.
#[derive(Debug)]
pub struct Pending {
    audit: Audit,
    entry: Option<Entry>,
}

impl Pending {
    pub(crate) const fn new(audit: Audit, entry: Entry) -> Self {
        Self { audit, entry: Some(entry) }
    }

    /// The call is answered.
    pub async fn answered(mut self, response: &mut Response) {
        if let Some(entry) = self.entry.take() {
            self.audit.record(&entry.answered(response)).await;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.audit.record_soon(&entry);
        }
    }
}
