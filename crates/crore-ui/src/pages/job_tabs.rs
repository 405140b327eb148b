//! The tabs of a job: payload, result, log, history, related.

use crore_api::Fault;
use crore_core::JobId;
use crore_core::job::ResultRetention;
use crore_wire::api::Id;
use crore_wire::api::enums::HowEnded;
use crore_wire::api::job::{Job, JobsQuery};
use crore_wire::api::notes::{Line, Notes};
use maud::{Markup, html};

use crate::Ui;
use crate::context::PageContext;
use crate::html::copy::{command, quoted};
use crate::html::empty;
use crate::html::format::{excerpt, span, visible};
use crate::html::payload::ReadablePayload;
use crate::html::state::dot;

/// Maximum length of a payload in a command to copy.
const MAX_COMMAND: usize = 2000;
/// Related jobs that are shown.
const RELATED: usize = 20;

/// A tab of a job's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum JobTab {
    #[default]
    Payload,
    Result,
    Log,
    History,
    Related,
}

impl JobTab {
    const ALL: [Self; 5] = [Self::Payload, Self::Result, Self::Log, Self::History, Self::Related];

    const fn name(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Result => "result",
            Self::Log => "log",
            Self::History => "history",
            Self::Related => "related",
        }
    }

    pub(super) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tab| tab.name() == name)
    }
}

/// A job with its notes.
pub(super) struct JobDetails {
    /// The job as it is stored.
    pub(super) stored: crore_core::Job,
    /// The job as the API shows it.
    pub(super) job: Job,
    /// Its progress and log.
    pub(super) notes: Notes,
}

/// The tabs, and the content of the open one.
pub(super) async fn tabs(
    ui: &Ui,
    cx: &PageContext,
    details: &JobDetails,
    tab: JobTab,
) -> Result<Markup, Fault> {
    let (text, JobDetails { stored, job, notes }) = (cx.text, details);
    let title = |tab: JobTab| match tab {
        JobTab::Payload => text.payload,
        JobTab::Result => text.result,
        JobTab::Log => text.log,
        JobTab::History => text.history,
        JobTab::Related => text.related,
    };
    let body = match tab {
        JobTab::Payload => payload(cx, stored, job),
        JobTab::Result => result(cx, stored),
        JobTab::Log => log(cx, notes),
        JobTab::History => history(cx, job),
        JobTab::Related => related(ui, cx, job).await?,
    };
    Ok(html! {
        nav.tabs aria-label=(text.details) {
            @for one in JobTab::ALL {
                a href=(cx.here_with("tab", one.name())) aria-current=[(one == tab).then_some("page")] { (title(one)) }
            }
        }
        section.tab { (body) }
    })
}

fn payload(cx: &PageContext, stored: &crore_core::Job, job: &Job) -> Markup {
    let json = json_payload(stored);
    html! {
        (ReadablePayload::of(&stored.spec.payload).show(cx.text))
        p.hint { a href=(cx.links.to(&format!("jobs/{}/payload", job.id))) { (cx.text.download) } }
        h3 { (cx.text.same_by_command) }
        (command(cx.text, &push_command(job, json.as_deref())))
        (command(cx.text, &curl_command(&cx.server_url(), job, json.as_deref())))
    }
}

/// The payload as JSON, if a command with it is short enough to copy.
fn json_payload(stored: &crore_core::Job) -> Option<String> {
    match ReadablePayload::of(&stored.spec.payload) {
        ReadablePayload::Json(json) if json.len() <= MAX_COMMAND => Some(json.into_owned()),
        _ => None,
    }
}

fn push_command(job: &Job, json: Option<&str>) -> String {
    let payload = json.map(|json| format!(" {}", quoted(json))).unwrap_or_default();
    format!("crore job push {}{payload} --queue {}", quoted(&job.kind), quoted(&job.queue))
}

fn curl_command(server: &str, job: &Job, json: Option<&str>) -> String {
    let text = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let payload = json.map(|json| format!(", \"payload\": {json}")).unwrap_or_default();
    let body =
        format!("{{\"kind\": {}, \"queue\": {}{payload}}}", text(&job.kind), text(&job.queue));
    let body = quoted(&body);
    format!("curl -H 'content-type: application/json' {server}/v1/jobs -d {body}")
}

/// The result. One that the first read deletes is not shown: the program that waits for it reads it.
fn result(cx: &PageContext, stored: &crore_core::Job) -> Markup {
    let text = cx.text;
    match (stored.spec.keep, stored.result_at(cx.now)) {
        (ResultRetention::Discard, None) => empty::plain(text.no_result_kept),
        (_, None) => empty::plain(text.no_result),
        (ResultRetention::Once(_), Some(_)) => empty::plain(text.result_read_once),
        (_, Some(result)) => ReadablePayload::of(&result.payload).show(text),
    }
}

