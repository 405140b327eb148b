//! Admission: the middleware that every call passes.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::access::{AccessDenied, Caller, Grant};
use crate::audit::{AuditEntry, PendingEntry};
use crate::fault::in_format;
use crate::middleware::Next;
use crate::negotiation::Accept;
use crate::request_log;
use crate::scope::is_audited;
use crate::{Api, Fault, Scope};

/// Admission rule of a call.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The API.
    pub api: Api,
    /// The scopes of which the caller needs one. The first one decides whether the call is audited.
    pub scopes: &'static [Scope],
}

/// Admits or refuses a call; errors are encoded in the format that the caller accepts.
pub async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    let accept = match Accept::of(request.headers()) {
        Ok(accept) => accept,
        Err(fault) => return fault.into_response(),
    };
    in_format(accept.format_or_json(), gate.pass(request, next).await)
}

/// Admits a call for which any scope is enough.
pub async fn admit_any(api: Api, request: Request, next: Next) -> Response {
    let caller = Caller::of(&request);
    match api.access().admit(&caller, &[]).await {
        Ok(grant) => complete((grant, None), next.run(request).await).await,
        Err(denied) => refuse(&api, &caller, denied, None).await,
    }
}

/// The admitted caller, and its pending audit entry.
type Admitted = (Grant, Option<PendingEntry>);

impl Gate {
    /// Admits a call if its caller has the scope and the server is not shutting down. Changes and refusals are
    /// written to the audit log, with the response status.
    pub async fn pass(&self, mut request: Request, next: Next) -> Response {
        // `Caller` is dropped early, because the call may take long.
        let authorized = {
            let caller = Caller::of(&request);
            self.authorize(&caller).await
        };
        match authorized {
            Ok(admitted) if self.is_closed() => {
                complete(admitted, Fault::from(crore::Error::Stopping).into_response()).await
            }
            Ok(admitted) => {
                request.extensions_mut().insert(admitted.0.clone());
                complete(admitted, next.run(request).await).await
            }
            Err(refused) => refused,
        }
    }

    /// Like [`Self::pass`], but leaves the response during a shutdown to the door.
    pub async fn pass_while_stopping(&self, mut request: Request, next: Next) -> Response {
        let authorized = {
            let caller = Caller::of(&request);
            self.authorize(&caller).await
        };
        match authorized {
            Ok(admitted) => {
                request.extensions_mut().insert(admitted.0.clone());
                complete(admitted, next.run(request).await).await
            }
            Err(refused) => refused,
        }
    }

    /// Authenticates the caller, and prepares the audit entry.
    async fn authorize(&self, caller: &Caller) -> Result<Admitted, Response> {
        let Self { api, scopes } = self;
        let grant = match api.access().admit(caller, scopes).await {
            Ok(grant) => grant,
            Err(denied) => return Err(Box::pin(refuse(api, caller, denied, self.scope())).await),
        };
        let pending = self.scope().filter(|scope| is_audited(*scope)).map(|scope| {
            let now = api.engine().status().now();
            let entry = AuditEntry::new(now, caller, grant.who(), Some(scope));
            PendingEntry::new(api.audit().clone(), entry)
        });
        Ok((grant, pending))
    }

    /// Whether a shutdown refuses this call: reads and reports are still allowed.
    fn is_closed(&self) -> bool {
        !matches!(self.scope(), Some(Scope::Read | Scope::Work))
            && self.api.engine().lifecycle().is_stopping()
    }

    /// The first of the scopes.
    fn scope(&self) -> Option<Scope> {
        self.scopes.first().copied()
    }
}

async fn complete((grant, pending): Admitted, mut response: Response) -> Response {
    request_log::set_caller(&mut response, grant.who());
    if let Some(pending) = pending {
        // Boxed: few calls are audited, and the others need no space for this future.
        Box::pin(pending.complete(&mut response)).await;
    }
    response
}

async fn refuse(
    api: &Api,
    caller: &Caller,
    denied: AccessDenied,
    needs: Option<Scope>,
) -> Response {
    let should_audit = api.access().should_audit(caller, &denied);
    let who = denied.who();
    let mut response = denied.into_response();
    request_log::set_caller(&mut response, &who);
    if should_audit {
        let entry = AuditEntry::new(api.engine().status().now(), caller, &who, needs);
        api.audit().record(&entry.with_response(&mut response)).await;
    }
    response
}
