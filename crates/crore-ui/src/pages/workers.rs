//! Connected workers: slots, running jobs, and requests to be quiet, to resume or to stop.

use axum::extract::State;
use crore_api::params::PathParam;
use crore_api::{Fault, Scope, WorkerRequest};
use crore_core::Name;
use crore_wire::Format;
use crore_wire::api::job::JobsQuery;
use crore_wire::api::workers::{Worker, WorkerStream};
use maud::{Markup, html};

use super::job_filter::named_filter;
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::form::PostedForm;
use crate::html::confirm::{Confirmation, QuestionTexts};
use crate::html::empty;
use crate::html::flash::Flash;
use crate::html::format::{excerpt, grouped, number, visible};
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state::dot;
use crate::text::fill;

/// Workers on the page.
const ROWS: usize = 500;
/// Running jobs of a worker that are shown.
const JOBS: usize = 50;

/// All workers.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let text = cx.text;
    let workers = ui.api().list_workers(&cx.grant, Format::Json).await?;
    let (connected, registered): (Vec<_>, Vec<_>) =
        workers.into_iter().partition(|worker| worker.stream.is_some());
    let streams = || connected.iter().filter_map(|worker| worker.stream.as_ref());
    let slots: usize = streams().map(|stream| stream.slots).sum();
    let running: usize = streams().map(|stream| stream.running).sum();
    let content = html! {
        h1 { (text.workers) }
        div.tiles data-live="totals" {
            div.tile { (text.connected) strong { (number(connected.len() as u64)) } }
            div.tile { (text.busy_slots) strong { (number(running as u64)) small { " / " (grouped(slots as u64)) } } }
            div.tile { (text.quiet) strong { (number(streams().filter(|stream| stream.quiet).count() as u64)) } }
        }
        @if connected.is_empty() {
            (empty::with_command(text, text.no_workers, "crore worker --channel default=4"))
        } @else { (table(&cx, &connected)) }
        @if connected.len() > ROWS { p.hint { (fill(text.n_more, &[&grouped((connected.len() - ROWS) as u64)])) } }
        @if !registered.is_empty() { (registered_table(&cx, &registered)) }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Workers, text.workers), &content))
}

fn table(cx: &PageContext, workers: &[Worker]) -> Markup {
    let text = cx.text;
    html! {
        table.list data-live="workers" {
            thead { tr {
                th { (text.worker) } th { (text.state) } th { (text.version) } th { (text.queues) }
                th.num { (text.busy_slots) } th.num.wide-only { (text.connected) } th.num { (text.heard) }
            } }
            tbody { @for worker in workers.iter().take(ROWS) {
                @if let Some(stream) = &worker.stream {
                    tr data-key=(stream.incarnation) {
                        td.main { a href=(cx.links.item("workers", &worker.name)) { (excerpt(&worker.name, 50)) } }
                        td { (state(cx, worker, stream)) }
                        td.mono { (excerpt(stream.version.as_deref().unwrap_or("–"), 20)) }
                        td { (excerpt(&stream.queues.join(", "), 60)) }
                        td.num { (slots(stream)) }
                        td.num.wide-only { (cx.ago(stream.since)) }
                        td.num { (cx.ago(stream.heard)) }
                    }
                }
            } }
        }
    }
}

/// Running jobs and slots, with a bar.
fn slots(stream: &WorkerStream) -> Markup {
    html! {
        span.meter-row {
            meter min="0" max=(stream.slots.max(1)) value=(stream.running) {}
            span { (stream.running) " / " (stream.slots) }
        }
    }
}

fn state(cx: &PageContext, worker: &Worker, stream: &WorkerStream) -> Markup {
    match (worker.until, stream.stopping, stream.quiet) {
        (Some(_), ..) => dot("cancelled", cx.text.reconnecting),
        (None, true, _) => dot("retrying", cx.text.stopping),
        (None, false, true) => dot("scheduled", cx.text.quiet),
        (None, false, false) => dot("done", cx.text.connected),
    }
}

/// Workers that fetch over HTTP, or that the server calls.
fn registered_table(cx: &PageContext, workers: &[Worker]) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="registered" {
            h2 { (text.registered_workers) }
            table {
                thead { tr { th { (text.worker) } th { (text.about) } th.num { (text.until) } } }
                tbody { @for worker in workers.iter().take(ROWS) {
                    tr {
                        td { (excerpt(&worker.name, 60)) }
                        td.mono { (excerpt(&String::from_utf8_lossy(worker.about.bytes()), 80)) }
                        td.num { @if let Some(until) = worker.until { (cx.ago(until)) } }
                    }
                } }
            }
        }
    }
}

/// One worker: its streams, its running jobs, and the buttons.
pub(crate) async fn one(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("worker")?;
    let workers = of_name(&ui, &cx, &name).await?;
    let filter = named_filter("worker", name.as_str());
    let which = JobsQuery {
        q: Some(format!("state:running {filter}")),
        limit: Some(JOBS),
        ..JobsQuery::default()
    };
    let jobs = ui.api().list_jobs(&cx.grant, which).await?.jobs;
    let text = cx.text;
    let content = html! {
        div.title {
            h1 { (excerpt(name.as_str(), 80)) }
            (buttons(&cx, &name, &workers))
        }
        @for worker in &workers { @if let Some(stream) = &worker.stream { (facts(&cx, worker, stream)) } }
        section.panel data-live="jobs" {
            h2 { (text.running_here) a.all href=(cx.links.jobs(&filter)) { (text.jobs) } }
            @if jobs.is_empty() { (empty::plain(text.nothing_runs)) } @else {
                table {
                    thead { tr { th { (text.kind) } th.num { (text.id) } th { (text.queue) } th.num { (text.started) } } }
                    tbody { @for job in &jobs {
                        tr {
                            td.main { a href=(cx.links.job(job.id)) { (excerpt(job.spec.kind.as_str(), 60)) } }
                            td.num.mono { (job.id) }
                            td { a.quiet href=(cx.links.queue(job.spec.queue.as_str())) { (excerpt(job.spec.queue.as_str(), 40)) } }
                            td.num { (cx.ago(job.live.started_at)) }
                        }
                    } }
                }
            }
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Workers, name.as_str()), &content))
}

