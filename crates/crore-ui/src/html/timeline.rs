//! The timeline of a job: waiting, running and back-off, to scale.

use crore_core::Time;
use crore_wire::api::enums::HowEnded;
use crore_wire::api::job::Job;
use crore_wire::units::Moment;
use maud::{Markup, html};

use super::format::span;
use crate::context::PageContext;
use crate::text::fill;

/// Size of the drawing; it is stretched to the width of the page.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 28.0;
/// Minimum width of a segment, so that short runs are visible.
const MIN_WIDTH: f64 = 3.0;

/// A part of a job's life.
struct TimelinePart {
    from: Time,
    to: Time,
    class: &'static str,
    label: String,
}

/// Draws the timeline of a job until now, or until its end.
pub(crate) fn timeline(cx: &PageContext, job: &Job) -> Markup {
    let (from, segments) = (job.pushed_at.0, segments(cx, job));
    let to = job.ended_at.map_or(cx.now, |at| at.0).max(from);
    let length = to.since(from).as_millis().max(1) as f64;
    let x = |at: Time| at.since(from).as_millis() as f64 / length * WIDTH;
    html! {
        figure.timeline {
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img"
                aria-label=(cx.text.timeline) {
                @for segment in &segments {
                    @let start = x(segment.from).min(WIDTH - MIN_WIDTH);
                    rect class=(segment.class) x=(format!("{start:.1}")) y="4" height="20"
                        width=(format!("{:.1}", (x(segment.to) - start).max(MIN_WIDTH))) {
                        title { (segment.label) }
                    }
                }
            }
            figcaption {
                span { (cx.text.pushed) " " (cx.ago(job.pushed_at)) }
                span.key.t-wait { (cx.text.waits) }
                span.key.t-run { (cx.text.runs) }
                span.key.t-fail { (cx.text.fails) }
                span.end {
                    @match job.ended_at {
                        Some(at) => { (cx.text.ended) " " (cx.ago(at)) ", " (cx.between(job.pushed_at, at)) }
                        None => { (span(cx.text, cx.now.since(from))) }
                    }
                }
            }
        }
    }
}

/// The segments in order: a wait before each delivery, the delivery, and the wait until now.
fn segments(cx: &PageContext, job: &Job) -> Vec<TimelinePart> {
    let text = cx.text;
    let mut all = Vec::new();
    let mut last = job.pushed_at.0;
    let wait = |from: Time, to: Time| {
        let label = fill(text.waited_for, &[&span(text, to.since(from))]);
        TimelinePart { from, to, class: "t-wait", label }
    };
    for attempt in job.history.iter().rev() {
        all.push(wait(last, attempt.started_at.0));
        let took = span(text, attempt.duration.0);
        let worker = attempt.worker.as_deref().unwrap_or("–");
        let (from, to) = (attempt.started_at.0, attempt.ended_at.0);
        let label = fill(text.ran_for, &[&took, &worker]);
        all.push(TimelinePart { from, to, class: class(attempt.ended), label });
        last = to;
    }
    if let (Some(Moment(started)), Some(_)) = (job.started_at, job.lease_until) {
        all.push(wait(last, started));
        let worker = job.worker.as_deref().unwrap_or("–");
        let label = fill(text.runs_since, &[&span(text, cx.now.since(started)), &worker]);
        all.push(TimelinePart { from: started, to: cx.now, class: "t-run", label });
    } else if job.ended_at.is_none() {
        all.push(wait(last, cx.now));
    }
    all
}

const fn class(ended: HowEnded) -> &'static str {
    match ended {
        HowEnded::Done => "t-done",
        HowEnded::Failed | HowEnded::Lapsed | HowEnded::TimedOut => "t-fail",
        HowEnded::Snoozed | HowEnded::Interrupted | HowEnded::Cancelled => "t-stop",
    }
}
