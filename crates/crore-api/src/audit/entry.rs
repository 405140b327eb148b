//! One line of the audit log.

use axum::response::Response;
use crore_core::Time;
use crore_wire::api::act::ActOnAll;
use crore_wire::units::Moment;
use http::HeaderValue;
use serde::Serialize;

use super::Audit;
use crate::Fault;
use crate::access::{Caller, Identity, REQUEST_ID, random, redacted};
use crate::marks::START;
use crate::scope::Scope;
use crate::status::response_status;

/// Maximum characters of a path or a detail in an entry.
const MAX_CHARS: usize = 1000;

/// Details about a call for its audit entry; a handler puts them into the extensions of the response.
#[derive(Debug, Clone)]
pub struct AuditDetails(pub String);

impl AuditDetails {
    /// The details of a bulk action.
    pub fn bulk_action(request: &ActOnAll) -> Self {
        Self(serde_json::to_string(request).unwrap_or_default())
    }
}

/// An entry of the audit log.
#[derive(Debug, Clone, Serialize)]
pub struct AuditEntry {
    at: Moment,
    who: String,
    from: String,
    /// Method and path, without the query.
    call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<Scope>,
    /// Status of the response; `None` if the caller disconnected before there was one, so that the outcome is
    /// unknown.
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
    request: String,
}

impl AuditEntry {
    pub(crate) fn new(at: Time, caller: &Caller, who: &Identity, needs: Option<Scope>) -> Self {
        let path = redacted(caller.uri.path());
        let path: String = path.chars().take(MAX_CHARS).collect();
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

    /// The entry about a start of the server.
    pub(crate) fn start(at: Time, version: String) -> Self {
        Self {
            at: Moment(at),
            who: "server".to_owned(),
            from: String::new(),
            call: START.to_owned(),
            needs: None,
            status: Some(200),
            code: None,
            about: Some(version),
            request: request_id(None),
        }
    }

    /// Completes the entry with the response, and sets the request id of the response.
    pub fn with_response(mut self, response: &mut Response) -> Self {
        self.status = Some(response_status(response));
        let fault = response.extensions().get::<Fault>();
        self.code = fault.map(|fault| fault.problem().code.clone().into_owned());
        let about = response.extensions().get::<AuditDetails>();
        self.about =
            about.map(|AuditDetails(text)| redacted(text).chars().take(MAX_CHARS).collect());
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

/// The caller's request id if it is well-formed, or a new one.
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

/// Entry of a call in progress; dropping it writes the entry without a status.
#[derive(Debug)]
pub struct PendingEntry {
    audit: Audit,
    entry: Option<AuditEntry>,
}

impl PendingEntry {
    pub(crate) const fn new(audit: Audit, entry: AuditEntry) -> Self {
        Self { audit, entry: Some(entry) }
    }

    /// Writes the entry with the response.
    pub async fn complete(mut self, response: &mut Response) {
        if let Some(entry) = self.entry.take() {
            self.audit.record(&entry.with_response(response)).await;
        }
    }
}

impl Drop for PendingEntry {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.audit.record_soon(&entry);
        }
    }
}
