//! Security defaults of the built binary: listeners, tokens, TLS and the audit log.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crore_testkit::{DebianPackage, Error, or_skip};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;

use crate::binary::{Server, crore, dir, run};

const MAKE: [&str; 7] = ["token", "create", "ops", "--preset", "admin", "--data", "crore-data"];

#[test]
fn public_addresses_need_a_token() {
    let dir = dir();
    let ran = run(dir.path(), &["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(ran.code, Some(2));
    for way in ["crore token create", "tls.client-ca", "--insecure"] {
        assert!(ran.err.contains(way), "{way}: {}", ran.err);
    }
}

#[test]
fn with_a_token_public_addresses_are_served_and_calls_are_authenticated() {
    let dir = dir();
    let token = run(dir.path(), &MAKE).success();
    let server = Server::start(dir.path(), &["--listen", "0.0.0.0:0"]);
    assert!(server.log().contains("is plain text"), "{}", server.log());
    assert_eq!(server.call("GET", "/v1/info", None).0, 401);
    assert_eq!(server.call("GET", "/livez", None).0, 200);
    let known = server.command(&["info"]).env("CRORE_TOKEN", token.trim()).output();
    assert!(known.expect("it runs").status.success());
    let unknown = server.run(&["info"]);
    assert_ne!(unknown.code, Some(0));
    assert!(unknown.err.contains("CRORE_TOKEN"), "{}", unknown.err);
}

#[test]
fn a_token_for_some_queues_and_kinds_reaches_no_others() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let admin = server.run(&["token", "create", "ops", "--preset", "admin"]).success();
    let with = |token: &str, arguments: &[&str]| {
        let output = server.command(arguments).env("CRORE_TOKEN", token.trim()).output();
        let output = output.expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (_, tenant, _) = with(
        &admin,
        &[
            "token", "create", "tenant", "--scope", "push", "--scope", "read", "--queue", "mail*",
            "--queue", "news", "--kind", "send*",
        ],
    );
    let (_, tokens, _) = with(&admin, &["token", "ls"]);
    assert!(tokens.contains("mail*") && tokens.contains("news") && tokens.contains("send*"));
    let push = |token: &str, queue: &str, kind: &str| {
        with(token, &["job", "push", kind, "{}", "--queue", queue])
    };
    assert!(push(&admin, "sms", "resize").0);
    let (pushed, _, err) = push(&tenant, "mail-eu", "send");
    assert!(pushed, "{err}");
    for (queue, kind, named) in [("sms", "send", "`sms`"), ("mail", "resize", "`resize`")] {
        let (pushed, _, err) = push(&tenant, queue, kind);
        assert!(!pushed && err.contains("scope-missing"), "{err}");
        assert!(err.contains(named) && err.contains('*'), "{err}");
    }
    let (_, listed, _) = with(&tenant, &["job", "ls"]);
    assert!(listed.contains("mail-eu") && !listed.contains("sms"), "{listed}");
    let (is_shown, _, err) = with(&tenant, &["limit", "ls"]);
    assert!(!is_shown && err.contains("limits"), "{err}");
}

#[test]
fn tokens_are_created_listed_and_removed() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let admin = server.run(&["token", "create", "ops", "--preset", "admin"]).success();
    let with = |arguments: &[&str]| {
        let output = server.command(arguments).env("CRORE_TOKEN", admin.trim()).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let app = with(&["token", "create", "app", "--scope", "push", "--expires-in", "90d"]);
    assert!(app.starts_with("crore_"), "{app}");
    let tokens = with(&["token", "ls"]);
    assert!(tokens.contains("app") && tokens.contains("ops"), "{tokens}");
    assert!(!tokens.contains(admin.trim()), "a secret is shown only once");
    with(&["token", "rm", "app"]);
    assert!(!with(&["token", "ls"]).contains("app"));
    let nothing = server.run(&["token", "create", "x"]);
    assert_eq!(nothing.code, Some(2), "{}", nothing.err);
}

/// Calls the server as a user that no account of a test machine has.
fn call_as_another_user(server: &Server) -> Result<String, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Unable("only root can call as another user".to_owned()));
    }
    let (ip, port) = (server.address.ip(), server.address.port());
    let script = format!(
        r"exec 3<>/dev/tcp/{ip}/{port}; cat <&3 &
        printf 'GET /v1/info HTTP/1.1\r\nhost: {ip}:{port}\r\nconnection: close\r\n\r\n' >&3; wait"
    );
    let output = Command::new("bash").args(["-c", &script]).uid(54_321).current_dir("/").output();
    Ok(String::from_utf8(output.expect("bash runs").stdout).expect("UTF-8"))
}

