//! Workers, schedules, handlers, limits, errors, groups and the system: their pages and forms.

use crore::core::push::{GroupRef, NewGroup};
use crore::core::{Batch, NewJob, Payload, Spec};
use crore_api::{Grant, Scope};
use crore_core::limit::Limit;
use crore_core::{Fingerprint, Handler, Name};
use http::StatusCode;

use crate::browser::Browser;

fn name(text: &str) -> Name {
    Name::new("name", text).unwrap()
}

/// Posts a form that a page has, with its token.
async fn submit(browser: &mut Browser, page: &str, to: &str, fields: &[(&str, &str)]) -> String {
    let csrf = browser.get(page).await.csrf();
    let mut all = vec![("csrf", csrf.as_str())];
    all.extend(fields);
    let answer = browser.post(to, &all).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
    answer.location().to_owned()
}

#[tokio::test]
async fn every_page_opens_on_an_empty_server_and_says_what_to_do() {
    let mut browser = Browser::new();
    for (path, text) in [
        ("workers", "crore worker"),
        ("schedules", "crore schedule set"),
        ("handlers", "crore handler set"),
        ("limits", "crore limit set"),
        ("errors", "No delivery has failed"),
        ("groups", "crore group new"),
        ("system", "The store is in memory"),
        ("system/tokens", "No tokens"),
        ("system/audit", "audit.file"),
        ("schedules-new", "name=\"timing\""),
        ("limits-new", "name=\"limit\""),
    ] {
        let page = browser.get(&format!("/ui/{path}")).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.text);
        assert!(page.has(text), "{path}: {}", page.text);
    }
    for path in [
        "workers/w",
        "schedules/s",
        "handlers/k",
        "limits/l",
        "errors/0123456789abcdef",
        "groups/9",
    ] {
        let page = browser.get(&format!("/ui/{path}")).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn a_schedule_is_created_run_paused_edited_and_deleted() {
    let mut browser = Browser::new();
    let job = r#"{"kind": "report", "queue": "reports", "payload": {"of": "<q>"}}"#;
    let fields = [
        ("name", "nightly <x>"),
        ("timing", "cron 0 3 * * * in Europe/Berlin"),
        ("missed", "once"),
        ("job", job),
        ("tag", ""),
    ];
    let at = submit(&mut browser, "/ui/schedules-new", "/ui/schedules-new", &fields).await;
    assert_eq!(at, "/ui/schedules/nightly%20%3Cx%3E?done=changed");
    let link = "/ui/schedules/nightly%20%3Cx%3E";
    let page = browser.get(link).await;
    for text in ["every day at 03:00", "Europe/Berlin", "03:00:00 CE", "one job for all of them"] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    assert!(page.has("nightly &lt;x&gt;") && !page.has("<x>") && !page.has("<q>"));
    let run = submit(&mut browser, link, &format!("{link}/run"), &[]).await;
    assert!(run.starts_with("/ui/jobs/") && run.ends_with("done=pushed"), "{run}");
    let id = run.trim_start_matches("/ui/jobs/").split('?').next().unwrap().to_owned();
    assert!(browser.get(link).await.has(&format!("/ui/jobs/{id}")), "its last runs");
    submit(&mut browser, link, &format!("{link}/pause"), &[]).await;
    assert!(browser.get(link).await.has("Resume"));
    // A wrong timing is explained, and the form keeps what was typed.
    let form = browser.get(&format!("{link}/edit")).await;
    let csrf = form.csrf();
    let wrong = [("csrf", csrf.as_str()), ("timing", "cron 99 * * * *"), ("job", job)];
    let again = browser.post(&format!("{link}/edit"), &wrong).await;
    assert_eq!(again.status, StatusCode::BAD_REQUEST);
    assert!(again.has("cron 99 * * * *") && again.has("<code>timing</code>"), "{}", again.text);
    submit(&mut browser, &format!("{link}/delete"), &format!("{link}/delete"), &[]).await;
    assert_eq!(browser.get(link).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_limit_that_changed_meanwhile_is_not_overwritten() {
    let mut browser = Browser::new();
    let new = [("name", "smtp"), ("limit", "where kind = \"mail\" rate 5/1s"), ("tag", "")];
    let at = submit(&mut browser, "/ui/limits-new", "/ui/limits-new", &new).await;
    assert_eq!(at, "/ui/limits/smtp?done=changed");
    let page = browser.get("/ui/limits/smtp").await;
    let (_, rest) = page.text.split_once(r#"name="tag" value=""#).unwrap();
    let tag = rest.split_once('"').unwrap().0.replace("&quot;", "\"");
    let csrf = page.csrf();
    let first = [("csrf", csrf.as_str()), ("limit", "rate 6/1s"), ("tag", tag.as_str())];
    assert_eq!(browser.post("/ui/limits/smtp/edit", &first).await.status, StatusCode::SEE_OTHER);
    let second = [("csrf", csrf.as_str()), ("limit", "rate 7/1s"), ("tag", tag.as_str())];
    let refused = browser.post("/ui/limits/smtp/edit", &second).await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED);
    assert!(refused.has("rate 7/1s"), "the form keeps what was typed");
    let wrong = [("csrf", csrf.as_str()), ("limit", "rate x"), ("tag", "")];
    assert_eq!(browser.post("/ui/limits/smtp/edit", &wrong).await.status, StatusCode::BAD_REQUEST);
    assert!(browser.get("/ui/limits").await.has("rate 6/1s"));
}

#[tokio::test]
async fn a_handler_is_tried_with_a_job() {
    let mut browser = Browser::new();
    let handler = Handler::new(name("command"), serde_json::Map::new());
    browser.engine.handlers().set(name("today"), handler).await.unwrap();
    assert!(browser.get("/ui/handlers").await.has("today"));
    let at = submit(
        &mut browser,
        "/ui/handlers/today",
        "/ui/handlers/today/try",
        &[("payload", "{\"n\": 1}")],
    )
    .await;
    let job = browser.get(at.split('?').next().unwrap()).await;
    assert!(job.has("today"), "{}", job.text);
    let csrf = browser.get("/ui/handlers/today").await.csrf();
    let bad = [("csrf", csrf.as_str()), ("payload", "{\"n\":")];
    let again = browser.post("/ui/handlers/today/try", &bad).await;
    assert_eq!(again.status, StatusCode::BAD_REQUEST);
    assert!(again.has("<code>payload</code>") && again.has("{&quot;n&quot;:"), "{}", again.text);
}

/// Pushes a job, and lets it fail with this error.
async fn fail(browser: &Browser, error: &str) {
    let engine = &browser.engine;
    engine.push("mail", "{\"to\": \"<i>\"}").attempts(1).await.unwrap();
    let ran = engine.pop("mail", async |_| Err::<(), _>(error.to_owned())).await.unwrap();
    assert_eq!(ran, Some(Err(error.to_owned())));
}

#[tokio::test]
async fn a_group_of_errors_shows_an_example_and_leads_to_the_preview_of_a_retry() {
    let mut browser = Browser::new();
    for n in 0..3 {
        fail(&browser, &format!("timeout <q> after {n}s")).await;
    }
    let list = browser.get("/ui/errors").await;
    assert!(list.has("timeout &lt;q&gt; after 2s") && !list.has("<q>"), "{}", list.text);
    let fingerprint = Fingerprint::of("timeout <q> after 1s").to_string();
    assert!(list.has(&format!("/ui/errors/{fingerprint}")) && list.has("<rect"));
    let group = browser.get(&format!("/ui/errors/{fingerprint}")).await;
    assert!(group.has("&lt;i&gt;") && !group.has("<i>"), "the payload of the example");
    let act = format!("jobs/act?act=retry&amp;state=dead&amp;q=error%3D{fingerprint}");
    assert!(group.has(&act), "{}", group.text);
    let preview = browser.get(&format!("/ui/{}", act.replace("&amp;", "&"))).await;
    assert!(preview.has("3 jobs"), "{}", preview.text);
    assert!(browser.get("/ui/").await.has(&format!("/ui/errors/{fingerprint}")), "the overview");
}

#[tokio::test]
async fn a_group_shows_its_members_and_is_sealed() {
    let mut browser = Browser::new();
    let spec = |kind: &str| Spec::new(name("q"), name(kind), Payload::json("1"));
    let first = NewJob { group: Some(GroupRef::New(0)), ..NewJob::from(spec("split <q>")) };
    let batch = Batch { groups: vec![NewGroup { open: true, maker: None }], jobs: vec![first] };
    let group = browser.api.push(&Grant::full(), batch, None).await.unwrap().groups[0];
    let link = format!("/ui/groups/{group}");
    assert!(browser.get("/ui/groups").await.has(&link));
    let page = browser.get(&link).await;
    assert!(page.has("split &lt;q&gt;") && !page.has("<q>") && page.has("<rect"), "{}", page.text);
    submit(&mut browser, &format!("{link}/seal"), &format!("{link}/seal"), &[]).await;
    assert!(browser.get(&link).await.has("Sealed"));
}

#[tokio::test]
async fn a_token_is_created_shown_once_and_revoked() {
    let mut browser = Browser::new();
    browser.log_in("root", Scope::ALL, &[]).await;
    let csrf = browser.get("/ui/system/tokens").await.csrf();
    let fields =
        [("csrf", csrf.as_str()), ("name", "ci"), ("preset", "producer"), ("expires", "90d")];
    let made = browser.post("/ui/system/tokens", &fields).await;
    assert!(made.status == StatusCode::OK && made.has("crore_"), "{}", made.text);
    let list = browser.get("/ui/system/tokens").await;
    assert!(list.has("ci") && !list.has("crore_"));
    let (_, rest) = list.text.split_once("/ui/system/tokens/").unwrap();
    let id = rest.split_once('/').unwrap().0.to_owned();
    let revoke = format!("/ui/system/tokens/{id}/revoke");
    assert!(browser.get(&revoke).await.status == StatusCode::OK);
    let bad = [("csrf", csrf.as_str()), ("name", ""), ("preset", "producer"), ("expires", "soon")];
    let refused = browser.post("/ui/system/tokens", &bad).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_viewer_sees_no_buttons_and_cannot_act() {
    let mut browser = Browser::new();
    let limit = Limit::parse("rate 1/1s").unwrap();
    browser.engine.limits().set(name("l"), limit).await.unwrap();
    browser.log_in("viewer", &[Scope::Read], &[]).await;
    let page = browser.get("/ui/limits/l").await;
    assert!(page.status == StatusCode::OK && !page.has("name=\"limit\"") && !page.has("/delete"));
    for path in ["limits-new", "schedules-new", "system/tokens", "system/audit", "limits/l/delete"]
    {
        assert_eq!(
            browser.get(&format!("/ui/{path}")).await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    let mut other = Browser::new();
    other.log_in("mail", &[Scope::Read], &["mail"]).await;
    for path in ["errors", "workers", "schedules", "handlers", "groups", "system"] {
        assert_eq!(other.get(&format!("/ui/{path}")).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(other.get("/ui/limits").await.status, StatusCode::FORBIDDEN);
}
