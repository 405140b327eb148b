//! One queue: why its jobs wait, who works on it, and the buttons that change it.

use axum::extract::State;
use crore_api::params::PathParam;
use crore_api::{Fault, Scope};
use crore_core::{Code, Name, Span};
use crore_wire::Format;
use crore_wire::api::queues::{Queue, QueueReason};
use crore_wire::api::stats::{StatsQuery, Step};
use crore_wire::api::workers::Worker;
use crore_wire::units::{Moment, Period};
use maud::{Markup, html};

use super::queues::filter_name;
use super::traffic::traffic;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::api_text::reason;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::empty;
use crate::html::flash::Flash;
use crate::html::format::{excerpt, grouped, jobs, number, span, visible};
use crate::html::layout::PageFrame;
use crate::html::pause::pause_button;
use crate::html::rail::NavItem;
use crate::html::state::{self, STATES, dot};
use crate::text::fill;

/// Workers that are shown.
const WORKERS: usize = 20;
/// The time whose starts give the rate of the queue.
const RATE_SPAN: Span = Span::from_secs(5 * 60);

/// The page of a queue.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("queue")?;
    let queue = ui.api().get_queue(&cx.grant, &name).await?.value;
    let traffic = traffic(&ui, &cx, Some(name.as_str())).await?;
    let workers = workers(&ui, &cx, name.as_str()).await?;
    let reasons = reasons(&ui, &cx, &name).await?;
    let rate = starts_per_minute(&ui, &cx, &queue).await?;
    let content = html! {
        (head(&cx, &queue))
        (why(&cx, &queue, &reasons, rate))
        (states(&cx, &queue))
        (traffic.charts(&cx))
        div.columns {
            (worker_table(&cx, &workers))
            (settings(&cx, &queue))
        }
    };
    let title = format!("{} · {}", queue.name, cx.text.queue);
    Ok(cx.page(&PageFrame::new(NavItem::Queues, &title), &content))
}

fn head(cx: &PageContext, queue: &Queue) -> Markup {
    let text = cx.text;
    let link = cx.links.queue(&queue.name);
    html! {
        div.title {
            h1 { (excerpt(&queue.name, 80)) " "
                @if queue.paused { span.badge { (dot("retrying", text.paused)) } } }
            @if cx.may(Scope::Operate) {
                div.actions data-live="actions" {
                    (pause_button(cx, &link, queue.paused))
                    a.button href={ (link) "/drain" } { (text.drain) }
                }
            }
        }
    }
}

