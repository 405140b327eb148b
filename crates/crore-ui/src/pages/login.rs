//! Login with a token, and logout.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use crore_api::access::Identity;
use crore_api::admission;
use crore_api::body::collect;
use crore_api::{Fault, status};
use crore_core::Code;
use maud::html;

use crate::Ui;
use crate::context::PageResult;
use crate::html::copy::command;
use crate::html::format::visible;
use crate::html::layout::{self, PageFrame};
use crate::visitor::Visitor;

/// The login form.
pub(crate) async fn page(State(ui): State<Ui>, request: Request) -> PageResult {
    let visitor = visitor(&request)?;
    if !ui.api().access().needs_token().await {
        return Ok(Redirect::to(&visitor.links().root()).into_response());
    }
    Ok(form(&visitor, None))
}

/// Opens a session, if the token is valid.
pub(crate) async fn log_in(State(ui): State<Ui>, request: Request) -> PageResult {
    let visitor = visitor(&request)?;
    let (parts, body) = request.into_parts();
    let bytes = collect(body, ui.api()).await?;
    let request = Request::from_parts(parts, ());
    let field = |name: &str| {
        let mut fields = form_urlencoded::parse(&bytes);
        fields.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    let grant = match admission::log_in(ui.api(), &request, &field("token")).await {
        Ok(grant) => grant,
        Err(fault) if fault.code() == Code::TokenNeeded => return Ok(form(&visitor, Some(&fault))),
        Err(fault) => return Err(fault),
    };
    let Identity::Token { id, .. } = grant.who() else {
        return Err(Fault::new(Code::TokenNeeded, "the token is not valid"));
    };
    // A session of this browser that is still open ends, so that its id is not reused.
    if let Some(old) = visitor.session() {
        ui.sessions().close(old);
    }
    let session = ui.sessions().open(id.clone(), ui.api().now())?;
    let mut response = Redirect::to(&target(&visitor, &field("page"))).into_response();
    let root = visitor.links().root();
    visitor.cookie_scope(&root).set_session(response.headers_mut(), Some(&session));
    Ok(response)
}

/// Ends the session. It needs no form token: its worst effect is another login.
pub(crate) async fn log_out(State(ui): State<Ui>, request: Request) -> PageResult {
    let visitor = visitor(&request)?;
    if let Some(id) = visitor.session() {
        ui.sessions().close(id);
    }
    let mut response = Redirect::to(&visitor.links().to("login")).into_response();
    let root = visitor.links().root();
    visitor.cookie_scope(&root).set_session(response.headers_mut(), None);
    Ok(response)
}

/// The page to open after the login; a path below `/ui/` only.
fn target(visitor: &Visitor, page: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
    let path = page.split('?').next().unwrap_or_default();
    match page.bytes().all(is_plain) && !path.starts_with('/') && !path.contains("..") {
        true => visitor.links().to(page),
        false => visitor.links().root(),
    }
}

fn form(visitor: &Visitor, fault: Option<&Fault>) -> Response {
    let (text, links) = (visitor.language().texts(), visitor.links());
    let content = html! {
        section.login {
            h1 { "crore" }
            @if fault.is_some() { p.flash.bad role="alert" { (visible(text.token_invalid)) } }
            form method="post" action=(links.to("login")) {
                label for="token" { (text.token) }
                input #token type="password" name="token" autocomplete="current-password" required
                    autofocus spellcheck="false";
                input type="hidden" name="page" value=(visitor.parameter("page").unwrap_or_default());
                button.primary type="submit" { (text.log_in) }
            }
            p.hint { (text.token_hint) }
            (command(text, "crore token create me --preset admin"))
        }
    };
    let page = layout::page(visitor, None, &PageFrame::bare(text.log_in), &content);
    match fault {
        Some(fault) => (status(fault.code()), page).into_response(),
        None => page.into_response(),
    }
}

fn visitor<B>(request: &http::Request<B>) -> Result<Visitor, Fault> {
    request.extensions().get().cloned().ok_or_else(|| Fault::missing("this page"))
}
