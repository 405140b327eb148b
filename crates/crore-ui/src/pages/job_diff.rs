//! The difference between a failed job and the last good one.

use crore_wire::api::diff::{ComparedRun, FieldChange, FieldDiff, JobDiff};
use maud::{Markup, html};

use crate::context::PageContext;
use crate::html::format::{excerpt, span};
use crate::text::{Texts, fill};

/// Characters of a value that are shown.
const MAX_VALUE: usize = 200;

/// The fields that differ, and the runs with the versions of their workers.
pub(super) fn difference(cx: &PageContext, diff: &JobDiff) -> Markup {
    let text = cx.text;
    html! {
        section.panel data-live="diff" {
            h2 { (text.diff_title) }
            @match &diff.good {
                None => p.hint { (text.diff_no_good) },
                Some(good) => {
                    (runs(cx, diff.run.as_ref(), good))
                    @if !diff.comparable {
                        p.hint { (text.diff_incomparable) }
                    } @else if diff.fields.is_empty() {
                        p.hint { (text.diff_same) }
                    } @else {
                        (fields(text, diff))
                    }
                },
            }
        }
    }
}

/// When both ran, for how long, and on which version.
fn runs(cx: &PageContext, failed: Option<&ComparedRun>, good: &ComparedRun) -> Markup {
    let text = cx.text;
    let run = |label: &str, run: &ComparedRun| {
        html! {
            tr {
                th scope="row" { (label) }
                td { a href=(cx.links.job(run.job)) { (run.job) } }
                td { (cx.ago(run.ended_at)) }
                td.num { (span(text, run.duration.0)) }
                td { (excerpt(run.worker.as_deref().unwrap_or("–"), 40)) }
                td.mono { (excerpt(run.version.as_deref().unwrap_or("–"), 40)) }
            }
        }
    };
    html! {
        table {
            thead { tr {
                th { span.sr { (text.run) } }
                th { (text.id) } th { (text.when) } th.num { (text.duration) } th { (text.worker) } th { (text.version) }
            } }
            tbody {
                @if let Some(failed) = failed { (run(text.this_run, failed)) }
                (run(text.good_run, good))
            }
        }
    }
}

fn fields(text: &Texts, diff: &JobDiff) -> Markup {
    html! {
        table.diff {
            thead { tr { th { (text.field) } th { (text.change) } th { (text.good_run) } th { (text.this_run) } } }
            tbody { @for field in &diff.fields {
                tr class=(class(field)) {
                    td.mono.wide { (excerpt(&field.field, MAX_VALUE)) }
                    td { (word(text, field.change)) }
                    td.mono.wide { @if let Some(good) = &field.good { del { (excerpt(good, MAX_VALUE)) } } }
                    td.mono.wide { @if let Some(value) = &field.value { ins { (excerpt(value, MAX_VALUE)) } } }
                }
            } }
        }
        @if diff.field_count > diff.fields.len() {
            p.hint { (fill(text.n_more, &[&(diff.field_count - diff.fields.len())])) }
        }
    }
}

const fn class(field: &FieldDiff) -> &'static str {
    match field.change {
        FieldChange::Added => "added",
        FieldChange::Removed => "removed",
        FieldChange::Changed => "changed",
    }
}

const fn word(text: &Texts, change: FieldChange) -> &'static str {
    match change {
        FieldChange::Added => text.field_added,
        FieldChange::Removed => text.field_removed,
        FieldChange::Changed => text.field_changed,
    }
}
