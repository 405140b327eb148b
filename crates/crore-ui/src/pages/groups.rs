//! Groups: the list, and one group with a graph of its members.

use axum::extract::State;
use crore_api::Scope;
use crore_api::params::PathParam;
use crore_wire::api::Id;
use crore_wire::api::groups::{Group, GroupsQuery, ListedGroup};
use crore_wire::api::job::JobsQuery;
use maud::{Markup, html};

use super::group_graph::graph;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::empty;
use crate::html::flash::Flash;
use crate::html::format::{excerpt, grouped, number};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::dot;
use crate::text::fill;

/// Groups on a page.
const ROWS: usize = 100;
/// Members that are shown.
const MEMBERS: usize = 60;

/// The groups, newest first.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let cursor = cx.parameter("cursor").and_then(|text| text.parse::<Id>().ok());
    let which = GroupsQuery { cursor, limit: Some(ROWS) };
    let list = ui.api().list_groups(&cx.grant, which).await?;
    let content = html! {
        h1 { (text.groups) }
        @if list.groups.is_empty() {
            (empty::with_command(text, text.no_groups, "crore group new"))
        } @else {
            table.list data-live="groups" {
                thead { tr {
                    th { (text.group) } th { (text.state) } th { (text.progress) }
                    th.num { (text.members) } th.num { (text.members_ended) } th.num { (text.done) } th.num { (text.changed_at) }
                } }
                tbody { @for one in &list.groups { (row(&cx, one)) } }
            }
        }
        nav.pager aria-label=(text.pages) {
            @if cursor.is_some() { a.button href=(cx.here_with("cursor", "")) data-back { (text.newer) } }
            @if let Some(next) = list.next {
                a.button href=(cx.here_with("cursor", &next.to_string())) rel="next" { (text.older) }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Groups, text.groups), &content))
}

fn row(cx: &PageContext, listed: &ListedGroup) -> Markup {
    let group = &listed.group;
    html! {
        tr data-key=(group.id) {
            td.main.mono { a href=(cx.links.item("groups", &group.id.to_string())) { (group.id) } }
            td { (state(cx, group)) }
            td { (meter(group)) }
            td.num { (number(group.size)) }
            td.num { (number(group.ran)) }
            td.num { (number(group.succeeded)) }
            td.num { (cx.ago(listed.changed_at)) }
        }
    }
}

fn state(cx: &PageContext, group: &Group) -> Markup {
    let text = cx.text;
    match (group.lost, group.sealed, group.succeeded == group.size, group.ran == group.size) {
        (true, ..) => dot("dead", text.group_lost),
        (false, true, true, _) => dot("done", text.done),
        (false, true, false, true) => dot("dead", text.group_failed),
        (false, true, ..) => dot("running", text.group_sealed),
        (false, false, ..) => dot("scheduled", text.group_open),
    }
}

fn meter(group: &Group) -> Markup {
    html! { meter min="0" max=(group.size.max(1)) value=(group.succeeded) {} }
}

/// One group.
pub(crate) async fn one(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let text = cx.text;
    let id = id.group()?;
    let group = ui.api().get_group(&cx.grant, id).await?;
    let filter = format!("group:{id}");
    let which = JobsQuery { q: Some(filter.clone()), limit: Some(MEMBERS), ..JobsQuery::default() };
    let members = ui.api().list_jobs(&cx.grant, which).await?;
    let link = cx.links.item("groups", &id.to_string());
    let content = html! {
        div.title {
            h1 { (text.group) " " span.id { (id) } " " span.badge { (state(&cx, &group)) } }
            @if !group.sealed && (cx.may(Scope::Operate) || cx.may(Scope::Push)) {
                div.actions { a.button href=(format!("{link}/seal")) { (text.seal) } }
            }
        }
        dl.facts data-live="facts" {
            div { dt { (text.members) } dd { (number(group.size)) } }
            div { dt { (text.members_ended) } dd { (number(group.ran)) } }
            div { dt { (text.done) } dd { (number(group.succeeded)) } }
            div { dt { (text.progress) } dd { (meter(&group)) } }
        }
        section.panel data-live="graph" {
            h2 { (text.group_graph) a.all href=(cx.links.jobs(&filter)) { (text.jobs) } }
            @if members.jobs.is_empty() { (empty::plain(text.no_members)) } @else { (graph(&cx, &members.jobs)) }
            @if group.size > members.jobs.len() as u64 {
                p.hint { (fill(text.n_more, &[&grouped(group.size - members.jobs.len() as u64)])) }
            }
        }
        @if !members.jobs.is_empty() {
            table.list data-live="members" {
                thead { tr { th { (text.kind) } th.num { (text.id) } th { (text.state) } th { (text.queue) } th.num { (text.pushed) } } }
                tbody { @for job in &members.jobs {
                    tr data-key=(job.id) {
                        td.main { a href=(cx.links.job(job.id)) { (excerpt(job.spec.kind.as_str(), 50)) } }
                        td.num.mono { (job.id) }
                        td { (cx.state(job.live.state.into(), job.live.attempt)) }
                        td { (excerpt(job.spec.queue.as_str(), 40)) }
                        td.num { (cx.ago(job.live.pushed_at)) }
                    }
                } }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Groups, text.groups), &content))
}

/// Asks before a group is sealed.
pub(crate) async fn ask_seal(State(ui): State<Ui>, cx: PageContext, id: PathParam) -> PageResult {
    let id = id.group()?;
    let group = ui.api().get_group(&cx.grant, id).await?;
    let question = fill(cx.text.ask_seal, &[&id]);
    let link = cx.links.item("groups", &id.to_string());
    let texts = QuestionTexts {
        question: &question,
        detail: &fill(cx.text.seal_effect, &[&grouped(group.size)]),
        button: cx.text.seal,
    };
    let action = format!("{link}/seal");
    Ok(Confirmation::about(texts, &action, &link, false).page(&cx, NavItem::Groups))
}

/// Seals a group.
pub(crate) async fn seal(
    State(ui): State<Ui>,
    cx: PageContext,
    id: PathParam,
    _form: PostedForm,
) -> PageResult {
    let id = id.group()?;
    ui.api().seal_group(&cx.grant, id).await?;
    Ok(cx.done(Flash::Changed, &cx.links.item("groups", &id.to_string())))
}
