//! Cross-site requests are refused.

use bytes::Bytes;
use crore_doors::{Options, listen};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::raw::send;
use crate::server::Server;

/// A server that is also called `jobs.example.com`, and `other.example.com` with one port.
async fn server() -> Server {
    let hosts = ["jobs.example.com", "other.example.com:8443"];
    let hosts = hosts.map(|host| host.parse().expect("a host")).into();
    let listening = listen::Options { hosts, ..listen::Options::default() };
    Server::start_with(Options::default(), listening).await
}

fn ask(version: &str, method: &str, path: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let body = if method == "POST" { r#"{"kind":"x"}"# } else { "" };
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    format!("{method} {path} {version}\r\n{lines}{kind}content-length: {length}\r\n\r\n{body}")
}

#[tokio::test]
async fn only_requests_for_names_of_this_server_are_served() {
    let server = server().await;
    let port = server.address.port();
    let rows = [
        (format!("127.0.0.1:{port}"), 200, ""),
        (format!("127.0.0.9:{port}"), 200, ""),
        (format!("localhost:{port}"), 200, ""),
        (format!("LocalHost.:{port}"), 200, ""),
        (format!("[::1]:{port}"), 200, ""),
        ("127.0.0.1".to_owned(), 200, ""),
        ("localhost".to_owned(), 200, ""),
        ("jobs.example.com".to_owned(), 200, ""),
        ("jobs.example.com:1".to_owned(), 200, ""),
        ("other.example.com:8443".to_owned(), 200, ""),
        ("other.example.com".to_owned(), 421, "host-unknown"),
        ("127.0.0.1:1".to_owned(), 421, "host-unknown"),
        (format!("evil.example:{port}"), 421, "host-unknown"),
        (format!("localhost.evil.example:{port}"), 421, "host-unknown"),
        (format!("127.0.0.1.evil.example:{port}"), 421, "host-unknown"),
        (format!("0.0.0.0:{port}"), 421, "host-unknown"),
        (format!("169.254.169.254:{port}"), 421, "host-unknown"),
        (format!("2130706433:{port}"), 421, "host-unknown"),
        ("".to_owned(), 400, "malformed"),
        (format!("127.0.0.1:{port}@evil.example"), 400, "malformed"),
        (format!("ev il:{port}"), 400, "malformed"),
        ("localhost:x".to_owned(), 400, "malformed"),
    ];
    for (host, status, code) in rows {
        for path in ["/livez", "/v1/info", "/docs"] {
            let lines = [format!("host: {host}")];
            let response = send(server.address, 1, &ask("HTTP/1.1", "GET", path, &lines)).await;
            assert_eq!(
                (response.status, response.code().as_str()),
                (status, code),
                "{host} {path}"
            );
            if status == 421 {
                let detail = response.problem("detail");
                assert!(detail.contains("`listen.hosts`"), "it names the setting: {detail}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_with_any_name_still_refuses_pages_of_other_origins() {
    let hosts = vec!["*".parse().expect("a pattern")];
    let listening = listen::Options { hosts, ..listen::Options::default() };
    let server = Server::start_with(Options::default(), listening).await;
    for (origin, status, code) in [
        (None, 201, ""),
        (Some("http://any.example"), 201, ""),
        (Some("http://evil.example"), 403, "cross-site"),
        (Some("null"), 403, "cross-site"),
    ] {
        let mut lines = vec!["host: any.example".to_owned()];
        lines.extend(origin.map(|origin| format!("origin: {origin}")));
        let heard = send(server.address, 1, &ask("HTTP/1.1", "POST", "/v1/jobs", &lines)).await;
        assert_eq!((heard.status, heard.code().as_str()), (status, code), "{origin:?}");
    }
}

#[tokio::test]
async fn a_request_with_ambiguous_hosts_is_refused() {
    let server = server().await;
    let ours = format!("host: {}", server.address);
    let evil = "host: evil.example".to_owned();
    let rows: &[(&str, &str, &[&String], u16)] = &[
        ("HTTP/1.1", "/livez", &[], 400),
        ("HTTP/1.1", "/livez", &[&ours, &ours], 400),
        ("HTTP/1.1", "/livez", &[&ours, &evil], 400),
        ("HTTP/1.1", "/livez", &[&evil, &ours], 400),
        ("HTTP/1.1", "http://evil.example/livez", &[&ours], 400),
        ("HTTP/1.1", "http://evil.example/livez", &[&evil], 421),
        ("HTTP/1.0", "/livez", &[], 200),
        ("HTTP/1.0", "/livez", &[&evil], 421),
    ];
    for (version, target, lines, status) in rows {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let response = send(server.address, 1, &ask(version, "GET", target, &lines)).await;
        assert_eq!(response.status, *status, "{version} {target} {lines:?} {response:?}");
    }
}

#[tokio::test]
async fn the_authority_of_http2_is_the_host() {
    let server = server().await;
    let port = server.address.port();
    for (authority, status) in [
        (format!("127.0.0.1:{port}"), 200),
        ("jobs.example.com".to_owned(), 200),
        (format!("evil.example:{port}"), 421),
    ] {
        let stream = TcpStream::connect(server.address).await.expect("a connection");
        let io = TokioIo::new(stream);
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("h2");
        tokio::spawn(connection);
        let request = http::Request::get(format!("http://{authority}/livez"))
            .body(Empty::<Bytes>::new())
            .expect("a request");
        let answer = client.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), status, "{authority}");
    }
}

#[tokio::test]
async fn requests_of_other_sites_are_refused() {
    let server = server().await;
    let address = server.address;
    let port = address.port();
    let near = format!("http://127.0.0.1:{port}");
    // Headers of the browser, method, path, and whether the request passes.
    let rows: &[(&[&str], &str, &str, bool)] = &[
        // A program.
        (&[], "POST", "/v1/jobs", true),
        // A typed address, and a call of our own page.
        (&["sec-fetch-site: none", "sec-fetch-mode: navigate"], "GET", "/v1/info", true),
        (&["sec-fetch-site: same-origin"], "GET", "/v1/info", true),
        (&[&format!("origin: {near}"), "sec-fetch-site: same-origin"], "POST", "/v1/jobs", true),
        // A form, a script and an image of another site.
        (&["origin: http://evil.example", "sec-fetch-site: cross-site"], "POST", "/v1/jobs", false),
        (&["origin: http://evil.example"], "POST", "/v1/jobs", false),
        (&["origin: http://evil.example"], "GET", "/v1/info", false),
        (&["origin: null"], "POST", "/v1/jobs", false),
        (&["origin: "], "POST", "/v1/jobs", false),
        (&["sec-fetch-site: cross-site"], "POST", "/v1/jobs", false),
        (&["sec-fetch-site: cross-site", "sec-fetch-mode: no-cors"], "GET", "/v1/info", false),
        (&["sec-fetch-site: same-site"], "POST", "/v1/jobs", false),
        (&["sec-fetch-site: something-new"], "POST", "/v1/jobs", false),
        // Pages of another program on this machine, and names that resemble ours.
        (&["origin: http://127.0.0.1:1"], "POST", "/v1/jobs", false),
        (&[&format!("origin: http://localhost:{port}")], "POST", "/v1/jobs", false),
        (&[&format!("origin: {near}.evil.example")], "POST", "/v1/jobs", false),
        (&[&format!("origin: http://evil.example#{near}")], "POST", "/v1/jobs", false),
        (&[&format!("origin: ftp://127.0.0.1:{port}")], "POST", "/v1/jobs", false),
        (&[&format!("origin: {near}"), "origin: http://evil.example"], "POST", "/v1/jobs", false),
        // The other doors.
        (&["origin: http://evil.example"], "POST", "/job", false),
        (&["sec-fetch-site: cross-site"], "GET", "/job/1/polling", false),
        (&["origin: null"], "POST", "/jobs", false),
        (&["sec-fetch-site: same-site"], "POST", "/jobber/queue", false),
        // A preflight request.
        (
            &["origin: http://evil.example", "access-control-request-method: POST"],
            "OPTIONS",
            "/v1/jobs",
            false,
        ),
        // Behind a TLS proxy, under a configured name.
        (&["origin: https://jobs.example.com"], "POST", "/v1/jobs", true),
        (&["origin: https://other.example.com"], "POST", "/v1/jobs", false),
        // A link on another site may open a page, and nothing else.
        (
            &["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"],
            "GET",
            "/docs",
            true,
        ),
        (
            &["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: document"],
            "GET",
            "/v1/jobs/1/result",
            false,
        ),
        (
            &["sec-fetch-site: cross-site", "sec-fetch-mode: navigate", "sec-fetch-dest: iframe"],
            "GET",
            "/docs",
            false,
        ),
    ];
    for (headers, method, path, passes) in rows {
        let mut lines = vec![format!("host: {address}")];
        lines.extend(headers.iter().map(ToString::to_string));
        let response = send(address, 1, &ask("HTTP/1.1", method, path, &lines)).await;
        let refused = (response.status, response.code()) == (403, "cross-site".to_owned());
        assert_eq!(!refused, *passes, "{method} {path} {headers:?} {response:?}");
        assert!(*passes || response.status == 403);
        assert_eq!(
            response.header("access-control-allow-origin"),
            None,
            "no page of another origin may read it"
        );
    }
    let jobs = server.engine.jobs().counts(None).await.expect("read");
    let pushed: u64 = jobs.iter().map(|count| count.n).sum();
    assert_eq!(pushed, 3, "only those that passed the check");
}
