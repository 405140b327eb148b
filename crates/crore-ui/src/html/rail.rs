//! The navigation.

use maud::{Markup, html};

use super::icon::{Icon, icon};
use crate::links::Links;
use crate::text::Texts;

macro_rules! items {
    ($($item:ident $path:literal $text:ident $key:literal,)+) => {
        /// A section of the pages.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum NavItem {
            $($item,)+
        }

        impl NavItem {
            const ALL: &[Self] = &[$(Self::$item,)+];

            /// Its path below `/ui/`.
            const fn path(self) -> &'static str {
                match self { $(Self::$item => $path,)+ }
            }

            /// Its title.
            pub(crate) const fn title(self, text: &Texts) -> &'static str {
                match self { $(Self::$item => text.$text,)+ }
            }

            /// The key that opens it after `g`.
            const fn key(self) -> &'static str {
                match self { $(Self::$item => $key,)+ }
            }

            const fn icon(self) -> Icon {
                match self { $(Self::$item => Icon::$item,)+ }
            }
        }
    };
}

// Each with its path, its text, and the key that opens it after `g`. An icon of the same name is in `icon.rs`.
items! {
    Overview "" overview "o",
    Jobs "jobs" jobs "j",
    Queues "queues" queues "q",
    Workers "workers" workers "w",
    Schedules "schedules" schedules "s",
    Handlers "handlers" handlers "h",
    Limits "limits" limits "l",
    Errors "errors" errors "e",
    Groups "groups" groups "r",
    System "system" system "y",
}

/// The rail. Below 600 px it is a bar at the bottom.
pub(crate) fn rail(text: &Texts, links: &Links, active: Option<NavItem>) -> Markup {
    html! {
        nav.rail aria-label=(text.navigation) {
            a.brand href=(links.root()) { (icon(Icon::Brand)) span { "crore" } }
            ul {
                @for item in NavItem::ALL.iter().copied() {
                    li {
                        a href=(links.to(item.path())) data-go=(item.key())
                            aria-current=[(active == Some(item)).then_some("page")] {
                            (icon(item.icon())) span { (item.title(text)) }
                        }
                    }
                }
            }
        }
    }
}
