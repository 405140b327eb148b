//! Lists: filters, tabs, pages, and what a restricted caller sees.

use crore::core::Payload;
use crore_api::Scope;
use http::StatusCode;

use crate::browser::Browser;

#[tokio::test]
async fn a_wrong_filter_is_explained_at_its_character() {
    let mut browser = Browser::new();
    let page = browser.get("/ui/jobs?q=kind:mail+state:deed").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.has("kind:mail state:deed\n<b>                ^</b>"), "{}", page.text);
    assert!(page.has("deed") && page.has("role=\"alert\""));
}

#[tokio::test]
async fn a_search_that_finds_one_job_opens_it() {
    let mut browser = Browser::new();
    for n in 0..3 {
        let payload = format!(r#"{{"customer":{n}}}"#);
        browser
            .engine
            .push_payload("exports", Payload::json(&payload))
            .kind("export")
            .wait()
            .unwrap();
    }
    let page = browser.get("/ui/jobs?go=1&q=payload.customer%3D2+kind%3Aexport").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    let job = browser.get(page.location()).await;
    assert!(job.has("customer") && job.has("Why is it waiting?"));
    assert_eq!(browser.get("/ui/jobs?go=1&q=kind%3Aexport").await.status, StatusCode::OK);
    assert_eq!(browser.get("/ui/jobs?go=1&q=123").await.location(), "/ui/jobs/123");
}

#[tokio::test]
async fn a_filter_is_completed_with_names_that_the_caller_may_see() {
    let mut browser = Browser::new();
    for queue in ["mail", "mailing", "secret"] {
        browser.engine.push(queue, "1").kind("mail").wait().unwrap();
    }
    let page = browser.get("/ui/jobs").await;
    assert_eq!(page.text.matches(" data-filter").count(), 2, "the filter and the search");
    browser.log_in("viewer", &[Scope::Read], &["mail*"]).await;
    let found = browser.get("/ui/complete?q=state:de&at=8").await;
    assert_eq!(found.headers["content-type"], "application/json");
    assert!(found.has(r#"{"from":6,"to":8,"suggestions":[{"text":"dead"}],"#), "{}", found.text);
    let found = browser.get("/ui/complete?q=queue:").await;
    assert!(found.has(r#""mail""#) && found.has(r#""mailing""#), "{}", found.text);
    assert!(!found.has("secret"), "{}", found.text);
}

#[tokio::test]
async fn completion_needs_a_login() {
    let mut browser = Browser::new();
    browser.log_in("viewer", &[Scope::Read], &[]).await;
    browser.set_cookie("crore-session", "other");
    assert_eq!(browser.get("/ui/complete?q=sta").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn unknown_jobs_and_pages_are_explained() {
    let mut browser = Browser::new();
    for path in ["/ui/jobs/4711", "/ui/jobs/abc", "/ui/jobs/0", "/ui/operations/1", "/ui/none"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        assert!(page.has("Not found") && page.has("To the overview"), "{path}");
    }
}

#[tokio::test]
async fn lists_are_read_page_by_page_and_counted_by_state() {
    let mut browser = Browser::new();
    for _ in 0..60 {
        browser.engine.push("mail", "1").kind("mail").wait().unwrap();
    }
    let first = browser.get("/ui/jobs?state=ready&q=queue:mail").await;
    assert_eq!(first.text.matches("<tr data-key=").count(), 50);
    assert!(first.has(r#"<span class="count">60</span>"#));
    let (_, rest) = first.text.split_once("cursor=").unwrap();
    let cursor = rest.split_once('"').unwrap().0;
    let path = format!("/ui/jobs?state=ready&q=queue:mail&cursor={cursor}");
    let second = browser.get(&path).await;
    assert_eq!(second.text.matches("<tr data-key=").count(), 10);
    assert!(second.has("Newer") && !second.has("Older"));
}

#[tokio::test]
async fn a_restricted_caller_sees_its_queues_only() {
    let mut browser = Browser::new();
    let secret = browser.engine.push("payroll", "1").kind("payroll").wait().unwrap();
    browser.engine.push("mail", "1").kind("mail").wait().unwrap();
    browser.log_in("mailer", &[Scope::Read], &["mail"]).await;
    for path in ["/ui/", "/ui/jobs", "/ui/queues"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(!page.has("payroll"), "{path}");
    }
    for path in [format!("/ui/jobs/{}", secret.0), "/ui/queues/payroll".to_owned()] {
        assert_eq!(browser.get(&path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}
