//! The bar at the top: search, time range, live updates, and the visitor's menu.

use maud::{Markup, html};

use super::format::visible;
use super::icon::{Icon, icon};
use crate::context::PageContext;
use crate::language::Language;
use crate::range::ChartRange;
use crate::visitor::{Theme, Visitor};

/// The bar of an admitted caller.
pub(crate) fn top_bar(visitor: &Visitor, cx: &PageContext) -> Markup {
    let (text, links) = (cx.text, &cx.links);
    html! {
        header.bar {
            form.search role="search" method="get" action=(links.to("jobs")) {
                (icon(Icon::Search))
                input name="q" type="search" placeholder=(text.search_hint) aria-label=(text.search)
                    aria-keyshortcuts="/" autocomplete="off" spellcheck="false" data-filter;
                input type="hidden" name="go" value="1";
            }
            details.menu {
                summary { span.sr { (text.time_range) } (cx.range().name()) }
                div.pop {
                    @for range in ChartRange::ALL {
                        a href=(cx.here_with("range", range.name()))
                            aria-current=[(range == cx.range()).then_some("true")] { (range.name()) }
                    }
                }
            }
            button.live type="button" data-live-toggle hidden { (text.live) }
            details.menu {
                summary aria-label=(text.menu) { (icon(Icon::More)) }
                div.pop.wide {
                    p.who { (text.signed_in) " " b { (visible(&cx.grant.who().to_string())) } }
                    (theme_links(visitor, cx))
                    (language_links(visitor, cx))
                    button type="button" data-open-keys hidden { (text.keys) " " kbd { "?" } }
                    @if cx.has_session() {
                        form method="post" action=(links.to("logout")) {
                            button type="submit" { (text.log_out) }
                        }
                    }
                }
            }
        }
    }
}

fn theme_links(visitor: &Visitor, cx: &PageContext) -> Markup {
    let text = cx.text;
    let themes = [
        (None, "system", text.theme_system),
        (Some(Theme::Light), "light", text.theme_light),
        (Some(Theme::Dark), "dark", text.theme_dark),
    ];
    html! {
        div.choice role="group" aria-label=(text.theme) {
            @for (theme, name, word) in themes {
                a href=(cx.here_with("set-theme", name))
                    aria-current=[(visitor.theme() == theme).then_some("true")] { (word) }
            }
        }
    }
}

fn language_links(visitor: &Visitor, cx: &PageContext) -> Markup {
    html! {
        div.choice role="group" aria-label=(cx.text.language) {
            @for language in Language::ALL {
                a lang=(language.code()) href=(cx.here_with("set-language", language.code()))
                    aria-current=[(visitor.language() == language).then_some("true")] {
                    (language.name())
                }
            }
        }
    }
}