/// The connected workers with a name.
async fn of_name(ui: &Ui, cx: &PageContext, name: &Name) -> Result<Vec<Worker>, Fault> {
    let mut workers = ui.api().list_workers(&cx.grant, Format::Json).await?;
    workers.retain(|worker| worker.name == name.as_str() && worker.stream.is_some());
    match workers.is_empty() {
        true => Err(Fault::missing(format!("connected worker `{name}`"))),
        false => Ok(workers),
    }
}

fn buttons(cx: &PageContext, name: &Name, workers: &[Worker]) -> Markup {
    let text = cx.text;
    let streams = || workers.iter().filter_map(|worker| worker.stream.as_ref());
    let is_quiet = streams().all(|stream| stream.quiet);
    let is_stopping = streams().any(|stream| stream.stopping);
    let link = |action: &str| format!("{}/{action}", cx.links.item("workers", name.as_str()));
    let (action, word) = match is_quiet {
        true => ("resume", text.resume),
        false => ("quiet", text.make_quiet),
    };
    html! {
        @if cx.may(Scope::Operate) && !is_stopping {
            div.actions data-live="actions" {
                form method="post" action=(link(action)) {
                    (cx.csrf())
                    button.primary[is_quiet] type="submit" { (word) }
                }
                a.button.danger href=(link("stop")) { (text.stop_worker) }
            }
        }
    }
}

fn facts(cx: &PageContext, worker: &Worker, stream: &WorkerStream) -> Markup {
    let text = cx.text;
    let kinds = match stream.kinds.as_slice() {
        [] => text.any_kind.to_owned(),
        kinds => kinds.join(", "),
    };
    html! {
        dl.facts data-live=(stream.incarnation) {
            div { dt { (text.state) } dd { (state(cx, worker, stream)) } }
            div { dt { (text.busy_slots) } dd { (slots(stream)) } }
            div { dt { (text.version) } dd.mono { (visible(stream.version.as_deref().unwrap_or("–"))) } }
            div { dt { (text.queues) } dd {
                @for queue in stream.queues.iter().take(20) { a href=(cx.links.queue(queue)) { (excerpt(queue, 40)) } " " } } }
            div { dt { (text.kinds) } dd { (excerpt(&kinds, 120)) } }
            @if !stream.versions.is_empty() {
                div { dt { (text.kind_versions) } dd.mono {
                    @for (kind, version) in stream.versions.iter().take(20) { (excerpt(kind, 40)) " " (version) " " } } }
            }
            div { dt { (text.connected) } dd { (cx.ago(stream.since)) } }
            div { dt { (text.heard) } dd { (cx.ago(stream.heard)) } }
            div { dt { (text.incarnation) } dd.mono { (excerpt(&stream.incarnation, 40)) } }
        }
    }
}

/// Makes a worker quiet.
pub(crate) async fn quiet(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    request(&ui, &cx, &name, (WorkerRequest::Quiet, Flash::Quiet)).await
}

/// Sends jobs to a quiet worker again.
pub(crate) async fn resume(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    request(&ui, &cx, &name, (WorkerRequest::Resume, Flash::WorkerResumed)).await
}

/// Asks before a worker is stopped.
pub(crate) async fn ask_stop(State(ui): State<Ui>, cx: PageContext, name: PathParam) -> PageResult {
    let name = name.name("worker")?;
    let workers = of_name(&ui, &cx, &name).await?;
    let streams = workers.iter().filter_map(|worker| worker.stream.as_ref());
    let running: usize = streams.map(|stream| stream.running).sum();
    let text = cx.text;
    let question = fill(text.ask_stop_worker, &[&name]);
    let link = cx.links.item("workers", name.as_str());
    let texts = QuestionTexts {
        question: &question,
        detail: &fill(text.stop_worker_effect, &[&grouped(running as u64)]),
        button: text.stop_worker,
    };
    let action = format!("{link}/stop");
    Ok(Confirmation::about(texts, &action, &link, true).page(&cx, NavItem::Workers))
}

/// Asks a worker to stop.
pub(crate) async fn stop(
    State(ui): State<Ui>,
    cx: PageContext,
    name: PathParam,
    _form: PostedForm,
) -> PageResult {
    request(&ui, &cx, &name, (WorkerRequest::Stop, Flash::WorkerStopping)).await
}

async fn request(
    ui: &Ui,
    cx: &PageContext,
    name: &PathParam,
    (request, flash): (WorkerRequest, Flash),
) -> PageResult {
    let name = name.name("worker")?;
    ui.api().request_worker(&cx.grant, &name, request, Format::Json).await?;
    Ok(cx.done(flash, &cx.links.item("workers", name.as_str())))
}
