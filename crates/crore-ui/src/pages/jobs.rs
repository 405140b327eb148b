//! The list of jobs: one list for all states, with the filter of the API.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use crore_api::{Fault, Scope};
use crore_core::Job;
use crore_wire::Format;
use crore_wire::api::Problem;
use crore_wire::api::complete::CompleteQuery;
use crore_wire::api::enums;
use crore_wire::api::job::{self as wire, JobView, JobsQuery};
use http::header::CONTENT_TYPE;
use maud::{Markup, html};

use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::api_text::english;
use crate::html::empty;
use crate::html::format::{excerpt, number, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::{self, STATES};
use crate::text::fill;

/// Jobs on a page.
const ROWS: usize = 50;

/// The filter of the page.
struct ListFilter<'a> {
    q: &'a str,
    state: Option<enums::State>,
}

/// The list of jobs that match a filter. A search that finds exactly one job opens it.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let q = cx.parameter("q").unwrap_or_default().trim();
    let filter = ListFilter { q, state: cx.parameter("state").and_then(state::of_name) };
    let is_search = cx.parameter("go").is_some();
    if is_search && !q.is_empty() && q.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Redirect::to(&cx.links.job(q)).into_response());
    }
    let cursor = cx.parameter("cursor").filter(|cursor| !cursor.is_empty());
    let query = JobsQuery {
        q: (!q.is_empty()).then(|| q.to_owned()),
        state: filter.state,
        cursor: cursor.map(str::to_owned),
        limit: Some(ROWS),
        ..JobsQuery::default()
    };
    let counts = counts(&ui, &cx, q).await?;
    let (list, problem) = match ui.api().list_jobs(&cx.grant, query).await {
        Ok(list) => (Some(list), None),
        Err(fault) if fault.problem().field.as_deref() == Some("q") => (None, Some(fault)),
        Err(fault) => return Err(fault),
    };
    if let Some(list) = &list
        && let ([job], None, true) = (list.jobs.as_slice(), &list.next, is_search)
    {
        return Ok(Redirect::to(&cx.links.job(job.id)).into_response());
    }
    let content = html! {
        (head(&cx, &filter))
        (tabs(&cx, &filter, counts.as_ref()))
        @if let Some(fault) = &problem { (filter_error(&cx, q, fault.problem())) }
        @if let Some(list) = &list {
            @if list.jobs.is_empty() {
                (nothing(&cx, &filter, list.next.is_some()))
            } @else {
                (table(&cx, &filter, &list.jobs))
            }
            (pager(&cx, cursor.is_some(), list.next.as_deref(), list.scanned))
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Jobs, cx.text.jobs), &content))
}

/// Suggestions for a filter that is being typed.
pub(crate) async fn complete(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let q = cx.parameter("q").unwrap_or_default().to_owned();
    let at = cx.parameter("at").and_then(|at| at.parse().ok());
    let completion = ui.api().complete(&cx.grant, &CompleteQuery { q, at }).await?;
    let text = serde_json::to_string(&completion).unwrap_or_default();
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

fn head(cx: &PageContext, filter: &ListFilter<'_>) -> Markup {
    let state = filter.state.map(state::name).unwrap_or_default();
    html! {
        div.title {
            h1 { (cx.text.jobs) }
            div.actions {
                (views(cx))
                a.button href=(cx.links.to("operations")) { (cx.text.operations) }
            }
        }
        form.filter method="get" action=(cx.links.to("jobs")) {
            @if !state.is_empty() { input type="hidden" name="state" value=(state); }
            input name="q" value=(filter.q) aria-label=(cx.text.filter) data-filter spellcheck="false"
                autocomplete="off" placeholder="kind:mail payload.to=ada error~timeout age>1h";
            button type="submit" { (cx.text.apply) }
            @if !filter.q.is_empty() {
                a.button href=(cx.links.with("jobs", &[("state", state)])) { (cx.text.clear) }
            }
        }
    }
}

/// Filters that this browser has saved; a script fills the list.
fn views(cx: &PageContext) -> Markup {
    html! {
        details.menu data-views=(cx.links.to("jobs")) data-remove=(cx.text.remove) hidden {
            summary { (cx.text.views) }
            div.pop.wide {
                div data-view-list {}
                form.view data-view-form {
                    input name="name" aria-label=(cx.text.view_name) placeholder=(cx.text.view_name)
                        maxlength="60" required;
                    button type="submit" { (cx.text.save_view) }
                }
            }
        }
    }
}

/// Number of jobs by state, if the filter is only about queues, kinds and states; otherwise they are not counted.
async fn counts(
    ui: &Ui,
    cx: &PageContext,
    q: &str,
) -> Result<Option<BTreeMap<&'static str, u64>>, Fault> {
    let mut names = Vec::new();
    for term in q.split_whitespace() {
        match term.split_once(':') {
            Some((field @ ("queue" | "kind"), name)) if !name.contains(['*', ',', '"', '(']) => {
                names.push((field, name));
            }
            _ => return Ok(None),
        }
    }
    let mut states = BTreeMap::new();
    let queue = names.iter().find(|(field, _)| *field == "queue").map(|(_, name)| *name);
    let counts = match queue {
        Some(_) => ui.api().counts(&cx.grant, queue).await?.into(),
        None => ui.api().recent_counts(&cx.grant).await?,
    };
    for count in counts.iter() {
        let is_counted = names.iter().all(|(field, name)| match *field {
            "queue" => count.queue.as_str() == *name,
            _ => count.kind.as_str() == *name,
        });
        if is_counted {
            *states.entry(state::name(count.state.into())).or_default() += count.n;
        }
    }
    Ok(Some(states))
}

