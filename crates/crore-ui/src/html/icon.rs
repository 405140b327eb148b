//! Icons: lines on a grid of 16 by 16.

use maud::{Markup, html};

/// An icon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icon {
    Brand,
    Overview,
    Jobs,
    Queues,
    Workers,
    Schedules,
    Handlers,
    Limits,
    Errors,
    Groups,
    System,
    Search,
    More,
}

impl Icon {
    const fn path(self) -> &'static str {
        match self {
            Self::Brand => "M8 1.5l5.6 3.25v6.5L8 14.5l-5.6-3.25v-6.5zM5 6l3 1.75L11 6M8 7.75v3.5",
            Self::Overview => "M2 13.5h12M4 11V7M8 11V3M12 11V5.5",
            Self::Jobs => "M2.5 4h1M6 4h7.5M2.5 8h1M6 8h7.5M2.5 12h1M6 12h7.5",
            Self::Queues => "M2.5 3h11v3h-11zM2.5 6.5h11v3h-11zM2.5 10h11v3h-11z",
            Self::Workers => {
                "M4.5 4.5h7v7h-7zM6.5 2v2.5M9.5 2v2.5M6.5 11.5V14M9.5 11.5V14M2 6.5h2.5M2 9.5h2.5M11.5 6.5H14M11.5 9.5H14"
            }
            Self::Schedules => "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2zM8 4.8V8l2.3 1.6",
            Self::Handlers => "M2.5 3h11v10h-11zM5 6.2L7 8 5 9.8M8.5 10H11",
            Self::Limits => "M2.2 11.5a6 6 0 1 1 11.6 0M8 9.5l3-3.5",
            Self::Errors => "M8 2.2l6.2 11.3H1.8zM8 6.5v3.2M8 11.4v.4",
            Self::Groups => {
                "M8 2.5v3M8 5.5L4 9M8 5.5L12 9M2.5 9h3v3.5h-3zM10.5 9h3v3.5h-3zM6.5 1.5h3v1h-3z"
            }
            Self::System => {
                "M8 5.8a2.2 2.2 0 1 1 0 4.4 2.2 2.2 0 0 1 0-4.4zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6L5 5M11 11l1.4 1.4M3.6 12.4L5 11M11 5l1.4-1.4"
            }
            Self::Search => "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zM10.4 10.4L14 14",
            Self::More => {
                "M3 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8zM8 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8zM13 7.6a.4.4 0 1 1 0 .8.4.4 0 0 1 0-.8z"
            }
        }
    }
}

/// Shows an icon. It is decoration: a text is beside it.
pub(crate) fn icon(icon: Icon) -> Markup {
    html! {
        svg.icon viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" { path d=(icon.path()) {} }
    }
}
