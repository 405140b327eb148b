//! Access tokens: the list, a form that creates one, and revocation.

use axum::extract::State;
use axum::response::IntoResponse;
use crore_api::Fault;
use crore_api::params::PathParam;
use crore_wire::api::tokens::{NewToken, Preset, Token};
use crore_wire::units::Period;
use maud::{Markup, html};

use super::system::tabs;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::flash::{Flash, fault_message};
use crate::html::format::{excerpt, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::{copy, empty};
use crate::text::fill;

/// Tokens on the page.
const ROWS: usize = 500;

/// All tokens, by name.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let content = list(&ui, &cx, None).await?;
    Ok(cx.page(&PageFrame::still(NavItem::System, cx.text.tokens), &content))
}

async fn list(ui: &Ui, cx: &PageContext, fault: Option<&Fault>) -> Result<Markup, Fault> {
    let text = cx.text;
    let tokens = ui.api().list_tokens(&cx.grant).await?.tokens;
    Ok(html! {
        h1 { (text.system) }
        (tabs(cx, "system/tokens"))
        @if tokens.is_empty() { (empty::plain(text.no_tokens)) } @else {
            table.list {
                thead { tr {
                    th { (text.name) } th { (text.scopes) } th.wide-only { (text.restricted_to) }
                    th.num { (text.created) } th.num { (text.expires) } th { (text.action) }
                } }
                tbody { @for token in tokens.iter().take(ROWS) { (row(cx, token)) } }
            }
        }
        h2 { (text.new_token) }
        @if let Some(fault) = fault { (fault_message(fault)) }
        (form(cx))
    })
}

fn row(cx: &PageContext, token: &Token) -> Markup {
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    let only: Vec<&str> = token.queues.iter().chain(&token.kinds).map(String::as_str).collect();
    let revoke = format!("{}/revoke", cx.links.item("system/tokens", &token.id));
    html! {
        tr {
            td.main { (excerpt(&token.name, 50)) " " span.hint.mono { (token.id) } }
            td { (scopes.join(", ")) }
            td.wide-only { (excerpt(&only.join(", "), 60)) }
            td.num { (cx.ago(token.created_at)) }
            td.num { @if let Some(at) = token.expires_at { (cx.ago(at)) } @else { (cx.text.never) } }
            td { a.danger href=(revoke) { (cx.text.revoke) } }
        }
    }
}

fn form(cx: &PageContext) -> Markup {
    let text = cx.text;
    html! {
        form.fields method="post" action=(cx.links.to("system/tokens")) {
            (cx.csrf())
            label for="name" { (text.name) }
            input #name name="name" required maxlength="255" autocomplete="off";
            label for="preset" { (text.scopes) }
            select #preset name="preset" {
                @for preset in Preset::ALL { option value=(preset.as_str()) { (preset.as_str()) } }
            }
            label for="expires" { (text.expires_in) }
            input #expires name="expires" placeholder="90d";
            div.buttons { button.primary type="submit" { (text.new_token) } }
        }
    }
}

/// Creates a token, and shows its secret once.
pub(crate) async fn create(
    State(ui): State<Ui>,
    cx: PageContext,
    posted: PostedForm,
) -> PageResult {
    let text = cx.text;
    match new_token(&ui, &cx, &posted).await {
        Ok((name, secret)) => {
            let content = html! {
                h1 { (fill(text.token_created, &[&name])) }
                p { (text.token_once) }
                (copy::command(text, &secret))
                p { a.button href=(cx.links.to("system/tokens")) { (text.tokens) } }
            };
            Ok(cx.page(&PageFrame::still(NavItem::System, text.tokens), &content))
        }
        Err(fault) => {
            let content = list(&ui, &cx, Some(&fault)).await?;
            let page = cx.page(&PageFrame::still(NavItem::System, text.tokens), &content);
            Ok((crore_api::status(fault.code()), page).into_response())
        }
    }
}

async fn new_token(
    ui: &Ui,
    cx: &PageContext,
    posted: &PostedForm,
) -> Result<(String, String), Fault> {
    let request = NewToken {
        name: posted.text("name").unwrap_or_default().to_owned(),
        preset: posted.parsed::<Preset>("preset", "a set of scopes")?,
        scopes: Vec::new(),
        expires_in: posted.parsed::<Period>("expires", "a duration such as `90d`")?,
        queues: Vec::new(),
        kinds: Vec::new(),
    };
    let (_, secret) = ui.api().create_token(&cx.grant, &request).await?;
    Ok((request.name, secret.reveal().to_owned()))
}

/// Asks before a token is revoked.
pub(crate) async fn ask_revoke(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let tokens = ui.api().list_tokens(&cx.grant).await?.tokens;
    let token = tokens.into_iter().find(|token| token.id == id.text());
    let token = token.ok_or_else(|| Fault::missing("this token"))?;
    let question = fill(cx.text.ask_revoke, &[&token.name]);
    let texts = QuestionTexts {
        question: &question,
        detail: cx.text.revoke_effect,
        button: cx.text.revoke,
    };
    let action = format!("{}/revoke", cx.links.item("system/tokens", &token.id));
    let back = cx.links.to("system/tokens");
    let confirmation = Confirmation::about(texts, &action, &back, true);
    let content = html! { (confirmation.show(&cx)) p.hint { (visible(&token.id)) } };
    Ok(cx.page(&PageFrame::still(NavItem::System, &question), &content))
}

/// Revokes a token.
pub(crate) async fn revoke(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    ui.api().delete_token(&cx.grant, &id.name("id")?).await?;
    Ok(cx.done(Flash::Revoked, &cx.links.to("system/tokens")))
}
