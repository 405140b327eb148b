//! Actions: form tokens, scopes, confirmations and their effects.

use crore::core::{Payload, State};
use crore_api::Scope;
use http::StatusCode;

use crate::browser::Browser;

fn state(browser: &Browser, id: u64) -> Option<State> {
    let id = crore::core::JobId(id);
    crore::block_on(browser.engine.get(id)).unwrap().map(|job| job.live.state)
}

fn push(browser: &Browser, n: usize) -> Vec<u64> {
    let push = |_| {
        let payload = Payload::json(r#"{"to":"ada"}"#);
        browser.engine.push_payload("mail", payload).kind("mail").wait().unwrap().0
    };
    (0..n).map(push).collect()
}

#[tokio::test]
async fn a_form_without_the_token_of_its_session_is_refused() {
    let mut browser = Browser::new();
    let id = push(&browser, 1)[0];
    let path = format!("/ui/jobs/{id}/cancel");
    for fields in [&[][..], &[("csrf", "")], &[("csrf", "00")]] {
        let page = browser.post(&path, fields).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        assert!(page.has("out of date"));
    }
    let open = browser.get(&path).await.csrf();
    browser.log_in("ada", &[Scope::Read, Scope::Operate], &[]).await;
    let first = browser.get(&path).await.csrf();
    browser.log_in("bob", &[Scope::Read, Scope::Operate], &[]).await;
    for other in [open, first] {
        assert_eq!(browser.post(&path, &[("csrf", &other)]).await.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(state(&browser, id), Some(State::Ready));
    let own = browser.get(&path).await.csrf();
    let page = browser.post(&path, &[("csrf", &own)]).await;
    assert_eq!(page.location(), format!("/ui/jobs/{id}?done=cancelled"));
    assert_eq!(state(&browser, id), Some(State::Cancelled));
}

#[tokio::test]
async fn a_viewer_sees_no_buttons_and_cannot_act() {
    let mut browser = Browser::new();
    let id = push(&browser, 1)[0];
    let operator = browser.get(&format!("/ui/jobs/{id}")).await;
    assert!(operator.has(&format!("/ui/jobs/{id}/cancel")));
    browser.log_in("viewer", &[Scope::Read], &[]).await;
    for path in [format!("/ui/jobs/{id}"), "/ui/jobs".to_owned(), "/ui/queues/mail".to_owned()] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        for button in ["/cancel", "/delete", "/edit", "/replay", "/pause", "/drain", "name=\"act\""]
        {
            assert!(!page.has(button), "{path} has {button}");
        }
    }
    for path in [
        format!("/ui/jobs/{id}/cancel"),
        format!("/ui/jobs/{id}/retry"),
        format!("/ui/jobs/{id}/delete"),
        format!("/ui/jobs/{id}/edit"),
        format!("/ui/jobs/{id}/replay"),
        "/ui/queues/mail/pause".to_owned(),
        "/ui/operations/start".to_owned(),
    ] {
        let page = browser.post(&path, &[]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        assert!(page.has("Not allowed"), "{path}");
    }
    assert_eq!(state(&browser, id), Some(State::Ready));
}

#[tokio::test]
async fn a_job_is_edited_and_replayed() {
    let mut browser = Browser::new();
    let id = push(&browser, 1)[0];
    let form = browser.get(&format!("/ui/jobs/{id}/replay")).await;
    assert!(form.has("&quot;to&quot;: &quot;ada&quot;"));
    let csrf = form.csrf();
    let path = format!("/ui/jobs/{id}/replay");
    let bad = browser.post(&path, &[("csrf", &csrf), ("payload", "{\"to\": ")]).await;
    assert!(
        bad.status.is_client_error() && bad.has("{&quot;to&quot;: ") && bad.has("role=\"alert\"")
    );
    let fields = [
        ("csrf", csrf.as_str()),
        ("payload", "{\"to\": \"eve\"}"),
        ("queue", "other"),
        ("priority", "-3"),
    ];
    let page = browser.post(&path, &fields).await;
    assert!(page.location().ends_with("?done=replayed"), "{}", page.text);
    let replay = browser.get(page.location()).await;
    assert!(
        replay.has("eve") && replay.has("This is the replay") && replay.has("/ui/queues/other")
    );
    let related = browser.get(&format!("/ui/jobs/{id}?tab=related")).await;
    assert!(related.has(page.location().split('?').next().unwrap()));
}

#[tokio::test]
async fn queue_and_priority_of_a_job_are_changed() {
    let mut browser = Browser::new();
    let id = push(&browser, 1)[0];
    let path = format!("/ui/jobs/{id}/edit");
    let csrf = browser.get(&path).await.csrf();
    let fields = [("csrf", csrf.as_str()), ("queue", "slow"), ("priority", "7"), ("delay", "1h")];
    assert!(browser.post(&path, &fields).await.location().ends_with("?done=changed"));
    let page = browser.get(&format!("/ui/jobs/{id}")).await;
    assert!(page.has("/ui/queues/slow") && page.has("Scheduled"));
    let bad = [("csrf", csrf.as_str()), ("queue", "slow"), ("delay", "soon")];
    let page = browser.post(&path, &bad).await;
    assert!(page.status.is_client_error() && page.has("`soon` is not a duration"));
}

#[tokio::test]
async fn an_edit_of_a_job_that_was_changed_meanwhile_shows_both() {
    let mut browser = Browser::new();
    let id = push(&browser, 1)[0];
    let path = format!("/ui/jobs/{id}/edit");
    let csrf = browser.get(&path).await.csrf();
    let seen = [("csrf", csrf.as_str()), ("seen-queue", "mail"), ("seen-priority", "0")];
    let mine = [&seen[..], &[("queue", "mine"), ("priority", "0")]].concat();
    let theirs = [&seen[..], &[("queue", "theirs"), ("priority", "3")]].concat();
    assert!(browser.post(&path, &theirs).await.location().ends_with("?done=changed"));
    let page = browser.post(&path, &mine).await;
    assert!(page.status == StatusCode::OK && page.has("was changed meanwhile"), "{}", page.text);
    assert!(page.has("now in queue theirs with priority 3") && page.has("value=\"mine\""));
    let again = [
        &[("csrf", csrf.as_str()), ("seen-queue", "theirs"), ("seen-priority", "3")][..],
        &mine[3..],
    ];
    assert!(browser.post(&path, &again.concat()).await.location().ends_with("?done=changed"));
    assert!(browser.get(&format!("/ui/jobs/{id}")).await.has("/ui/queues/mine"));
}

#[tokio::test]
async fn many_jobs_are_changed_after_their_number_was_typed() {
    let mut browser = Browser::new();
    push(&browser, 120);
    let page = browser.get("/ui/jobs/act?act=cancel&q=kind:mail").await;
    assert!(page.has("120") && page.has("name=\"typed\""));
    let csrf = page.csrf();
    let fields = |typed: &'static str| {
        vec![
            ("csrf", csrf.clone()),
            ("act", "cancel".into()),
            ("q", "kind:mail".into()),
            ("jobs", "120".to_owned()),
            ("typed", typed.to_owned()),
        ]
    };
    for wrong in ["", "12", "yes"] {
        let fields = fields(wrong);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page = browser.post("/ui/operations/start", &fields).await;
        assert!(page.status.is_client_error() && page.has("type this number"), "{wrong}");
    }
    let fields = fields("120");
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let page = browser.post("/ui/operations/start", &fields).await;
    assert!(page.location().starts_with("/ui/operations/"), "{}", page.text);
    let path = page.location().to_owned();
    let id = crore_core::Name::new("id", path.rsplit('/').next().unwrap()).unwrap();
    let wait = "10s".parse().unwrap();
    browser.api.get_operation(&crore_api::Grant::full(), &id, Some(wait)).await.unwrap();
    let page = browser.get(&path).await;
    assert!(page.has("Done") && page.has(">120<"), "{}", page.text);
    assert!(browser.get("/ui/operations").await.has(&path));
}

#[tokio::test]
async fn selected_jobs_are_named_by_their_ids() {
    let mut browser = Browser::new();
    let ids = push(&browser, 3);
    let path = format!("/ui/jobs/act?act=delete&q=kind:mail&id={}&id={}", ids[0], ids[2]);
    let page = browser.get(&path).await;
    assert!(page.has("Delete 2 jobs") && page.has(&format!("id:{},{}", ids[0], ids[2])));
    let nothing = browser.get("/ui/jobs/act?act=retry&q=kind:none").await;
    assert!(nothing.status == StatusCode::OK && !nothing.has("<form method=\"post\""));
    assert!(browser.get("/ui/jobs/act?act=burn").await.status.is_client_error());
}

#[tokio::test]
async fn a_queue_is_paused_resumed_and_drained() {
    let mut browser = Browser::new();
    push(&browser, 2);
    let page = browser.get("/ui/queues/mail").await;
    assert!(page.has("waiting for a worker: 2 jobs"), "{}", page.text);
    let csrf = page.csrf();
    for (action, message) in [
        ("pause", "until the queue is resumed: 2 jobs"),
        ("resume", "waiting for a worker: 2 jobs"),
        ("drain", "until the queue is resumed: 2 jobs"),
    ] {
        let page = browser.post(&format!("/ui/queues/mail/{action}"), &[("csrf", &csrf)]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
        assert!(browser.get(page.location()).await.has(message), "{action}");
    }
    assert!(browser.get("/ui/queues").await.has("Paused"));
}
