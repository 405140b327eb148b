//! An admitted call: its caller, and the bytes that it holds in memory.

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use http::Extensions;
use http_body::Body as _;

use crate::Api;
use crate::access::Identity;
use crate::budget::{ByteAccount, ByteMeter, ConnectionBytes, FREE_BYTES};
use crate::revocation::RevocationWatch;

/// An admitted call, in the extensions of its request and of its response. Calls with a small body and a small
/// response have none.
#[derive(Debug)]
pub struct AdmittedCall {
    api: Api,
    who: Identity,
    account: ByteAccount,
    /// The charge for the request body, which lasts until the response.
    body: OnceLock<ByteMeter>,
}

impl AdmittedCall {
    pub(crate) fn new(api: &Api, who: &Identity, connection: ConnectionBytes) -> Arc<Self> {
        let account = api.budget().account(who, connection);
        Arc::new(Self { api: api.clone(), who: who.clone(), account, body: OnceLock::new() })
    }

    /// The admitted call of a request or a response.
    pub fn of(extensions: &Extensions) -> Option<&Arc<Self>> {
        extensions.get()
    }

    /// A meter for bytes of this call.
    pub fn meter(&self) -> ByteMeter {
        ByteMeter::new(self.account.clone())
    }

    /// Keeps the charge for the request body until the response.
    pub fn keep_body(&self, meter: ByteMeter) {
        // A call has one body.
        let _ = self.body.set(meter);
    }

    /// Watches the token of the caller; see [`RevocationWatch`].
    pub fn watch_token(&self, grace: bool) -> Option<RevocationWatch> {
        RevocationWatch::new(&self.api, &self.who, grace)
    }
}

/// Whether a body may become large.
pub(crate) fn may_be_large(body: &Body) -> bool {
    body.size_hint().upper().is_none_or(|upper| upper > FREE_BYTES as u64)
}
