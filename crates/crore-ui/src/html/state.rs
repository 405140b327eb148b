//! States of jobs: a coloured dot with its word.

use crore_wire::api::enums::State;
use maud::{Markup, html};

use crate::context::PageContext;
use crate::text::Texts;

/// All states, in the order of tabs.
pub(crate) const STATES: [State; 7] = [
    State::Ready,
    State::Running,
    State::Scheduled,
    State::Waiting,
    State::Dead,
    State::Done,
    State::Cancelled,
];

/// The name of a state in the API, in filters and in class names.
pub(crate) const fn name(state: State) -> &'static str {
    match state {
        State::Waiting => "waiting",
        State::Scheduled => "scheduled",
        State::Ready => "ready",
        State::Running => "running",
        State::Done => "done",
        State::Dead => "dead",
        State::Cancelled => "cancelled",
    }
}

/// The state with this name.
pub(crate) fn of_name(text: &str) -> Option<State> {
    STATES.into_iter().find(|state| name(*state) == text)
}

/// The word for a state.
pub(crate) const fn word(text: &Texts, state: State) -> &'static str {
    match state {
        State::Waiting => text.waiting,
        State::Scheduled => text.scheduled,
        State::Ready => text.ready,
        State::Running => text.running,
        State::Done => text.done,
        State::Dead => text.dead,
        State::Cancelled => text.cancelled,
    }
}

impl PageContext {
    /// A state. A scheduled job that has failed before is retrying.
    pub(crate) fn state(&self, state: State, attempt: u32) -> Markup {
        match (state, attempt) {
            (State::Scheduled, 1..) => dot("retrying", self.text.retrying),
            (state, _) => dot(name(state), word(self.text, state)),
        }
    }
}

/// A coloured dot with a word.
pub(crate) fn dot(class: &str, word: &str) -> Markup {
    html! { span class={ "state s-" (class) } { (word) } }
}
