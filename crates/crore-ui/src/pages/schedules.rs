//! Schedules: the list, and one schedule with its next and last runs.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use crore_api::Scope;
use crore_api::calls::ScheduleView;
use crore_api::params::PathParam;
use crore_core::schedule::Timing;
use crore_wire::Format;
use crore_wire::api::enums::Missed;
use crore_wire::api::schedules::{PreviewQuery, ScheduleRun, Ticks};
use crore_wire::units::Moment;
use maud::{Markup, html};

use super::schedule_words::{words, zone};
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::flash::Flash;
use crate::html::format::excerpt;
use crate::html::json_tree::tree;
use crate::html::layout::PageFrame;
use crate::html::pause::pause_button;
use crate::html::rail::NavItem;
use crate::html::state::dot;
use crate::html::{copy, empty};
use crate::text::fill;

/// Schedules on the page.
const ROWS: usize = 500;
/// Runs that are previewed.
const NEXT: usize = 10;

/// All schedules, by name.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let schedules = ui.api().list_schedules(&cx.grant).await?;
    let content = html! {
        div.title {
            h1 { (text.schedules) }
            @if cx.may(Scope::Define) {
                div.actions { a.button href=(cx.links.to("schedules-new")) { (text.new_schedule) } }
            }
        }
        @if schedules.is_empty() {
            (empty::with_command(text, text.no_schedules, "crore schedule set nightly 'cron 0 3 * * *' report"))
        } @else {
            table.list data-live="schedules" {
                thead { tr {
                    th { (text.schedule) } th { (text.state) } th { (text.timing) } th.wide-only { (text.zone) }
                    th { (text.kind) } th.wide-only { (text.queue) } th.num { (text.next) }
                } }
                tbody { @for schedule in schedules.iter().take(ROWS) { (row(&cx, schedule)) } }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Schedules, text.schedules), &content))
}

fn row(cx: &PageContext, view: &ScheduleView) -> Markup {
    let schedule = &view.schedule;
    html! {
        tr data-key=(view.name) {
            td.main { a href=(cx.links.item("schedules", view.name.as_str())) { (excerpt(view.name.as_str(), 50)) } }
            td { (state(cx, schedule.paused)) }
            td title=(schedule.timing) { (timing_words(cx, &schedule.timing)) }
            td.wide-only { (zone(&schedule.timing)) }
            td { (excerpt(schedule.job.spec.kind.as_str(), 40)) }
            td.wide-only { (excerpt(schedule.job.spec.queue.as_str(), 40)) }
            td.num { @if let Some(at) = view.next_at { (cx.ago(at)) } }
        }
    }
}

fn state(cx: &PageContext, is_paused: bool) -> Markup {
    match is_paused {
        true => dot("retrying", cx.text.paused),
        false => dot("done", cx.text.active),
    }
}

/// A timing in words, or as it is written.
fn timing_words(cx: &PageContext, timing: &Timing) -> Markup {
    html! {
        @match words(cx.text, timing) {
            Some(words) => (words),
            None => span.mono { (timing) },
        }
    }
}

/// One schedule.
pub(crate) async fn one(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("schedule")?;
    let view = ui.api().get_schedule(&cx.grant, &name).await?.value;
    let timing = view.schedule.timing.to_string();
    let ticks = ui.api().preview_timing(&PreviewQuery { timing, n: Some(NEXT) })?;
    let runs = ui.api().schedule_runs(&cx.grant, &name).await?.jobs;
    let job = view.to_wire(Format::Json).job;
    let job = serde_json::to_string(&job).unwrap_or_default();
    let text = cx.text;
    let content = html! {
        (head(&cx, &view))
        section.why {
            p { (timing_words(&cx, &view.schedule.timing)) ", " (zone(&view.schedule.timing)) }
            p.hint { code { (view.schedule.timing) } " · " (text.missed_runs) ": " (missed(&cx, &view)) }
        }
        div.columns {
            (next_runs(&cx, &view, &ticks))
            (last_runs(&cx, &runs))
        }
        section.panel { h2 { (text.job_to_push) } (tree(text, &job)) }
        (copy::command(text, &format!("crore schedule run {}", copy::quoted(name.as_str()))))
    };
    Ok(cx.page(&PageFrame::new(NavItem::Schedules, name.as_str()), &content))
}

fn missed(cx: &PageContext, view: &ScheduleView) -> &'static str {
    match Missed::from(view.schedule.missed) {
        Missed::Skip => cx.text.missed_skip,
        Missed::Once => cx.text.missed_once,
        Missed::All => cx.text.missed_all,
    }
}

