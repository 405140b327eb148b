//! Actions, logins and refusals are in the audit log.

use crore_api::Scope;
use crore_api::audit::{self, Audit};

use crate::browser::Browser;

#[tokio::test]
async fn actions_logins_and_refusals_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.jsonl");
    let options = audit::Options { file: Some(file.clone()), ..audit::Options::default() };
    let mut browser = Browser::audited(Audit::open(&options).unwrap());
    let id = browser.engine.push("mail", "1").kind("mail").wait().unwrap().0;
    let secret = browser.log_in("ada", &[Scope::Read, Scope::Operate], &[]).await;
    let csrf = browser.get(&format!("/ui/jobs/{id}/cancel")).await.csrf();
    browser.post(&format!("/ui/jobs/{id}/cancel"), &[("csrf", &csrf)]).await;
    browser.post("/ui/queues/mail/pause", &[("csrf", "wrong")]).await;
    browser.post("/ui/login", &[("token", "crore_x")]).await;
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |call: &str, status: u16, who: &str| {
        lines.iter().any(|line| {
            line["call"] == call
                && line["status"] == status
                && line["who"].as_str().unwrap().starts_with(who)
        })
    };
    assert!(has("POST /ui/login", 200, "token ada"), "{text}");
    assert!(has(&format!("POST /ui/jobs/{id}/cancel"), 303, "token ada"), "{text}");
    assert!(has("POST /ui/queues/mail/pause", 403, "token ada"), "{text}");
    assert!(has("POST /ui/login", 401, "nobody"), "{text}");
    assert!(!text.contains(&secret) && !text.contains(browser.cookie("crore-session").unwrap()));
}