#[test]
fn other_users_of_the_machine_need_a_token_if_jobs_can_run_programs() {
    let dir = dir();
    let open = Server::start(dir.path(), &["--memory"]);
    let Some(response) = or_skip(call_as_another_user(&open)) else { return };
    assert!(response.starts_with("HTTP/1.1 200"), "no such runner is allowed: {response}");
    let servers = [
        Server::start(dir.path(), &["--memory", "--allow-runner", "command"]),
        Server::start(dir.path(), &["--memory", "--allow-runner", "docker", "--insecure"]),
        Server::start_with(dir.path(), "dev", &[]),
    ];
    for server in servers {
        assert_eq!(server.call("GET", "/v1/info", None).0, 200, "the server's own user");
        let response = or_skip(call_as_another_user(&server)).expect("as before");
        assert!(response.starts_with("HTTP/1.1 401"), "{response}");
        assert!(response.contains("crore token create NAME --preset admin"), "{response}");
    }
}

/// A server with its own certificate.
fn serves_tls(dir: &Path) -> Server {
    let names = vec!["127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).expect("a certificate");
    std::fs::write(dir.join("cert.pem"), cert.pem()).expect("written");
    std::fs::write(dir.join("key.pem"), signing_key.serialize_pem()).expect("written");
    let files = ["--set", "tls.certificate=cert.pem", "--set", "tls.key=key.pem"];
    Server::start(dir, &files)
}

#[test]
fn a_scan_of_tls_finds_two_versions_and_no_weak_cipher() {
    let Some(sslscan) = or_skip(DebianPackage::Sslscan.require_program("sslscan")) else { return };
    let dir = dir();
    let server = serves_tls(dir.path());
    let scan = Command::new(sslscan).args(["--no-colour", &server.address.to_string()]).output();
    let text = String::from_utf8(scan.expect("it runs").stdout).expect("UTF-8");
    for (version, is) in [
        ("SSLv2", "disabled"),
        ("SSLv3", "disabled"),
        ("TLSv1.0", "disabled"),
        ("TLSv1.1", "disabled"),
        ("TLSv1.2", "enabled"),
        ("TLSv1.3", "enabled"),
    ] {
        let found = text.lines().any(|line| line.split_whitespace().eq([version, is]));
        assert!(found, "{version} is not {is}: {text}");
    }
    assert!(text.contains("Session renegotiation not supported"), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let ciphers: Vec<Vec<String>> = text
        .lines()
        .filter(|line| line.starts_with("Preferred") || line.starts_with("Accepted"))
        .map(words)
        .collect();
    assert!(ciphers.len() >= 4, "{text}");
    for cipher in ciphers {
        let (bits, name) = (cipher[2].parse::<u32>().expect("a number"), &cipher[4]);
        let keeps_secrets = name.starts_with("TLS_") || name.starts_with("ECDHE-");
        let is_sealed = name.contains("GCM") || name.contains("CHACHA20");
        assert!(bits >= 128 && keeps_secrets && is_sealed, "{cipher:?}");
    }
}

const CURL: DebianPackage = DebianPackage::Other { name: "curl", programs: &["curl"] };

/// `curl` with these arguments: the status, and the error code of the problem.
fn curl(dir: &Path, arguments: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.current_dir(dir).args(["--silent", "--show-error", "--http2", "--cacert", "cert.pem"]);
    curl.args(["--write-out", "\n%{http_version} %{http_code}", "--max-time", "20"]);
    let output = curl.args(arguments).output().expect("curl runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors} {text}");
    let (body, status) = text.rsplit_once('\n').expect("two parts");
    let problem: Value = serde_json::from_str(body).expect("a problem");
    (status.to_owned(), problem["code"].as_str().expect("a code").to_owned())
}

#[test]
fn curl_shows_why_a_large_request_is_refused_early() {
    let Some(_) = or_skip(CURL.require_program("curl")) else { return };
    let dir = dir();
    let admin = run(dir.path(), &MAKE).success();
    let server = serves_tls(dir.path());
    let url = |path: &str| format!("https://{}{path}", server.address);
    let create = ["token", "create", "app", "--scope", "push", "--ca", "cert.pem", "--server"];
    let mut create = crore(dir.path(), &create);
    let reader = create.arg(url("")).env("CRORE_TOKEN", admin.trim()).output().expect("it runs");
    let reader = String::from_utf8(reader.stdout).expect("UTF-8");
    let file = |name: &str, bytes: usize| {
        std::fs::write(dir.path().join(name), "x".repeat(bytes)).expect("written");
    };
    file("large", 700 << 10);
    file("too-large", 13 << 20);
    let post = |token: &str, path: &str, body: &str| {
        let authorization = format!("authorization: Bearer {}", token.trim());
        let json = "content-type: application/json";
        curl(dir.path(), &["-H", &authorization, "-H", json, "--data-binary", body, &url(path)])
    };
    let told = |status: &str, code: &str| (format!("2 {status}"), code.to_owned());
    assert_eq!(post("wrong", "/v1/jobs", "@large"), told("401", "token-needed"));
    assert_eq!(post(&reader, "/v1/fetch", "@large"), told("403", "scope-missing"));
    assert_eq!(post(&admin, "/v1/jobs", "@too-large"), told("413", "body-too-large"));
    assert_eq!(post(&admin, "/nowhere", "@large"), told("404", "not-found"));
    let refused: Vec<_> = (0..20).map(|_| post("wrong", "/v1/jobs", "@large")).collect();
    assert_eq!(refused.last(), Some(&told("429", "too-many")));
}

#[test]
fn a_key_file_that_every_user_may_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir();
    for (mode, is_public) in [(0o644, true), (0o640, false)] {
        drop(serves_tls(dir.path()));
        let key = dir.path().join("key.pem");
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(mode)).expect("set");
        let files = ["--set", "tls.certificate=cert.pem", "--set", "tls.key=key.pem"];
        let server = Server::start(dir.path(), &files);
        server.wait_for_log("listening");
        let log = server.log();
        assert_eq!(log.contains("TLS key file is readable by every user"), is_public, "{log}");
        assert!(!is_public || (log.contains("key.pem") && log.contains("0644")), "{log}");
    }
}

#[test]
fn a_server_with_a_certificate_speaks_tls() {
    let dir = dir();
    let server = serves_tls(dir.path());
    let url = format!("https://{}", server.address);
    assert!(server.stdout().contains(&url), "{}", server.stdout());
    let info = ["info", "--server", &url, "--ca", "cert.pem", "-o", "jsonl"];
    assert!(run(dir.path(), &info).success().contains("crore"));
}

#[test]
fn changes_by_operators_are_in_the_audit_log() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "audit.file=audit.jsonl"]);
    server.run(&["job", "push", "mail", "1"]).success();
    server.run(&["queue", "pause", "mail"]).success();
    let log = std::fs::read_to_string(dir.path().join("audit.jsonl")).expect("written");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (starts, changes): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line["call"] == "START");
    assert!(starts.len() <= 1 && changes.len() == 1, "{log}");
    assert!(log.contains("mail"), "{log}");
}
