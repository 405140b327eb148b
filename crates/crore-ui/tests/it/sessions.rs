//! Login, logout, and the end of a session with its token.

use crore_api::{Grant, Scope};
use crore_core::Name;
use http::StatusCode;
use http::header::SET_COOKIE;

use crate::browser::Browser;

const SESSION: &str = "crore-session";

#[tokio::test]
async fn without_a_token_a_local_caller_needs_no_login() {
    let mut browser = Browser::new();
    let page = browser.get("/ui/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.has("<b>loopback</b>") && !page.has("/ui/logout"));
    assert_eq!(browser.get("/ui/login").await.location(), "/ui/");
    let mut far = Browser::new().with_header("x-forwarded-for", "192.0.2.1");
    assert_eq!(far.get("/ui/jobs/7").await.location(), "/ui/login?page=jobs%2F7");
}

#[tokio::test]
async fn a_session_begins_with_a_token_and_ends_with_logout() {
    let mut browser = Browser::new();
    let secret = browser.log_in("ada", &[Scope::Read], &[]).await;
    let id = browser.cookie(SESSION).unwrap().to_owned();
    assert!(id.len() >= 43 && !secret.contains(&id));
    let page = browser.get("/ui/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.has("token ada") && page.has("/ui/logout") && !page.has(&secret));

    let page = browser.post("/ui/logout", &[]).await;
    assert_eq!(page.location(), "/ui/login");
    browser.set_cookie(SESSION, &id);
    assert_eq!(browser.get("/ui/").await.location(), "/ui/login", "the old id is void");
}

#[tokio::test]
async fn the_cookie_is_not_for_scripts_nor_other_sites() {
    let mut browser = Browser::new().with_header("x-forwarded-proto", "https");
    let mut plain = Browser::new();
    let login = async |browser: &mut Browser| {
        let secret = browser.log_in("ada", &[Scope::Read], &[]).await;
        let fields = [("token", secret.as_str()), ("page", "jobs?q=kind:a%20b&state=dead")];
        let page = browser.post("/ui/login", &fields).await;
        assert_eq!(page.location(), "/ui/jobs?q=kind:a%20b&state=dead");
        page.headers[SET_COOKIE].to_str().unwrap().to_owned()
    };
    let cookie = login(&mut browser).await;
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/ui/", "; Secure"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!login(&mut plain).await.contains("Secure"));
}

#[tokio::test]
async fn a_wrong_token_opens_no_session_and_targets_stay_on_this_site() {
    let mut browser = Browser::new();
    let secret = browser.log_in("ada", &[Scope::Read], &[]).await;
    browser.set_cookie(SESSION, "");
    for wrong in ["", "x", "crore_000000000000_0000000000000000000000000000000000000000000"] {
        let page = browser.post("/ui/login", &[("token", wrong)]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
        assert!(page.has("The token is not valid") && !page.headers.contains_key(SET_COOKIE));
    }
    for page in ["//evil.example", "../../x", "a b", "a\nb", "/x"] {
        let fields = [("token", secret.as_str()), ("page", page)];
        assert_eq!(browser.post("/ui/login", &fields).await.location(), "/ui/", "{page}");
    }
}

#[tokio::test]
async fn a_revoked_token_ends_its_session() {
    let mut browser = Browser::new();
    browser.log_in("ada", &[Scope::Read], &[]).await;
    browser.log_in("bob", &[Scope::Read], &[]).await;
    assert!(browser.get("/ui/").await.has("token bob"));
    let bob = Name::new("id", "bob").unwrap();
    browser.api.delete_token(&Grant::full(), &bob).await.unwrap();
    assert_eq!(browser.get("/ui/").await.location(), "/ui/login");
    // A script gets an error instead of the login page.
    let mut stream = browser.with_header("accept", "text/event-stream");
    assert_eq!(stream.get("/ui/live").await.status, StatusCode::UNAUTHORIZED);
    let mut live = stream.with_header("x-crore-live", "1");
    assert_eq!(live.get("/ui/").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_link_on_another_site_opens_the_page_for_a_caller_with_a_session() {
    let mut browser = Browser::new();
    browser.log_in("ada", &[Scope::Read], &[]).await;
    browser.set_cookie(SESSION, "");
    let mut browser = browser.with_header("sec-fetch-site", "cross-site");
    let page = browser.get("/ui/jobs").await;
    assert!(page.status == StatusCode::OK && page.has(r#"http-equiv="refresh""#));
    assert!(!page.has("<main"));
}
