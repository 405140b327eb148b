//! Names, payloads and errors from outside are shown as text.

use crate::browser::Browser;

const NASTY: [&str; 4] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "a\u{202e}gnp.exe",
    "'; --&amp;\u{200b}",
];

#[tokio::test]
async fn hostile_names_are_escaped_everywhere() {
    let mut browser = Browser::new();
    for name in NASTY {
        let payload = serde_json::to_string(&serde_json::json!({ name: name })).unwrap();
        let id = browser.engine.push(name, payload).kind(name).wait().unwrap().0;
        let queue: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            "/ui/".to_owned(),
            "/ui/jobs".to_owned(),
            format!("/ui/jobs?q={queue}"),
            format!("/ui/jobs/{id}"),
            format!("/ui/jobs/{id}/replay"),
            format!("/ui/jobs/{id}/delete"),
            "/ui/queues".to_owned(),
            format!("/ui/queues/{queue}"),
            format!("/ui/queues/{queue}/drain"),
        ] {
            let page = browser.get(&path).await;
            assert!(page.status.is_success(), "{path}: {}", page.text);
            for raw in ["<script>alert", "<img src=x"] {
                assert!(!page.has(raw), "{path}");
            }
        }
    }
    let page = browser.get("/ui/queues").await;
    assert!(page.has("&lt;script&gt;alert(1)&lt;/script&gt;") && page.has("U+202E"));
}

#[tokio::test]
async fn a_large_payload_makes_a_bounded_page() {
    let mut browser = Browser::new();
    let text = format!("\"{}\"", "<i>\\u0000".repeat(100_000));
    let id = browser.engine.push("q", text).kind("k").wait().unwrap().0;
    let page = browser.get(&format!("/ui/jobs/{id}")).await;
    assert!(page.text.len() < 300_000 && page.has("more bytes") && !page.has("<i>"));
    let file = browser.get(&format!("/ui/jobs/{id}/payload")).await;
    assert_eq!(file.text.len(), 900_002);
    assert_eq!(file.headers["content-type"], "application/octet-stream");
    assert!(file.headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
}
