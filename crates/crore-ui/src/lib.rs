//! The Web UI: pages at `/ui/`, rendered on the server from the calls of [`Api`].
//!
//! A page is a client of the API: it calls the typed functions of `crore-api` with the caller's `Grant`, and never
//! names the engine or a store. Every page works as plain links and forms; the modules in `assets` add live updates,
//! keys and menus. There is no inline script or style: the Content-Security-Policy forbids both.
//!
//! To add a page:
//!
//! 1. Write `pages/NAME.rs` with `pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult`. It
//!    calls `ui.api()` with `&cx.grant`, and returns `cx.page(&PageFrame::new(NavItem::NAME, title), markup)`.
//! 2. Add its route, with the scope that it needs, to the table in `routes.rs`, and a `NavItem` to `html/rail.rs`.
//! 3. Take texts from `cx.text`: add a key to `text/mod.rs`, and its text to `text/en.rs` and `text/ja.rs`.
//! 4. Take links from `cx.links`, never from a literal: the server may be behind a path prefix.
//! 5. Show text of jobs with `visible`, numbers with `number`, durations with `span`, instants with `cx.ago`, states
//!    with `cx.state`; tables, charts, tiles, empty states and confirmations are in `html`.
//! 6. Mark what a live update may replace with `data-live="NAME"`, and the rows of a list with `data-key`.
//! 7. A button is a form with `cx.csrf()`; its handler takes a `PostedForm`, and ends with `cx.done(Flash::…, link)`.
//!    Show it only if `cx.may(scope)`. A destructive action has a page that asks first (`html/confirm.rs`).
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(test, expect(clippy::unwrap_used, reason = "tests may panic"))]

mod assets;
mod context;
mod cookies;
mod csrf;
mod form;
mod html;
mod language;
mod links;
mod live;
mod middleware;
mod pages;
mod range;
mod routes;
mod session;
mod text;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use crore_api::{Api, access};

use csrf::CsrfKey;
use live::LiveLoad;
use session::SessionTable;

/// The pages of an API, and the redirect of browsers from `/` to them.
pub fn router(api: &Api) -> Result<Router, access::Error> {
    let (sessions, csrf) = (SessionTable::default(), CsrfKey::new()?);
    let state = UiState { api: api.clone(), sessions, csrf, live_load: LiveLoad::default() };
    Ok(routes::router(&Ui(Arc::new(state))))
}

/// The state of the pages. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Ui(Arc<UiState>);

#[derive(Debug)]
struct UiState {
    api: Api,
    sessions: SessionTable,
    csrf: CsrfKey,
    live_load: LiveLoad,
}

impl FromRef<Ui> for Api {
    fn from_ref(ui: &Ui) -> Self {
        ui.api().clone()
    }
}

impl Ui {
    /// The API.
    pub(crate) fn api(&self) -> &Api {
        &self.0.api
    }

    /// The sessions of callers that have logged in.
    pub(crate) fn sessions(&self) -> &SessionTable {
        &self.0.sessions
    }

    /// The key of the tokens in forms.
    pub(crate) fn csrf(&self) -> &CsrfKey {
        &self.0.csrf
    }

    /// The pages that are open and updated live.
    pub(crate) fn live_load(&self) -> &LiveLoad {
        &self.0.live_load
    }
}