fn head(cx: &PageContext, view: &ScheduleView) -> Markup {
    let text = cx.text;
    let is_paused = view.schedule.paused;
    let link =
        |action: &str| format!("{}/{action}", cx.links.item("schedules", view.name.as_str()));
    html! {
        div.title {
            h1 { (excerpt(view.name.as_str(), 80)) " " span.badge { (state(cx, is_paused)) } }
            div.actions data-live="actions" {
                @if cx.may(Scope::Operate) {
                    form method="post" action=(link("run")) { (cx.csrf()) button type="submit" { (text.run_now) } }
                    (pause_button(cx, &cx.links.item("schedules", view.name.as_str()), is_paused))
                }
                @if cx.may(Scope::Define) {
                    a.button href=(link("edit")) { (text.edit) }
                    a.button.danger href=(link("delete")) { (text.delete) }
                }
            }
        }
    }
}

fn next_runs(cx: &PageContext, view: &ScheduleView, ticks: &Ticks) -> Markup {
    let text = cx.text;
    let zone = zone(&view.schedule.timing);
    html! {
        section.panel data-live="next" {
            h2 { (text.next_ten) }
            @if view.schedule.paused { p.hint { (text.paused_no_runs) } }
            table {
                thead { tr { th { (zone) } th.num { (text.when) } } }
                tbody { @for at in &ticks.ticks {
                    tr { td.mono { (in_zone(*at, zone)) } td.num { (cx.ago(*at)) } }
                } }
            }
        }
    }
}

/// An instant as the clocks of a zone show it.
fn in_zone(at: Moment, zone: &str) -> String {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap_or(jiff::tz::TimeZone::UTC);
    match jiff::Timestamp::from_millisecond(at.0.as_millis()) {
        Ok(instant) => instant.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => at.to_string(),
    }
}

fn last_runs(cx: &PageContext, runs: &[ScheduleRun]) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="runs" {
            h2 { (text.last_runs) }
            @if runs.is_empty() { (empty::plain(text.no_runs)) } @else {
                table {
                    thead { tr { th.num { (text.id) } th { (text.state) } th.num { (text.due) } th.num { (text.ended) } } }
                    tbody { @for run in runs {
                        tr {
                            td.num.mono { a href=(cx.links.job(run.id)) { (run.id) } }
                            td { (cx.state(run.state, 0)) }
                            td.num { (cx.ago(run.due_at)) }
                            td.num { @if let Some(at) = run.ended_at { (cx.ago(at)) } }
                        }
                    } }
                }
            }
        }
    }
}

/// Pushes the job of a schedule now, and opens it.
pub(crate) async fn run(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("schedule")?;
    let pushed = ui.api().run_schedule(&cx.grant, &name).await?;
    Ok(match pushed.id {
        Some(id) => cx.done(Flash::Pushed, &cx.links.job(id)),
        None => Redirect::to(&cx.links.item("schedules", name.as_str())).into_response(),
    })
}

/// Pauses a schedule.
pub(crate) async fn pause(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("schedule")?;
    ui.api().pause_schedule(&cx.grant, &name).await?;
    Ok(cx.done(Flash::Changed, &cx.links.item("schedules", name.as_str())))
}

/// Resumes a schedule.
pub(crate) async fn resume(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("schedule")?;
    ui.api().resume_schedule(&cx.grant, &name).await?;
    Ok(cx.done(Flash::Changed, &cx.links.item("schedules", name.as_str())))
}

/// Asks before a schedule is deleted.
pub(crate) async fn ask_delete(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
) -> PageResult {
    let name = ui.api().get_schedule(&cx.grant, &name.name("schedule")?).await?.value.name;
    let question = fill(cx.text.ask_delete_schedule, &[&name]);
    let link = cx.links.item("schedules", name.as_str());
    let texts = QuestionTexts {
        question: &question,
        detail: cx.text.delete_schedule_effect,
        button: cx.text.delete,
    };
    let action = format!("{link}/delete");
    Ok(Confirmation::about(texts, &action, &link, true).page(&cx, NavItem::Schedules))
}

/// Deletes a schedule.
pub(crate) async fn delete(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    ui.api().delete_schedule(&cx.grant, name.name("schedule")?).await?;
    Ok(cx.done(Flash::Deleted, &cx.links.to("schedules")))
}
