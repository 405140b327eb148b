//! The button that pauses or resumes a queue or a schedule.

use maud::{Markup, html};

use crate::context::PageContext;

/// The button of the thing with this link. The one that resumes is the most important action of the page.
pub(crate) fn pause_button(cx: &PageContext, link: &str, is_paused: bool) -> Markup {
    let (action, word) = match is_paused {
        true => ("resume", cx.text.resume),
        false => ("pause", cx.text.pause),
    };
    html! {
        form method="post" action={ (link) "/" (action) } {
            (cx.csrf())
            button.primary[is_paused] type="submit" { (word) }
        }
    }
}