fn log(cx: &PageContext, notes: &Notes) -> Markup {
    html! {
        div data-live="log" {
            @if notes.lines.is_empty() { (empty::plain(cx.text.no_log)) } @else { (log_lines(&notes.lines)) }
        }
    }
}

/// Lines of a log, each with its time.
pub(super) fn log_lines(lines: &[Line]) -> Markup {
    html! {
        ol.log {
            @for line in lines {
                li { time datetime=(line.at) data-clock title=(line.at) { (line.at.to_string().get(11..23).unwrap_or_default()) }
                    span { (visible(&line.text)) } }
            }
        }
    }
}

/// Deliveries and actions by hand.
fn history(cx: &PageContext, job: &Job) -> Markup {
    let text = cx.text;
    html! {
        div data-live="history" {
            @if job.history.is_empty() && job.actions.is_empty() { (empty::plain(text.no_history)) }
            @if !job.history.is_empty() {
                table {
                    thead { tr { th { (text.outcome) } th.num { (text.started) } th.num { (text.duration) } th { (text.worker) } th { (text.error) } } }
                    tbody { @for attempt in &job.history {
                        tr {
                            td { (outcome(cx, attempt.ended)) }
                            td.num { (cx.ago(attempt.started_at)) }
                            td.num { (span(text, attempt.duration.0)) }
                            td { (excerpt(attempt.worker.as_deref().unwrap_or("–"), 40)) }
                            td.wide { (excerpt(attempt.error.as_deref().unwrap_or_default(), 120)) }
                        }
                    } }
                }
            }
            @if !job.actions.is_empty() {
                h3 { (text.actions_by_hand) }
                table {
                    thead { tr { th { (text.action) } th.num { (text.when) } th { (text.by) } th { (text.detail) } } }
                    tbody { @for action in &job.actions {
                        tr {
                            td { (serde_json::to_value(action.action).ok().as_ref().and_then(|name| name.as_str()).unwrap_or_default()) }
                            td.num { (cx.ago(action.at)) }
                            td { (excerpt(&action.by, 60)) }
                            td.wide { (excerpt(action.detail.as_deref().unwrap_or_default(), 120)) }
                        }
                    } }
                }
            }
        }
    }
}

fn outcome(cx: &PageContext, ended: HowEnded) -> Markup {
    let text = cx.text;
    let (class, word) = match ended {
        HowEnded::Done => ("done", text.done),
        HowEnded::Failed => ("retrying", text.failed),
        HowEnded::Snoozed => ("scheduled", text.snoozed),
        HowEnded::Interrupted => ("cancelled", text.interrupted),
        HowEnded::Lapsed => ("dead", text.lapsed),
        HowEnded::TimedOut => ("dead", text.timed_out),
        HowEnded::Cancelled => ("cancelled", text.cancelled),
    };
    dot(class, word)
}

/// Parent, original, dependencies, group, and the jobs that came from this one.
async fn related(ui: &Ui, cx: &PageContext, job: &Job) -> Result<Markup, Fault> {
    let text = cx.text;
    let children = found(ui, cx, &format!("parent:{}", job.id)).await?;
    let replays = found(ui, cx, &format!("replays:{}", job.id)).await?;
    let link = |id: Id| html! { a.mono href=(cx.links.job(id)) { (id) } };
    let is_alone = job.parent.is_none()
        && job.replay_of.is_none()
        && job.group.is_none()
        && job.after.is_empty()
        && children.is_empty()
        && replays.is_empty();
    let list = |title: &str, jobs: &[(JobId, String)]| {
        html! {
            @if !jobs.is_empty() {
                div { dt { (title) } dd { @for (id, kind) in jobs { (link((*id).into())) " " (visible(kind)) br; } } }
            }
        }
    };
    Ok(html! {
        @if is_alone { (empty::plain(text.no_related)) }
        dl.facts.column {
            @if let Some(id) = job.parent { div { dt { (text.parent) } dd { (link(id)) } } }
            @if let Some(id) = job.replay_of { div { dt { (text.replay_of) } dd { (link(id)) } } }
            @if let Some(id) = job.group { div { dt { (text.group) } dd { a.mono href=(cx.links.jobs(&format!("group:{id}"))) { (id) } } } }
            @for one in &job.after {
                div { dt { (text.after) } dd {
                    @if let Some(id) = one.job { (link(id)) }
                    @if let Some(id) = one.group { (text.group) " " span.mono { (id) } }
                } }
            }
            (list(text.children, &children))
            (list(text.replays, &replays))
        }
    })
}

async fn found(ui: &Ui, cx: &PageContext, q: &str) -> Result<Vec<(JobId, String)>, Fault> {
    let which = JobsQuery { q: Some(q.to_owned()), limit: Some(RELATED), ..JobsQuery::default() };
    let page = ui.api().list_jobs(&cx.grant, which).await?;
    Ok(page.jobs.iter().map(|job| (job.id, job.spec.kind.to_string())).collect())
}