/// Why jobs wait. A caller that does not see all kinds of the queue gets no reasons.
async fn reasons(ui: &Ui, cx: &PageContext, queue: &Name) -> Result<Vec<QueueReason>, Fault> {
    match ui.api().explain_queue(&cx.grant, queue).await {
        Ok(explanation) => Ok(explanation.reasons),
        Err(fault) if fault.code() == Code::ScopeMissing => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

/// Jobs of the queue that started, per minute.
async fn starts_per_minute(ui: &Ui, cx: &PageContext, queue: &Queue) -> Result<f64, Fault> {
    let query = StatsQuery {
        queue: Some(queue.name.clone()),
        step: Some(Step::Minute),
        from: Some(Moment(cx.now.before(RATE_SPAN))),
        ..StatsQuery::default()
    };
    let total = ui.api().job_statistics(&cx.grant, query).await?.total;
    Ok(total.started as f64 * 60_000.0 / RATE_SPAN.as_millis() as f64)
}

/// Why jobs wait, in words.
fn why(cx: &PageContext, queue: &Queue, reasons: &[QueueReason], rate: f64) -> Markup {
    let text = cx.text;
    let ready = queue.counts.get("ready").copied().unwrap_or_default();
    // A rate says it better.
    let is_estimated = reasons.iter().any(|reason| reason.clears_in.is_some());
    let left = (ready > 0 && rate > 0.0 && !is_estimated).then(|| {
        let millis = (ready as f64 / rate * 60_000.0).min(1e15) as u64;
        fill(text.last_starts_in, &[&span(text, Span::from_millis(millis))])
    });
    let is_said = |reason: &&QueueReason| matches!(reason.reason.as_str(), "paused" | "empty");
    let shown = reasons.iter().filter(|reason| !is_said(reason));
    html! {
        section.why data-live="why" {
            @if queue.paused && ready > 0 {
                p { (fill(text.wait_for_resume, &[&jobs(text, ready)])) }
            } @else if ready == 0 {
                p { @if queue.paused { (text.paused_and_empty) } @else { (text.no_job_waits) } }
            } @else {
                p { (fill(text.n_jobs_ready, &[&jobs(text, ready)])) " " @if let Some(left) = left { (left) } }
            }
            @if shown.clone().next().is_some() {
                ul { @for one in shown {
                    li {
                        (reason(cx, &one.reason, &one.detail))
                        @if let Some(limit) = &one.limit { " " a href=(cx.links.item("limits", limit)) { (visible(limit)) } }
                    }
                } }
            }
        }
    }
}

fn states(cx: &PageContext, queue: &Queue) -> Markup {
    let quoted = filter_name(&queue.name);
    html! {
        div.tiles data-live="states" {
            @for one in STATES {
                @let name = state::name(one);
                a.tile href=(cx.links.with("jobs", &[("state", name), ("q", &quoted)])) {
                    (dot(name, state::word(cx.text, one)))
                    strong { (number(queue.counts.get(name).copied().unwrap_or_default())) }
                }
            }
        }
    }
}

/// Connected workers that take jobs from the queue.
async fn workers(ui: &Ui, cx: &PageContext, queue: &str) -> Result<Vec<Worker>, Fault> {
    let mut workers = ui.api().list_workers(&cx.grant, Format::Json).await?;
    workers.retain(|worker| {
        let stream = worker.stream.as_ref();
        stream.is_some_and(|stream| stream.queues.iter().any(|one| one == queue))
    });
    Ok(workers)
}

fn worker_table(cx: &PageContext, workers: &[Worker]) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="workers" {
            h2 { (text.workers_here) }
            @if workers.is_empty() { (empty::plain(text.no_workers_here)) } @else {
                table {
                    thead { tr { th { (text.worker) } th { (text.version) } th.num { (text.busy_slots) } th.num { (text.heard) } } }
                    tbody { @for worker in workers.iter().take(WORKERS) {
                        @if let Some(stream) = &worker.stream {
                            tr {
                                td { a href=(cx.links.item("workers", &worker.name)) { (excerpt(&worker.name, 40)) } }
                                td.mono { (visible(stream.version.as_deref().unwrap_or("–"))) }
                                td.num { (stream.running) " / " (stream.slots) }
                                td.num { (cx.ago(stream.heard)) }
                            }
                        }
                    } }
                }
            }
        }
    }
}

fn settings(cx: &PageContext, queue: &Queue) -> Markup {
    let text = cx.text;
    let most = |n: Option<u64>| n.map_or(text.unlimited.to_owned(), grouped);
    html! {
        section.panel {
            h2 { (text.settings) }
            dl.facts.column {
                div { dt { (text.keep_done) } dd { (span(text, queue.keep_done.0)) ", " (most(queue.max_done)) } }
                div { dt { (text.keep_dead) } dd { (span(text, queue.keep_dead.0)) ", " (most(queue.max_dead)) } }
                @if let Some(fair) = &queue.fair { div { dt { (text.fair_share) } dd.mono { (visible(&fair.by)) } } }
            }
        }
    }
}

/// Pauses a queue.
pub(crate) async fn pause(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("queue")?;
    ui.api().pause_queue(&cx.grant, &name).await?;
    Ok(cx.done(Flash::Paused, &cx.links.queue(name.as_str())))
}

/// Resumes a queue.
pub(crate) async fn resume(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("queue")?;
    ui.api().resume_queue(&cx.grant, &name).await?;
    Ok(cx.done(Flash::Resumed, &cx.links.queue(name.as_str())))
}

/// Asks before a queue is drained.
pub(crate) async fn ask_drain(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
) -> PageResult {
    let queue = ui.api().get_queue(&cx.grant, &name.name("queue")?).await?.value;
    let running = queue.counts.get("running").copied().unwrap_or_default();
    let text = cx.text;
    let question = fill(text.ask_drain, &[&queue.name]);
    let link = cx.links.queue(&queue.name);
    let texts = QuestionTexts {
        question: &question,
        detail: &fill(text.drain_effect, &[&jobs(text, running)]),
        button: text.drain,
    };
    let action = format!("{link}/drain");
    Ok(Confirmation::about(texts, &action, &link, false).page(&cx, NavItem::Queues))
}

/// Pauses a queue. The page shows how many of its jobs still run.
pub(crate) async fn drain(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    let name = name.name("queue")?;
    ui.api().drain_queue(&cx.grant, name.clone(), Some(Period(Span::ZERO))).await?;
    Ok(cx.done(Flash::Draining, &cx.links.queue(name.as_str())))
}
