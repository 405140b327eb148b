//! Sparklines: small bars of counts, oldest first.

use maud::{Markup, html};

use super::format::grouped;

/// Size of a bar, and of the drawing.
const BAR: usize = 4;
const HEIGHT: u64 = 24;

/// Bars of counts. `label` says what they count, for screen readers and as title.
pub(crate) fn sparkline(counts: &[u64], label: &str) -> Markup {
    let most = counts.iter().copied().max().unwrap_or_default().max(1);
    let sum: u64 = counts.iter().sum();
    let title = format!("{label}: {}", grouped(sum));
    html! {
        svg.spark viewBox=(format!("0 0 {} {HEIGHT}", counts.len() * BAR)) preserveAspectRatio="none"
            role="img" aria-label=(title) {
            title { (title) }
            line.grid x1="0" x2=(counts.len() * BAR) y1=(HEIGHT) y2=(HEIGHT) {}
            @for (n, count) in counts.iter().copied().enumerate() {
                @if count > 0 {
                    @let height = (count * HEIGHT / most).max(2);
                    rect x=(n * BAR) y=(HEIGHT - height) width=(BAR - 1) height=(height) {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_is_full_and_zeros_have_none() {
        let html = sparkline(&[0, 5, 10, 1], "errors").into_string();
        assert_eq!(html.matches("<rect").count(), 3);
        assert!(html.contains(r#"y="0" width="3" height="24""#) && html.contains("errors: 16"));
        assert!(!sparkline(&[], "none").into_string().contains("<rect"));
    }
}
