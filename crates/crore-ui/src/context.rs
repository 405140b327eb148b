//! The context of a page: the admitted caller, its preferences, and the frame around the content.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Redirect, Response};
use crore_api::access::Identity;
use crore_api::{Fault, Grant, Scope};
use crore_core::Time;
use http::request::Parts;
use maud::{Markup, html};

use crate::Ui;
use crate::html::flash::Flash;
use crate::html::layout::{self, PageFrame};
use crate::language::Language;
use crate::links::Links;
use crate::range::{ChartRange, TimeAxis};
use crate::text::Texts;
use crate::visitor::Visitor;

/// The response of a page. An error becomes a page in the middleware.
pub(crate) type PageResult = Result<Response, Fault>;

/// The context of a page for an admitted caller.
#[derive(Debug, Clone)]
pub(crate) struct PageContext {
    /// The caller's permissions.
    pub(crate) grant: Grant,
    /// Texts in the visitor's language.
    pub(crate) text: &'static Texts,
    /// Links.
    pub(crate) links: Links,
    /// The time of the request.
    pub(crate) now: Time,
    visitor: Visitor,
    csrf: String,
}

impl FromRequestParts<Ui> for PageContext {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<Self, Fault> {
        let grant = Grant::from_extensions(&parts.extensions)?;
        let visitor = parts.extensions.get::<Visitor>().cloned();
        let visitor = visitor.ok_or_else(|| Fault::missing("this page"))?;
        let csrf = ui.csrf().token(&form_owner(&grant, &visitor));
        let (text, links) = (visitor.language().texts(), visitor.links().clone());
        Ok(Self { grant, text, links, now: ui.api().now(), visitor, csrf })
    }
}

/// The caller to which the token of a form belongs: a session, or an identity that needs none.
pub(crate) fn form_owner(grant: &Grant, visitor: &Visitor) -> String {
    match (grant.who(), visitor.session()) {
        (Identity::Token { .. }, Some(id)) => format!("session {id}"),
        (who, _) => format!("caller {who}"),
    }
}

impl PageContext {
    /// Renders a page.
    pub(crate) fn page(&self, frame: &PageFrame<'_>, content: &Markup) -> Response {
        let flash = self.parameter("done").and_then(Flash::of_name);
        let content = html! {
            @if let Some(flash) = flash { (flash.message(self.text)) }
            (content)
        };
        layout::page(&self.visitor, Some(self), frame, &content).into_response()
    }

    /// Returns to a page, with a message about what was done.
    pub(crate) fn done(&self, flash: Flash, link: &str) -> Response {
        let mark = if link.contains('?') { '&' } else { '?' };
        Redirect::to(&format!("{link}{mark}done={}", flash.name())).into_response()
    }

    /// Whether the caller has a scope.
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.grant.has(scope)
    }

    /// The hidden field of every form.
    pub(crate) fn csrf(&self) -> Markup {
        html! { input type="hidden" name="csrf" value=(self.csrf); }
    }

    /// A parameter of the query.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.visitor.parameter(name)
    }

    /// All parameters of the query with this name.
    pub(crate) fn parameters(&self, name: &str) -> impl Iterator<Item = &str> {
        self.visitor.parameters(name)
    }

    /// The link to this page with a parameter replaced.
    pub(crate) fn here_with(&self, name: &str, value: &str) -> String {
        self.visitor.here_with(name, value)
    }

    /// The address of the server, as the visitor knows it.
    pub(crate) fn server_url(&self) -> String {
        self.visitor.server_url()
    }

    /// The language of the page.
    pub(crate) fn language(&self) -> Language {
        self.visitor.language()
    }

    /// The time range of charts.
    pub(crate) fn range(&self) -> ChartRange {
        self.visitor.range()
    }

    /// The time axis of charts.
    pub(crate) fn axis(&self) -> TimeAxis {
        TimeAxis::new(self.range(), self.now)
    }

    /// Whether the caller has logged in with a token, and so can log out.
    pub(crate) fn has_session(&self) -> bool {
        matches!(self.grant.who(), Identity::Token { .. }) && self.visitor.session().is_some()
    }
}
