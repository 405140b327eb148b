//! Errors: what happened, and what to do.

use axum::response::{Html, IntoResponse, Response};
use crore_api::{Fault, status};
use crore_core::Code;
use maud::{DOCTYPE, Markup, html};

use crate::html::api_text::english;
use crate::html::format::visible;
use crate::html::layout::{self, PageFrame};
use crate::text::Texts;
use crate::visitor::Visitor;

/// The page of an error.
pub(crate) fn page(visitor: &Visitor, fault: &Fault) -> Response {
    let (text, problem) = (visitor.language().texts(), fault.problem());
    let content = html! {
        section.problem {
            p.code { (problem.status) " · " (problem.code) }
            h1 { (title(text, fault)) }
            p { (english(&problem.detail)) }
            @if let Some(field) = &problem.field { p { (text.field) ": " code { (visible(field)) } } }
            p { (advice(text, fault)) }
            div.buttons {
                @if let Some((above, _)) = visitor.page().split('?').next().and_then(|page| page.rsplit_once('/')) {
                    a.button href=(visitor.links().to(above)) { (text.back) }
                }
                a.button href=(visitor.links().root()) { (text.to_overview) }
            }
        }
    };
    let page = layout::page(visitor, None, &PageFrame::apart(&problem.title), &content);
    let mut response = (status(fault.code()), page).into_response();
    response.extensions_mut().insert(fault.clone());
    response
}

fn title<'a>(text: &'a Texts, fault: &'a Fault) -> &'a str {
    match fault.code() {
        Code::NotFound => text.not_found,
        Code::ScopeMissing => text.not_allowed,
        Code::TokenNeeded => text.session_over,
        _ => &fault.problem().title,
    }
}

/// The next step for a person.
fn advice(text: &Texts, fault: &Fault) -> &'static str {
    match fault.code() {
        Code::NotFound => text.advice_not_found,
        Code::ScopeMissing => text.advice_scope,
        Code::TokenNeeded => text.advice_login,
        Code::CrossSite => text.advice_form,
        Code::TooMany | Code::Unavailable | Code::Stopping => text.advice_retry,
        _ => text.advice_back,
    }
}

/// A page that opens itself again, as a request of this site.
pub(crate) fn reload(visitor: &Visitor) -> Response {
    let page: Markup = html! {
        (DOCTYPE)
        html lang=(visitor.language().code()) {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content="0";
                title { "crore" }
            }
            body { p { a href="" { (visitor.language().texts().continue_here) } } }
        }
    };
    Html(page.into_string()).into_response()
}
