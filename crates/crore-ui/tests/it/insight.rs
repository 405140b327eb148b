//! Explanations of failures and changes on pages: the difference to the last good run, marks, reasons, masked fields.

use crore::core::Payload;
use crore_api::audit::Audit;
use crore_api::{Grant, Options, Scope};
use crore_core::Name;
use http::StatusCode;

use crate::browser::Browser;

/// Pushes a job, and runs it.
fn run(browser: &Browser, payload: &str, is_good: bool) -> u64 {
    let push = browser.engine.push_payload("q", Payload::json(payload)).kind("mail").attempts(1);
    let id = push.retain().wait().unwrap();
    let popped = browser.engine.pop_blocking("q", |_| match is_good {
        true => Ok(Payload::json("1")),
        false => Err("mailbox is full"),
    });
    assert!(popped.unwrap().is_some());
    id.0
}

#[tokio::test]
async fn a_failed_job_and_its_group_of_errors_show_the_difference_to_the_last_good_run() {
    let mut browser = Browser::new();
    let alone = run(&browser, r#"{"to":"ada"}"#, false);
    let page = browser.get(&format!("/ui/jobs/{alone}")).await;
    assert!(page.has("No job of this queue and kind that is done is stored."), "{}", page.text);
    let good = run(&browser, r#"{"to":"ada","old":1}"#, true);
    let failed = run(&browser, r#"{"to":"eve","<new>":2}"#, false);
    let page = browser.get(&format!("/ui/jobs/{failed}")).await;
    for text in [
        "Difference to the last good run",
        "payload.to",
        "<del>&quot;ada&quot;</del>",
        "<ins>&quot;eve&quot;</ins>",
        "payload.&quot;&lt;new&gt;&quot;",
        "payload.old",
        &format!("/ui/jobs/{good}\""),
    ] {
        assert!(page.has(text), "{text}: {}", page.text);
    }
    let errors = browser.api.list_errors(&Grant::full(), &Default::default()).unwrap();
    let fingerprint = &errors.groups[0].fingerprint;
    let page = browser.get(&format!("/ui/errors/{fingerprint}")).await;
    assert!(page.has("<ins>&quot;eve&quot;</ins>"), "{}", page.text);
    let page = browser.get(&format!("/ui/jobs/{good}")).await;
    assert!(!page.has("Difference to the last good run"), "a good job needs no difference");
}

#[tokio::test]
async fn charts_have_marks_with_titles_and_a_list() {
    let mut browser = Browser::new();
    let queue = Name::new("queue", "<mail>").unwrap();
    browser.api.pause_queue(&Grant::full(), &queue).await.unwrap();
    let page = browser.get("/ui/").await;
    assert_eq!(page.text.matches("class=\"mark m-start\"").count(), 4, "{}", page.text);
    assert_eq!(page.text.matches("<title>Queue paused: &lt;mail&gt;").count(), 4, "{}", page.text);
    assert!(page.has("Restarts, deploys and changes") && page.has("Server started: "));
    let other = browser.get("/ui/queues/other").await;
    assert!(!other.has("&lt;mail&gt;") && other.has("class=\"mark m-start\""), "{}", other.text);
}

#[tokio::test]
async fn reasons_are_translated_by_their_code_and_details_marked_as_english() {
    let mut browser = Browser::new();
    let id = browser.engine.push("q", "1").kind("k").wait().unwrap();
    browser.engine.push("q", "1").kind("k").wait().unwrap();
    let queue = Name::new("queue", "q").unwrap();
    browser.api.pause_queue(&Grant::full(), &queue).await.unwrap();
    let english = browser.get(&format!("/ui/jobs/{id}")).await;
    assert!(english.has("<span lang=\"en\">queue `q` is paused</span>"), "{}", english.text);
    assert!(!english.has("The queue is paused"), "said once");
    let second = browser.get("/ui/jobs/2").await;
    assert!(second.has("1 job of its queue is ahead of it"), "{}", second.text);
    browser.set_cookie("crore-language", "ja");
    let japanese = browser.get(&format!("/ui/jobs/{id}")).await;
    assert!(japanese.has("キューが一時停止しています"), "{}", japanese.text);
    assert!(japanese.has("<span lang=\"en\">queue `q` is paused</span>"));
    let refused = browser.get("/ui/jobs?q=state:deed").await;
    assert!(refused.has("<p><span lang=\"en\">"), "{}", refused.text);
}

#[tokio::test]
async fn masked_fields_are_on_no_page_and_a_replay_keeps_them() {
    let mut options = Options::default();
    options.access.mask = vec!["card".parse().unwrap()];
    let mut browser = Browser::with_options(options, Audit::none());
    let payload = Payload::json(r#"{"to":"ada","card":"4111-1111"}"#);
    let id = browser.engine.push_payload("q", payload).kind("k").wait().unwrap();
    browser.log_in("admin", &[Scope::Read, Scope::Operate, Scope::Push, Scope::Admin], &[]).await;
    for path in ["", "?tab=history", "?tab=related", "/replay", "/payload"] {
        let page = browser.get(&format!("/ui/jobs/{id}{path}")).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.has("4111"), "{path}: {}", page.text);
    }
    let form = browser.get(&format!("/ui/jobs/{id}/replay")).await;
    assert!(form.has("***"), "{}", form.text);
    let fields = [
        ("csrf", form.csrf()),
        ("payload", r#"{"to":"eve","card":"***"}"#.to_owned()),
        ("queue", "q".to_owned()),
        ("priority", "0".to_owned()),
    ];
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let replayed = browser.post(&format!("/ui/jobs/{id}/replay"), &fields).await;
    assert_eq!(replayed.status, StatusCode::SEE_OTHER, "{}", replayed.text);
    let stored = browser.engine.get(crore_core::JobId(2)).await.unwrap().unwrap();
    assert_eq!(stored.spec.payload, Payload::json(r#"{"to":"eve","card":"4111-1111"}"#));
    let list = browser.get("/ui/jobs?q=payload.card%3D4111-1111").await;
    assert!(list.has("masked field"), "{}", list.text);
}

#[tokio::test]
async fn two_servers_on_one_host_do_not_log_each_other_out() {
    let mut first = Browser::new().with_header("host", "127.0.0.1:9001");
    let mut second = Browser::new().with_header("host", "127.0.0.1:9002");
    first.log_in("viewer", &[Scope::Read], &[]).await;
    second.log_in("viewer", &[Scope::Read], &[]).await;
    // One browser sends the cookies of both to each of them.
    for (name, browser) in [("crore-session-9001", &first), ("crore-session-9002", &second)] {
        assert!(browser.cookie(name).is_some(), "{name}");
    }
    let cookie = second.cookie("crore-session-9002").unwrap().to_owned();
    first.set_cookie("crore-session-9002", &cookie);
    assert_eq!(first.get("/ui/").await.status, StatusCode::OK);
}
