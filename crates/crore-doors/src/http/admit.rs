//! The one function through which every call passes.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use super::fault::{Fault, in_format};
use super::wants::Wants;
use crate::access::{Caller, Denied, Who};
use crate::around::Next;
use crate::audit::{Entry, Pending};
use crate::journal;
use crate::scope::is_audited;
use crate::{Doors, Scope};

/// What a call has to pass.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) doors: Doors,
    /// What its caller has to be allowed.
    pub(crate) scope: Scope,
}

/// Admits a call, or says why not; whatever goes wrong behind it is said in the caller's encoding.
pub(super) async fn admit(gate: Gate, request: Request, next: Next) -> Response {
    let wants = match Wants::of(request.headers()) {
        Ok(wants) => wants,
        Err(fault) => return fault.into_response(),
    };
    in_format(wants.format_or_json(), gate.pass(request, next).await)
}

/// Admits a call that any scope is enough for.
pub(crate) async fn admit_any(doors: Doors, request: Request, next: Next) -> Response {
    let caller = Caller::of(&request);
    match doors.access().admit(&caller, None).await {
        Ok(who) => leave((who, None), next.run(request).await).await,
        Err(denied) => refuse(&doors, &caller, denied, None).await,
    }
}

/// Who was let in, and what is to be written of it.
type Entered = (Who, Option<Pending>);

impl Gate {
    /// Lets a call through if its caller may make it and the server takes it now. What is done to change
    /// something is written into the audit log, with what came of it, and so is who was refused.
    pub(crate) async fn pass(&self, request: Request, next: Next) -> Response {
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
    pub(crate) async fn pass_on(&self, request: Request, next: Next) -> Response {
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
        let Self { doors, scope } = self;
        let who = match doors.access().admit(caller, Some(*scope)).await {
            Ok(who) => who,
            Err(denied) => return Err(Box::pin(refuse(doors, caller, denied, Some(*scope))).await),
        };
        let pending = is_audited(*scope).then(|| {
            let entry = Entry::new(doors.engine().now(), caller, &who, Some(*scope));
            Pending::new(doors.audit().clone(), entry)
        });
        Ok((who, pending))
    }

    /// A server that ends takes nothing new; looking and reporting go on as long as they can.
    fn is_closed(&self) -> bool {
        !matches!(self.scope, Scope::Read | Scope::Work) && self.doors.engine().is_stopping()
    }
}

async fn leave((who, pending): Entered, mut response: Response) -> Response {
    journal::by(&mut response, &who);
    if let Some(pending) = pending {
        // In a box: few calls are audited, and the others need not have room for it.
        Box::pin(pending.answered(&mut response)).await;
    }
    response
}

async fn refuse(doors: &Doors, caller: &Caller, denied: Denied, needs: Option<Scope>) -> Response {
    let news = doors.access().is_news(caller, &denied);
    let who = denied.who();
    let mut response = denied.into_response();
    journal::by(&mut response, &who);
    if news {
        let entry = Entry::new(doors.engine().now(), caller, &who, needs);
        doors.audit().record(&entry.answered(&mut response)).await;
    }
    response
}
