//! The page that asks before a destructive action. It names the thing and the number of jobs; above [`MAX_UNTYPED`] the
//! number has to be typed.

use axum::response::Response;
use crore_core::{Code, Invalid};
use maud::{Markup, html};

use super::format::grouped;
use super::layout::PageFrame;
use super::rail::NavItem;
use crate::context::PageContext;
use crate::form::PostedForm;
use crate::text::fill;

/// Maximum number of jobs that are changed without typing their number.
const MAX_UNTYPED: u64 = 100;

/// A question before an action.
#[derive(Debug)]
pub(crate) struct Confirmation<'a> {
    /// The question: `Delete 3,214 dead jobs of queue mail?`
    pub(crate) question: &'a str,
    /// The consequences.
    pub(crate) detail: &'a str,
    /// The link that is posted to.
    pub(crate) action: &'a str,
    /// Hidden fields of the form.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// The text of the button.
    pub(crate) button: &'a str,
    /// Whether the action cannot be undone.
    pub(crate) is_danger: bool,
    /// Number of jobs that are affected.
    pub(crate) jobs: u64,
    /// The link to return to.
    pub(crate) back: &'a str,
}

/// The texts of a question.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuestionTexts<'a> {
    /// The question.
    pub(crate) question: &'a str,
    /// The consequences.
    pub(crate) detail: &'a str,
    /// The text of the button.
    pub(crate) button: &'a str,
}

impl<'a> Confirmation<'a> {
    /// A question about one thing, such as a queue: its answer is posted to `action`, and `back` is the page of the thing.
    pub(crate) const fn about(
        texts: QuestionTexts<'a>,
        action: &'a str,
        back: &'a str,
        is_danger: bool,
    ) -> Self {
        let QuestionTexts { question, detail, button } = texts;
        Self { question, detail, action, fields: &[], button, is_danger, jobs: 0, back }
    }

    /// The page of the question.
    pub(crate) fn page(&self, cx: &PageContext, section: NavItem) -> Response {
        cx.page(&PageFrame::still(section, self.question), &self.show(cx))
    }

    /// The question and its form.
    pub(crate) fn show(&self, cx: &PageContext) -> Markup {
        let class = if self.is_danger { "danger" } else { "primary" };
        html! {
            section.confirm {
                h1 { (self.question) }
                p { (self.detail) }
                form method="post" action=(self.action) {
                    (cx.csrf())
                    @for (name, value) in self.fields {
                        input type="hidden" name=(name) value=(value);
                    }
                    input type="hidden" name="jobs" value=(self.jobs);
                    @if self.jobs > MAX_UNTYPED {
                        label for="typed" { (fill(cx.text.type_number, &[&grouped(self.jobs)])) }
                        input #typed name="typed" inputmode="numeric" autocomplete="off" required
                            pattern="[0-9,]*" autofocus;
                    }
                    div.buttons {
                        button type="submit" class=(class) { (self.button) }
                        a.button href=(self.back) { (cx.text.back) }
                    }
                }
            }
        }
    }
}

/// Refuses a form of a [`Confirmation`] in which the number of jobs was not typed.
pub(crate) fn check_typed(form: &PostedForm) -> Result<(), Invalid> {
    let jobs: u64 = form.parsed("jobs", "a number")?.unwrap_or_default();
    if jobs <= MAX_UNTYPED {
        return Ok(());
    }
    let typed = form.get("typed").unwrap_or_default().replace([',', ' '], "");
    match typed.parse() == Ok(jobs) {
        true => Ok(()),
        false => {
            let why = format!("the action changes {jobs} jobs; type this number to confirm it");
            Err(Invalid::new(Code::Malformed, "typed", why))
        }
    }
}
