//! The one function through which every call passes.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use crate::access::{Caller, Denied, Who};
use crate::audit::{Entry, Pending};
use crate::fault::in_format;
use crate::middleware::Next;
use crate::negotiation::Accept;
use crate::request_log;
use crate::scope::is_audited;
use crate::{Api, Fault, Scope};

/// What a call has to pass.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The API.
    pub api: Api,
    /// What its caller has to be allowed.
    pub scope: Scope,
}

/// Admits a call, or says why not; whatever goes wrong behind it is said in the caller's encoding.
pub async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    let accept = match Accept::of(request.headers()) {
        Ok(accept) => accept,
        Err(fault) => return fault.into_response(),
    };
    in_format(accept.format_or_json(), gate.pass(request, next).await)
}

/// Admits a call that any scope is enough for.
pub async fn admit_any(api: Api, request: Request, next: Next) -> Response {
    let caller = Caller::of(&request);
    match api.access().admit(&caller, None).await {
        Ok(who) => leave((who, None), next.run(request).await).await,
        Err(denied) => refuse(&api, &caller, denied, None).await,
    }
}

/// Who was let in, and what is to be written of it.
type Entered = (Who, Option<Pending>);

impl Gate {
    /// Lets a call through if its caller may make it and the server takes it now. What is done to change
    /// something is written into the audit log, with what came of it, and so is who was refused.
    pub async fn pass(&self, request: Request, next: Next) -> Response {
        // What is known of the caller is not kept: the call may take long.
        let entered = {
            let caller = Caller::of(&request);
            self.enter(&caller).await
        };
        match entered {
            Ok(admitted) if self.is_closed() => {
                leave(admitted, Fault::from(crore::Error::Stopping).into_response()).await
            }
            Ok(admitted) => leave(admitted, next.run(request).await).await,
            Err(refused) => refused,
        }
    }

    /// The same for a door that has its own words for a server that ends.
    pub async fn pass_on(&self, request: Request, next: Next) -> Response {
        let entered = {
            let caller = Caller::of(&request);
            self.enter(&caller).await
        };
        match entered {
            Ok(admitted) => leave(admitted, next.run(request).await).await,
            Err(refused) => refused,
        }
    }

    /// Who the caller is, if he may make this call, and the entry in the audit log that its answer completes.
    async fn enter(&self, caller: &Caller) -> Result<Entered, Response> {
        let Self { api, scope } = self;
        let who = match api.access().admit(caller, Some(*scope)).await {
            Ok(who) => who,
            Err(denied) => return Err(Box::pin(refuse(api, caller, denied, Some(*scope))).await),
        };
        let pending = is_audited(*scope).then(|| {
            let entry = Entry::new(api.engine().status().now(), caller, &who, Some(*scope));
            Pending::new(api.audit().clone(), entry)
        });
        Ok((who, pending))
    }

    /// A server that ends takes nothing new; looking and reporting go on as long as they can.
    fn is_closed(&self) -> bool {
        !matches!(self.scope, Scope::Read | Scope::Work)
            && self.api.engine().lifecycle().is_stopping()
    }
}

async fn leave((who, pending): Entered, mut response: Response) -> Response {
    request_log::by(&mut response, &who);
    if let Some(pending) = pending {
        // In a box: few calls are audited, and the others need not have room for it.
        Box::pin(pending.answered(&mut response)).await;
    }
    response
}

async fn refuse(api: &Api, caller: &Caller, denied: Denied, needs: Option<Scope>) -> Response {
    let news = api.access().is_news(caller, &denied);
    let who = denied.who();
    let mut response = denied.into_response();
    request_log::by(&mut response, &who);
    if news {
        let entry = Entry::new(api.engine().status().now(), caller, &who, needs);
        api.audit().record(&entry.answered(&mut response)).await;
    }
    response
}
