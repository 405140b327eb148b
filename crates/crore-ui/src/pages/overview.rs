//! The overview: states, traffic, and what needs attention.

use std::collections::BTreeMap;

use axum::extract::State;
use crore_api::Fault;
use crore_core::Code;
use crore_wire::Format;
use crore_wire::api::enums;
use crore_wire::api::limits::Limit;
use maud::{Markup, html};

use super::overview_tables::{blocking_limits, errors, late_queues, next_runs};
use super::traffic::{by_queue, traffic};
use crate::Ui;
use crate::context::{PageContext, PageResult};
use crate::html::empty;
use crate::html::format::number;
use crate::html::layout::PageFrame;
use crate::html::rail::NavItem;
use crate::html::state;
use crate::links::Links;

/// The states that have a tile.
const TILES: [enums::State; 6] = [
    enums::State::Ready,
    enums::State::Running,
    enums::State::Scheduled,
    enums::State::Waiting,
    enums::State::Dead,
    enums::State::Done,
];

/// The overview page.
pub(crate) async fn page(State(ui): State<Ui>, cx: PageContext) -> PageResult {
    let (api, text) = (ui.api(), cx.text);
    let states = states(&ui, &cx).await?;
    let traffic = traffic(&ui, &cx, None).await?;
    let queues = by_queue(&ui, &cx).await?;
    let slots = slots(&ui, &cx).await?;
    let schedules = api.list_schedules(&cx.grant).await?;
    let limits = limits(&ui, &cx).await?;
    let errors = errors(&ui, &cx)?;
    let is_empty = states.is_empty() && traffic.total().pushed == 0;
    let content = html! {
        h1.sr { (text.overview) }
        (tiles(&cx, &states, slots))
        @if is_empty {
            (empty::with_command(text, text.no_jobs_yet, "crore job push hello '{\"name\": \"Ada\"}'"))
        }
        (traffic.charts(&cx))
        div.columns {
            (late_queues(&cx, &queues))
            (errors)
            (next_runs(&cx, &schedules))
            (blocking_limits(&cx, &limits))
        }
    };
    Ok(cx.page(&PageFrame::new(NavItem::Overview, text.overview), &content))
}

/// Number of jobs by the name of their state.
async fn states(ui: &Ui, cx: &PageContext) -> Result<BTreeMap<&'static str, u64>, Fault> {
    let mut states = BTreeMap::new();
    for count in ui.api().recent_counts(&cx.grant).await?.iter() {
        *states.entry(state::name(count.state.into())).or_default() += count.n;
    }
    Ok(states)
}

/// The limits. They belong to no queue, so a restricted caller sees none.
async fn limits(ui: &Ui, cx: &PageContext) -> Result<Vec<Limit>, Fault> {
    match ui.api().list_limits(&cx.grant).await {
        Ok(limits) => Ok(limits.limits),
        Err(fault) if fault.code() == Code::ScopeMissing => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

/// Busy and all slots of the workers that are connected by a stream.
async fn slots(ui: &Ui, cx: &PageContext) -> Result<(u64, u64), Fault> {
    let workers = ui.api().list_workers(&cx.grant, Format::Json).await?;
    let streams = workers.iter().filter_map(|worker| worker.stream.as_ref());
    Ok(streams.fold((0, 0), |(busy, all), stream| {
        (busy + stream.running as u64, all + stream.slots as u64)
    }))
}

fn tiles(cx: &PageContext, states: &BTreeMap<&str, u64>, (busy, all): (u64, u64)) -> Markup {
    let link = |links: &Links, state| links.with("jobs", &[("state", state::name(state))]);
    html! {
        div.tiles data-live="tiles" {
            @for state in TILES {
                @let n = states.get(state::name(state)).copied().unwrap_or_default();
                a.tile href=(link(&cx.links, state)) {
                    (state::dot(state::name(state), state::word(cx.text, state)))
                    strong { (number(n)) }
                }
            }
            div.tile {
                span { (cx.text.busy_slots) }
                strong { (number(busy)) small { " / " (number(all)) } }
            }
        }
    }
}
