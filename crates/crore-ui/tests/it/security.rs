//! Headers, redirects and the path prefix.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG};

use crate::browser::{Browser, Page};

/// Everything that is always there.
const PAGES: [&str; 8] = [
    "/ui/",
    "/ui/jobs",
    "/ui/jobs?q=state:x",
    "/ui/jobs/17",
    "/ui/queues",
    "/ui/queues/mail",
    "/ui/operations",
    "/ui/nothing/here",
];

fn assert_guarded(path: &str, page: &Page) {
    let header = |name: &str| page.headers.get(name).map(|value| value.to_str().unwrap());
    let policy = header(CONTENT_SECURITY_POLICY.as_str()).unwrap_or_default();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
        "{path}"
    );
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{path}");
    assert_eq!(header("x-content-type-options"), Some("nosniff"), "{path}");
    assert_eq!(header("referrer-policy"), Some("same-origin"), "{path}");
}

#[tokio::test]
async fn every_page_has_a_strict_policy_and_nothing_inline() {
    let mut browser = Browser::new();
    browser.engine.push("mail", "{}").kind("mail").wait().unwrap();
    for path in PAGES {
        let page = browser.get(path).await;
        assert_guarded(path, &page);
        assert!(page.text.starts_with("<!DOCTYPE html>"), "{path}: {}", page.text);
        assert_eq!(page.headers[CACHE_CONTROL], "no-store", "{path}");
        for forbidden in
            ["style=", "onclick=", "<style", "<script>", "javascript:", "http://", "https://"]
        {
            assert!(!page.has(forbidden), "{path} has {forbidden}");
        }
    }
}

#[tokio::test]
async fn assets_are_kept_by_the_browser_until_they_change() {
    let mut browser = Browser::new();
    let page = browser.get("/ui/").await;
    let links = page.text.split('"').filter(|part| part.contains("/assets/"));
    let links: Vec<String> = links.map(str::to_owned).collect();
    assert_eq!(links.len(), 3, "style, icon and script");
    for link in links {
        let asset = browser.get(&link).await;
        assert_eq!(asset.status, StatusCode::OK);
        assert_guarded(&link, &asset);
        assert!(asset.headers[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        assert!(asset.headers.contains_key(ETAG));
    }
    assert_eq!(browser.get("/ui/assets/x/secret.txt").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_browser_at_the_root_is_sent_to_the_pages() {
    let mut browser = Browser::new();
    assert_eq!(browser.get("/").await.location(), "/ui/");
    assert_eq!(browser.get("/ui").await.location(), "/ui/");
    let mut program = Browser::new().with_header("accept", "application/json");
    let page = program.get("/").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER, "a browser accepts HTML among others");
}

#[tokio::test]
async fn links_are_below_the_prefix_of_a_proxy() {
    let mut browser = Browser::new().with_header("x-forwarded-prefix", "/ops/crore");
    browser.engine.push("mail", "{}").kind("mail").wait().unwrap();
    for path in ["/ui/", "/ui/jobs", "/ui/jobs/1", "/ui/queues/mail"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        let absolute = page.text.split(['"', '\'']).filter(|part| part.starts_with('/'));
        let outside: Vec<_> = absolute.filter(|link| !link.starts_with("/ops/crore/ui/")).collect();
        // The key that opens the search.
        assert!(outside.iter().all(|link| *link == "/"), "{path}: {outside:?}");
    }
    assert_eq!(browser.get("/").await.location(), "/ops/crore/ui/");
    let mut evil = Browser::new().with_header("x-forwarded-prefix", "//evil.example");
    assert_eq!(evil.get("/").await.location(), "/ui/");
}

#[tokio::test]
async fn preferences_are_cookies_and_the_language_follows_the_browser() {
    let mut browser = Browser::new().with_header("accept-language", "ja,en;q=0.5");
    assert!(browser.get("/ui/").await.has(r#"<html lang="ja""#));
    let page = browser.get("/ui/jobs?q=kind:a&set-language=en").await;
    assert_eq!(page.location(), "/ui/jobs?q=kind%3Aa");
    assert!(browser.get("/ui/").await.has(r#"<html lang="en""#));
    browser.get("/ui/?set-theme=dark").await;
    assert!(browser.get("/ui/").await.has(r#"data-theme="dark""#));
    browser.get("/ui/?set-theme=system").await;
    assert!(!browser.get("/ui/").await.has("data-theme"));
    browser.get("/ui/?range=7d").await;
    assert_eq!(browser.cookie("crore-range"), Some("7d"));
    assert!(browser.get("/ui/queues/q").await.has("</span>7d</summary>"));
}
