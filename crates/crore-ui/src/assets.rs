//! Style sheet, scripts and icon, embedded in the binary.
//!
//! Their path contains a hash of all of them, so that browsers can keep them for ever.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use crore_api::Fault;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! assets {
    ($($name:literal: $kind:expr,)+) => {
        const ASSETS: &[Asset] = &[
            $(Asset { name: $name, kind: $kind, text: include_str!(concat!("../assets/", $name)) },)+
        ];
    };
}

assets! {
    "ui.css": "text/css; charset=utf-8",
    "ui.js": SCRIPT,
    "charts.js": SCRIPT,
    "completion.js": SCRIPT,
    "keys.js": SCRIPT,
    "live.js": SCRIPT,
    "menus.js": SCRIPT,
    "times.js": SCRIPT,
    "views.js": SCRIPT,
    "icon.svg": "image/svg+xml",
}

/// A hash of all assets.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    ASSETS.iter().for_each(|asset| hash.update(asset.text));
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

/// The path of an asset below `/ui/`.
pub(crate) fn path(name: &str) -> String {
    format!("assets/{}/{name}", *VERSION)
}

/// Serves an asset. One of another version is served too, but not kept by the browser.
pub(crate) async fn serve(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return Fault::missing("this file").into_response();
    };
    let tag = format!("\"{}\"", *VERSION);
    let age = match version == *VERSION {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let head = [(CACHE_CONTROL, age), (ETAG, tag.as_str()), (CONTENT_TYPE, asset.kind)];
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, asset.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assets_are_small_and_load_nothing_from_elsewhere() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(bytes < 100_000, "{bytes}");
        for asset in ASSETS.iter().filter(|asset| asset.kind != "image/svg+xml") {
            assert!(
                !asset.text.contains("http:") && !asset.text.contains("https:"),
                "{}",
                asset.name
            );
            assert!(!asset.text.contains("innerHTML"), "{}", asset.name);
        }
    }
}