fn tabs(cx: &PageContext, filter: &ListFilter<'_>, counts: Option<&BTreeMap<&str, u64>>) -> Markup {
    let link = |name: &str| cx.links.with("jobs", &[("state", name), ("q", filter.q)]);
    let current = |is_current: bool| is_current.then_some("page");
    html! {
        nav.tabs data-live="tabs" aria-label=(cx.text.states) {
            a href=(link("")) aria-current=[current(filter.state.is_none())] { (cx.text.all_states)
                @if let Some(counts) = counts { " " span.count { (number(counts.values().sum())) } }
            }
            @for one in STATES {
                a href=(link(state::name(one))) aria-current=[current(filter.state == Some(one))] {
                    (state::dot(state::name(one), state::word(cx.text, one)))
                    @if let Some(counts) = counts {
                        " " span.count { (number(counts.get(state::name(one)).copied().unwrap_or_default())) }
                    }
                }
            }
        }
    }
}

/// The error of a filter, with a mark under its character.
fn filter_error(cx: &PageContext, q: &str, problem: &Problem) -> Markup {
    let at = problem.at.unwrap_or_default().min(q.chars().count());
    let marked = format!("{}^", " ".repeat(at));
    html! {
        div.problem role="alert" {
            @if problem.at.is_some() { pre.caret { (visible(q)) "\n" b { (marked) } } }
            p { (english(&problem.detail)) }
            p.hint { (cx.text.filter_hint) " " code { "state:dead kind:mail* payload.to=ada error~timeout age>1h" } }
        }
    }
}

fn nothing(cx: &PageContext, filter: &ListFilter<'_>, is_unfinished: bool) -> Markup {
    if is_unfinished {
        return empty::plain(cx.text.search_unfinished);
    }
    match filter.q.is_empty() && filter.state.is_none() {
        true => empty::with_command(
            cx.text,
            cx.text.no_jobs_yet,
            "crore job push hello '{\"name\": \"Ada\"}'",
        ),
        false => empty::plain(cx.text.no_jobs_match),
    }
}

/// The table of jobs, with the actions on selected jobs or on all that match.
fn table(cx: &PageContext, filter: &ListFilter<'_>, jobs: &[Job]) -> Markup {
    let (text, may_act) = (cx.text, cx.may(Scope::Operate));
    html! {
        form method="get" action=(cx.links.to("jobs/act")) data-rows-form {
            input type="hidden" name="q" value=(filter.q);
            input type="hidden" name="state" value=(filter.state.map(state::name).unwrap_or_default());
            @if may_act { (actions(cx)) }
            table.list data-live-rows="jobs" {
                thead { tr {
                    @if may_act { th.check { input type="checkbox" data-select-all aria-label=(text.select_all) hidden; } }
                    th { (text.kind) } th.num { (text.id) } th { (text.state) } th { (text.queue) }
                    th.num.wide-only { (text.attempt) } th.num { (text.pushed) } th.wide-only { (text.detail) }
                } }
                tbody { @for job in jobs { (row(cx, &wire::Job::of(job, Format::Json, JobView::Summary), may_act)) } }
            }
        }
    }
}

fn row(cx: &PageContext, job: &wire::Job, may_act: bool) -> Markup {
    let link = cx.links.job(job.id);
    html! {
        tr data-key=(job.id) {
            @if may_act { td.check { input type="checkbox" name="id" value=(job.id) aria-label=(format!("{} {}", cx.text.select, job.id)); } }
            td.main { a href=(link) { (excerpt(&job.kind, 60)) } }
            td.num.mono { (job.id) }
            td { (cx.state(job.state, job.attempt)) }
            td { a.quiet href=(cx.links.queue(&job.queue)) { (excerpt(&job.queue, 40)) } }
            td.num.wide-only { (job.attempt) @if let Some(max) = job.max_attempts { " / " (max) } }
            td.num { (cx.ago(job.pushed_at)) }
            td.wide-only.note { (note(cx, job)) }
        }
    }
}

/// The most important fact about a job in its state.
fn note(cx: &PageContext, job: &wire::Job) -> Markup {
    let error = job.history.iter().find_map(|attempt| attempt.error.as_deref());
    html! {
        @match job.state {
            enums::State::Scheduled => { (cx.text.due) " " (cx.ago(job.due)) },
            enums::State::Running => {
                @if let Some(worker) = &job.worker { (cx.text.by) " " (excerpt(worker, 40)) }
                @if job.stop { " · " (cx.text.asked_to_stop) }
            },
            _ => {},
        }
        @if job.state != enums::State::Done && let Some(error) = error {
            @if matches!(job.state, enums::State::Scheduled | enums::State::Running) { " · " }
            span.error { (excerpt(error, 90)) }
        }
    }
}

/// The actions. Without a selection they apply to all jobs that match.
fn actions(cx: &PageContext) -> Markup {
    let text = cx.text;
    html! {
        div.actions {
            span.hint data-selected=(text.n_selected) data-none=(text.acts_on_all) { (text.acts_on_all) }
            button name="act" value="retry" data-key-button="r" { (text.retry) }
            button name="act" value="replay" { (text.replay) }
            button name="act" value="cancel" { (text.cancel) }
            button.danger name="act" value="delete" { (text.delete) }
        }
    }
}

fn pager(cx: &PageContext, is_later: bool, next: Option<&str>, scanned: usize) -> Markup {
    html! {
        nav.pager aria-label=(cx.text.pages) {
            @if is_later { a.button href=(cx.here_with("cursor", "")) data-back { (cx.text.newer) } }
            @if let Some(next) = next {
                a.button href=(cx.here_with("cursor", next)) rel="next" { (cx.text.older) }
            }
            span.hint { (fill(cx.text.scanned, &[&scanned])) }
        }
    }
}
