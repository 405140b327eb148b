//! The language of a visitor.

use http::HeaderMap;
use http::header::ACCEPT_LANGUAGE;

use crate::text::{ENGLISH, JAPANESE, Texts};

/// A language of the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Japanese,
}

impl Language {
    pub(crate) const ALL: [Self; 2] = [Self::English, Self::Japanese];

    /// Its code, as in `lang`.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Japanese => "ja",
        }
    }

    /// Its own name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Japanese => "日本語",
        }
    }

    /// The texts in this language.
    pub(crate) const fn texts(self) -> &'static Texts {
        match self {
            Self::English => &ENGLISH,
            Self::Japanese => &JAPANESE,
        }
    }

    /// The language with this code.
    pub(crate) fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.code() == code)
    }

    /// The language that a browser prefers, English by default.
    pub(crate) fn preferred(headers: &HeaderMap) -> Self {
        let accepted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let weighted = accepted.unwrap_or_default().split(',').filter_map(|item| {
            let (tag, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let code = tag.trim().split('-').next().unwrap_or_default().to_ascii_lowercase();
            let weight: f32 = weight.trim().strip_prefix("q=")?.trim().parse().ok()?;
            Self::of_code(&code).filter(|_| weight > 0.0).map(|language| (language, weight))
        });
        // Of equal weights, the first is preferred.
        let best = weighted.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Self::English, |(language, _)| language)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_language_with_the_largest_weight_is_chosen() {
        for (header, language) in [
            ("ja", Language::Japanese),
            ("ja-JP,en;q=0.5", Language::Japanese),
            ("de,en;q=0.8,ja;q=0.9", Language::Japanese),
            ("en, ja", Language::English),
            ("ja;q=0, de", Language::English),
            ("*;q=x", Language::English),
            ("", Language::English),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(header));
            assert_eq!(Language::preferred(&headers), language, "{header}");
        }
    }
}
