//! The frame of every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::rail::{NavItem, rail};
use super::top_bar::top_bar;
use crate::assets;
use crate::context::PageContext;
use crate::text::Texts;
use crate::visitor::{Theme, Visitor};

/// Title and section of a page.
#[derive(Debug, Clone)]
pub(crate) struct PageFrame<'a> {
    section: Option<NavItem>,
    title: &'a str,
    is_live: bool,
    has_rail: bool,
}

impl<'a> PageFrame<'a> {
    /// A page that is updated live.
    pub(crate) const fn new(section: NavItem, title: &'a str) -> Self {
        Self { section: Some(section), title, is_live: true, has_rail: true }
    }

    /// A page that stays as it is, such as a form.
    pub(crate) const fn still(section: NavItem, title: &'a str) -> Self {
        Self { section: Some(section), title, is_live: false, has_rail: true }
    }

    /// A page of no section.
    pub(crate) const fn apart(title: &'a str) -> Self {
        Self { section: None, title, is_live: false, has_rail: true }
    }

    /// A page without navigation: the login.
    pub(crate) const fn bare(title: &'a str) -> Self {
        Self { section: None, title, is_live: false, has_rail: false }
    }
}

/// Renders a page. Without a context there is no bar at the top: the caller is not admitted, or the page is an error.
pub(crate) fn page(
    visitor: &Visitor,
    cx: Option<&PageContext>,
    frame: &PageFrame<'_>,
    content: &Markup,
) -> Html<String> {
    let (text, links) = (visitor.language().texts(), visitor.links());
    let asset = |name: &str| links.to(&assets::path(name));
    let live = links.to("live");
    let units =
        [text.unit_milli, text.unit_second, text.unit_minute, text.unit_hour, text.unit_day];
    let page = html! {
        (DOCTYPE)
        html lang=(visitor.language().code()) data-theme=[visitor.theme().map(Theme::name)] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (frame.title) " · crore" }
                link rel="stylesheet" href=(asset("ui.css"));
                link rel="icon" type="image/svg+xml" href=(asset("icon.svg"));
                script type="module" src=(asset("ui.js")) {}
            }
            body data-root=(links.root()) data-live-url=[frame.is_live.then_some(&live)]
                data-units=(units.join(" ")) data-ago=(text.ago) data-in=(text.in_future)
                data-now=(text.now) data-copied=(text.copied) data-new=(text.new_rows)
                data-live-text=(text.live) data-paused-text=(text.live_paused)
                data-lost=(text.live_lost) class=[(!frame.has_rail).then_some("bare")] {
                a.skip href="#main" { (text.skip) }
                @if frame.has_rail { (rail(text, links, frame.section)) }
                @if let Some(cx) = cx { (top_bar(visitor, cx)) }
                main #main tabindex="-1" { (content) }
                @if let Some(cx) = cx { (key_help(cx.text)) }
            }
        }
    };
    Html(page.into_string())
}

/// The list of keys, which `?` opens.
fn key_help(text: &Texts) -> Markup {
    let keys = [
        ("/", text.key_search),
        ("j k", text.key_move),
        ("Enter", text.key_open),
        ("x", text.key_select),
        ("r", text.key_retry),
        ("g o q j w s e", text.key_go),
        ("?", text.key_help),
        ("Esc", text.key_close),
    ];
    html! {
        dialog #keys aria-label=(text.keys) {
            h2 { (text.keys) }
            dl.keys {
                @for (key, what) in keys {
                    dt { @for one in key.split(' ') { kbd { (one) } " " } }
                    dd { (what) }
                }
            }
        }
    }
}
