//! Texts of the API, which are English in every language of the pages.

use maud::{Markup, html};

use super::format::visible;
use crate::context::PageContext;
use crate::language::Language;
use crate::text::Texts;

/// A text of the API, marked as English for browsers and screen readers.
pub(crate) fn english(text: &str) -> Markup {
    html! { span lang="en" { (visible(text)) } }
}

/// A reason why jobs wait: in another language than English, first in the words of that language.
pub(crate) fn reason(cx: &PageContext, code: &str, detail: &str) -> Markup {
    match reason_words(cx.text, code).filter(|_| cx.language() != Language::English) {
        Some(words) => html! { (words) " " span.hint { "(" (english(detail)) ")" } },
        None => english(detail),
    }
}

/// The words for the code of a reason.
fn reason_words(text: &Texts, code: &str) -> Option<&'static str> {
    Some(match code {
        "waits-for" => text.reason_waits_for,
        "waits-for-event" => text.reason_waits_for_event,
        "due-at" => text.reason_due_at,
        "paused" => text.reason_paused,
        "limited" => text.reason_limited,
        "limit-paused" => text.reason_limit_paused,
        "behind" => text.reason_behind,
        "shared" => text.reason_shared,
        "no-worker-version" => text.reason_no_worker_version,
        "nobody-waits" | "no-worker" => text.reason_no_worker,
        "workers-quiet" => text.reason_workers_quiet,
        "workers-busy" => text.reason_workers_busy,
        "scheduled" => text.reason_scheduled,
        "none" => text.reason_none,
        _ => return None,
    })
}
