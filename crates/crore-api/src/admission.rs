//! Admission: the middleware that every call passes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http_body::Body as _;

use crate::access::{AccessDenied, Caller, Grant};
use crate::admitted_call::{AdmittedCall, may_be_large};
use crate::audit::{AuditEntry, PendingEntry};
use crate::budget::ConnectionBytes;
use crate::fault::in_format;
use crate::guarded_body::{BodyEnd, GuardedBody};
use crate::metered_body::MeteredBody;
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
    /// The caller needs one of these scopes. The first one decides whether the call is audited.
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

/// Admits a gRPC call for which any scope is enough.
pub async fn admit_any_call(api: Api, request: Request, next: Next) -> Response {
    admit_with_any_scope(api, request, next, BodyContent::Messages).await
}

/// Admits a call for which any scope is enough.
pub async fn admit_any(api: Api, request: Request, next: Next) -> Response {
    admit_with_any_scope(api, request, next, BodyContent::Whole).await
}

async fn admit_with_any_scope(
    api: Api,
    request: Request,
    next: Next,
    body: BodyContent,
) -> Response {
    let caller = Caller::of(&request);
    match api.access().admit(&caller, &[]).await {
        Ok(grant) => run(&api, (grant, None), request, next, body).await,
        Err(denied) => refuse(&api, &caller, denied, None).await,
    }
}

/// Authenticates a caller that logs in with the text of a token. Logins and refusals are written to the audit log.
pub async fn log_in<B>(api: &Api, request: &http::Request<B>, text: &str) -> Result<Grant, Fault> {
    let caller = Caller::of(request);
    let now = api.engine().status().now();
    match api.access().log_in(&caller, text).await {
        Ok(grant) => {
            let entry = AuditEntry::new(now, &caller, grant.who(), None);
            api.audit().record(&entry.with_response(&mut Response::default())).await;
            Ok(grant)
        }
        Err(denied) => {
            let refused = refuse(api, &caller, denied, None).await;
            let unknown = || Fault::new(crore_core::Code::TokenNeeded, "the token is not valid");
            Err(refused.extensions().get::<Fault>().cloned().unwrap_or_else(unknown))
        }
    }
}

/// The admitted caller, and its pending audit entry.
type Admitted = (Grant, Option<PendingEntry>);

/// The content of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyContent {
    /// One value. Its bytes are charged to the budget until the response.
    Whole,
    /// Messages of gRPC. The door charges each of them, and guards the response.
    Messages,
}

impl Gate {
    /// Admits a call if its caller has the scope and the server is not shutting down. Changes and refusals are
    /// written to the audit log, with the response status.
    pub async fn pass(&self, request: Request, next: Next) -> Response {
        self.pass_unless_closed(request, next, BodyContent::Whole).await
    }

    /// Like [`Self::pass`], for gRPC: the [`AdmittedCall`] is in the extensions of request and response.
    pub async fn pass_call(&self, request: Request, next: Next) -> Response {
        self.pass_unless_closed(request, next, BodyContent::Messages).await
    }

    async fn pass_unless_closed(
        &self,
        request: Request,
        next: Next,
        body: BodyContent,
    ) -> Response {
        // `Caller` is dropped early, because the call may take long.
        let authorized = {
            let caller = Caller::of(&request);
            self.authorize(&caller).await
        };
        match authorized {
            Ok(admitted) if self.is_closed() => {
                complete(admitted, Fault::from(crore::Error::Stopping).into_response()).await
            }
            Ok(admitted) => run(&self.api, admitted, request, next, body).await,
            Err(refused) => refused,
        }
    }

    /// Like [`Self::pass`], but leaves the response during a shutdown to the door.
    pub async fn pass_while_stopping(&self, request: Request, next: Next) -> Response {
        let authorized = {
            let caller = Caller::of(&request);
            self.authorize(&caller).await
        };
        match authorized {
            Ok(admitted) => run(&self.api, admitted, request, next, BodyContent::Whole).await,
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

/// Runs an admitted call, until its response or the end of its caller's token.
async fn run(
    api: &Api,
    admitted: Admitted,
    mut request: Request,
    next: Next,
    content: BodyContent,
) -> Response {
    request.extensions_mut().insert(admitted.0.clone());
    let who = admitted.0.who();
    let connection = ConnectionBytes::of(request.extensions());
    let mut call = None;
    if may_be_large(request.body()) {
        let large = AdmittedCall::new(api, who, connection.clone());
        request.extensions_mut().insert(Arc::clone(&large));
        if content == BodyContent::Whole {
            request = request.map(|body| Body::new(MeteredBody::new(body, Arc::clone(&large))));
        }
        call = Some(large);
    }
    let response = tokio::select! {
        biased;
        response = next.run(request) => response,
        () = api.revoked(who) => AccessDenied::Unauthenticated.into_response(),
    };
    if !may_be_large(response.body()) {
        return complete(admitted, response).await;
    }
    let call = call.unwrap_or_else(|| AdmittedCall::new(api, who, connection));
    complete(admitted, guard(response, call, content)).await
}

/// Guards a response that may be large or a stream, or refuses it if it exceeds the budget.
fn guard(mut response: Response, call: Arc<AdmittedCall>, content: BodyContent) -> Response {
    if content == BodyContent::Messages {
        response.extensions_mut().insert(call);
        return response;
    }
    let charged = response.body().size_hint().exact().map(|bytes| {
        let mut meter = call.meter();
        meter.set(usize::try_from(bytes).unwrap_or(usize::MAX)).map(|()| meter)
    });
    let charged = match charged.transpose() {
        Ok(charged) => charged,
        Err(fault) => return fault.into_response(),
    };
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let end = match kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        true => BodyEnd::Event,
        false => BodyEnd::Abrupt,
    };
    response.map(|body| Body::new(GuardedBody::new(body, end, Some(call)).with_charge(charged)))
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
