//! The members of a group as a graph: a column for each step of dependencies, from left to right.

use std::collections::BTreeMap;

use crore_core::job::DependencyTarget;
use crore_core::{Job, JobId};
use maud::{Markup, html};

use crate::context::PageContext;
use crate::html::state;

/// Size of a node, and distances between nodes.
const WIDTH: usize = 170;
const HEIGHT: usize = 40;
const GAP_X: usize = 60;
const GAP_Y: usize = 12;
/// Maximum number of columns and rows.
const MAX_COLUMNS: usize = 12;
/// Characters of a kind in a node.
const KIND: usize = 18;

/// A placed node.
struct GraphNode<'a> {
    job: &'a Job,
    x: usize,
    y: usize,
}

/// Draws the members, and the dependencies between them.
pub(super) fn graph(cx: &PageContext, jobs: &[Job]) -> Markup {
    let nodes = place(jobs);
    let width = nodes.values().map(|node| node.x + WIDTH).max().unwrap_or(0) + 2;
    let height = nodes.values().map(|node| node.y + HEIGHT).max().unwrap_or(0) + 2;
    html! {
        div.graph {
            svg viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height) role="group"
                aria-label=(cx.text.group_graph) {
                @for node in nodes.values() {
                    @for from in needed(node.job).filter_map(|id| nodes.get(&id)) { path.edge d=(edge(from, node)) {} }
                }
                @for node in nodes.values() { (shown(cx, node)) }
            }
        }
    }
}

fn shown(cx: &PageContext, node: &GraphNode<'_>) -> Markup {
    let GraphNode { job, x, y } = node;
    let state = job.live.state.into();
    let kind: String = job.spec.kind.as_str().chars().take(KIND).collect();
    html! {
        a href=(cx.links.job(job.id)) {
            title { (job.spec.kind) " " (job.id) ": " (state::word(cx.text, state)) }
            rect.node x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
            circle class=(format!("dot s-{}", state::name(state))) cx=(x + 14) cy=(y + HEIGHT / 2) r="4" {}
            text x=(x + 26) y=(y + 17) { (kind) }
            text.sub x=(x + 26) y=(y + 32) { (job.id) " · " (state::word(cx.text, state)) }
        }
    }
}

/// A curve from the right side of a node to the left side of another.
fn edge(from: &GraphNode<'_>, to: &GraphNode<'_>) -> String {
    let (x1, y1) = (from.x + WIDTH, from.y + HEIGHT / 2);
    let (x2, y2) = (to.x, to.y + HEIGHT / 2);
    let middle = (x1 + x2) / 2;
    format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")
}

/// The jobs that a job waits for, or its parent.
fn needed(job: &Job) -> impl Iterator<Item = JobId> {
    let after = job.spec.after.iter().filter_map(|dependency| match dependency.on {
        DependencyTarget::Job(id) => Some(id),
        DependencyTarget::Group(_) => None,
    });
    after.chain(job.spec.parent.map(|(parent, _)| parent))
}

/// Places each job to the right of all jobs that it needs.
fn place(jobs: &[Job]) -> BTreeMap<JobId, GraphNode<'_>> {
    let mut columns: BTreeMap<JobId, usize> = jobs.iter().map(|job| (job.id, 0)).collect();
    // A dependency has a smaller id than the job that needs it, so one pass in the order of ids is enough.
    let mut sorted: Vec<&Job> = jobs.iter().collect();
    sorted.sort_by_key(|job| job.id);
    for job in &sorted {
        let left = needed(job).filter_map(|id| columns.get(&id)).max();
        let column = left.map_or(0, |left| (left + 1).min(MAX_COLUMNS - 1));
        columns.insert(job.id, column);
    }
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    let mut nodes = BTreeMap::new();
    for job in sorted {
        let column = columns.get(&job.id).copied().unwrap_or(0);
        let row = rows.entry(column).or_default();
        let (x, y) = (1 + column * (WIDTH + GAP_X), 1 + *row * (HEIGHT + GAP_Y));
        *row += 1;
        nodes.insert(job.id, GraphNode { job, x, y });
    }
    nodes
}
