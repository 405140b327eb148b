//! A browser without scripts: it keeps cookies, follows no redirects, and posts forms.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use crore::Engine;
use crore::observer::ObservedChange;
use crore_api::audit::Audit;
use crore_api::{
    Api, ApiSetup, ConnectedWorker, ConnectedWorkers, Grant, Options, Scope, WorkerRequest,
};
use crore_core::Name;
use crore_wire::api::tokens::NewToken;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

#[derive(Debug)]
struct NoWorkers;

impl ConnectedWorkers for NoWorkers {
    fn list(&self) -> Vec<ConnectedWorker> {
        Vec::new()
    }

    fn changed(&self, _: &ObservedChange<'_>) {}

    fn request(&self, _: &str, _: WorkerRequest) {}

    fn version_of(&self, _: &Name) -> Option<String> {
        None
    }
}

/// A browser at a server of its own.
pub(crate) struct Browser {
    pub(crate) engine: Engine,
    pub(crate) api: Api,
    router: Router,
    cookies: Vec<(String, String)>,
    headers: Vec<(&'static str, &'static str)>,
}

/// A page, or another response.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Page {
    /// The target of a redirect.
    pub(crate) fn location(&self) -> &str {
        self.headers.get(LOCATION).map_or("", |value| value.to_str().unwrap())
    }

    /// The value of the hidden field of the first form.
    pub(crate) fn csrf(&self) -> String {
        let (_, rest) = self.text.split_once(r#"name="csrf" value=""#).expect("a form");
        rest.split_once('"').unwrap().0.to_owned()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

impl Browser {
    pub(crate) fn new() -> Self {
        Self::audited(Audit::none())
    }

    pub(crate) fn audited(audit: Audit) -> Self {
        Self::with_options(Options::default(), audit)
    }

    pub(crate) fn with_options(options: Options, audit: Audit) -> Self {
        let engine = Engine::memory();
        let api = Api::new(ApiSetup {
            engine: engine.clone(),
            options,
            audit,
            workers: Arc::new(NoWorkers),
            doors: &["http"],
        });
        let router = crore_ui::router(&api).unwrap();
        Self { engine, api, router, cookies: Vec::new(), headers: Vec::new() }
    }

    /// Sends a header with each request from now on.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Creates a token with these scopes, and logs in with it.
    pub(crate) async fn log_in(&mut self, name: &str, scopes: &[Scope], queues: &[&str]) -> String {
        let request = NewToken {
            name: name.to_owned(),
            scopes: scopes.to_vec(),
            preset: None,
            expires_in: None,
            queues: queues.iter().map(ToString::to_string).collect(),
            kinds: Vec::new(),
        };
        let (_, secret) = self.api.create_token(&Grant::full(), &request).await.unwrap();
        let page = self.post("/ui/login", &[("token", secret.reveal())]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
        secret.reveal().to_owned()
    }

    pub(crate) async fn get(&mut self, path: &str) -> Page {
        self.send(Method::GET, path, Body::empty()).await
    }

    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
        let body = body.collect::<Vec<_>>().join("&");
        self.send(Method::POST, path, Body::from(body)).await
    }

    pub(crate) fn set_cookie(&mut self, name: &str, value: &str) {
        self.cookies.retain(|(known, _)| known != name);
        self.cookies.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    async fn send(&mut self, method: Method, path: &str, body: Body) -> Page {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        request = request.header("accept", "text/html,*/*;q=0.8");
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        request = request.header(COOKIE, cookies.collect::<Vec<_>>().join("; "));
        let peer: SocketAddr = "127.0.0.1:5000".parse().unwrap();
        let request = request.extension(ConnectInfo(peer)).body(body).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        for value in head.headers.get_all(SET_COOKIE) {
            let (name, rest) = value.to_str().unwrap().split_once('=').unwrap();
            self.set_cookie(name, rest.split(';').next().unwrap());
        }
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Page { status: head.status, headers: head.headers, text }
    }
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let escape =
        |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(escape).collect()
}
