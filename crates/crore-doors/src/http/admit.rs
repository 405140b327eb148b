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
pub(super) async fn admit_any(
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
        let Self { doors, scope } = self;
        let caller = Caller::of(&request);
        let who = match doors.access().admit(&caller, Some(*scope)).await {
            Ok(who) => who,
            Err(denied) => return refuse(doors, &caller, denied, Some(*scope)).await,
        };
        if !is_audited(*scope) {
            return self.serve(request, next).await;
        }
        let entry = Entry::new(doors.engine().now(), &caller, &who, Some(*scope));
        let pending = Pending::new(doors.audit().clone(), entry);
        let mut response = self.serve(request, next).await;
        pending.answered(&mut response).await;
        response
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
