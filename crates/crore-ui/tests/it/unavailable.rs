//! A server that has stopped its engine: it reads, but refuses to change anything.

use http::StatusCode;

use crate::browser::Browser;

#[tokio::test]
async fn an_action_that_cannot_be_stored_says_what_to_do() {
    let mut browser = Browser::new();
    let id = browser.engine.push("mail", "{}").kind("mail").wait().unwrap().0;
    let csrf = browser.get(&format!("/ui/jobs/{id}/delete")).await.csrf();
    browser.engine.stop().unwrap();
    for path in [format!("/ui/jobs/{id}/delete"), "/ui/queues/mail/pause".to_owned()] {
        let page = browser.post(&path, &[("csrf", &csrf)]).await;
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{path}: {}", page.text);
        assert!(page.has("Try again in a moment.") && page.has("To the overview"), "{path}");
        assert!(page.has("<nav"), "{path}: the navigation is there");
    }
}
