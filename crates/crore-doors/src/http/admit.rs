//! The one function through which every call passes.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::fault::{Fault, in_format};
use super::wants::Wants;
use crate::access::{Caller, Denied};
use crate::audit::{Entry, Pending};
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
pub(super) async fn admit(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let wants = match Wants::of(request.headers()) {
        Ok(wants) => wants,
        Err(fault) => return fault.into_response(),
    };
    in_format(wants.format_or_json(), gate.pass(request, next).await)
}

/// Admits a call that any scope is enough for.
pub(crate) async fn admit_any(
    State(doors): State<Doors>,
    request: Request,
    next: Next,
) -> Response {
    let caller = Caller::of(&request);
    match doors.access().admit(&caller, None).await {
        Ok(_) => next.run(request).await,
        Err(denied) => refuse(&doors, &caller, denied, None).await,
    }
}

impl Gate {
    /// Lets a call through if its caller may make it and the server takes it now. What is done to change
    /// something is written into the audit log, with what came of it, and so is who was refused.
    pub(crate) async fn pass(&self, request: Request, next: Next) -> Response {
        match self.enter(&Caller::of(&request)).await {
            Ok(pending) => leave(pending, self.serve(request, next).await).await,
            Err(refused) => refused,
        }
    }

    /// The same for a door that has its own words for a server that ends.
    pub(crate) async fn pass_on(&self, request: Request, next: Next) -> Response {
        match self.enter(&Caller::of(&request)).await {
            Ok(pending) => leave(pending, next.run(request).await).await,
            Err(refused) => refused,
        }
    }

    /// Whether a caller may make this call, and the entry in the audit log that its answer completes.
    async fn enter(&self, caller: &Caller) -> Result<Option<Pending>, Response> {
        let Self { doors, scope } = self;
        let who = match doors.access().admit(caller, Some(*scope)).await {
            Ok(who) => who,
            Err(denied) => return Err(refuse(doors, caller, denied, Some(*scope)).await),
        };
        Ok(is_audited(*scope).then(|| {
            let entry = Entry::new(doors.engine().now(), caller, &who, Some(*scope));
            Pending::new(doors.audit().clone(), entry)
        }))
    }

    async fn serve(&self, request: Request, next: Next) -> Response {
        match (self.scope, self.doors.engine().is_stopping()) {
            // A server that ends takes nothing new; looking and reporting go on as long as they can.
            (Scope::Push | Scope::Operate | Scope::Define | Scope::Admin, true) => {
                Fault::from(crore::Error::Stopping).into_response()
            }
            _ => next.run(request).await,
        }
    }
}

async fn leave(pending: Option<Pending>, mut response: Response) -> Response {
    if let Some(pending) = pending {
        pending.answered(&mut response).await;
    }
    response
}

async fn refuse(doors: &Doors, caller: &Caller, denied: Denied, needs: Option<Scope>) -> Response {
    let news = doors.access().is_news(caller, &denied);
    let who = denied.who();
    let mut response = denied.into_response();
    if news {
        let entry = Entry::new(doors.engine().now(), caller, &who, needs);
        doors.audit().record(&entry.answered(&mut response)).await;
    }
    response
}
