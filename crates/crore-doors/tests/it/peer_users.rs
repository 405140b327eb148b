//! Callers without a token on a machine with other users, if jobs can run programs there.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crore_api::Scope;
use crore_doors::{Options, listen};
use crore_testkit::{Error, or_skip};

use crate::access::{bearer, token, until_token_required};
use crate::raw::{request, send};
use crate::server::Server;

/// User ids that no account of a test machine has.
const OWN: u32 = 54_321;
const OTHER: u32 = 54_322;

/// Tests that call as other users need root.
fn require_root() -> Result<(), Error> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(Error::Unable("only root can call as another user".to_owned())),
    }
}

/// The response to a request that another user sends.
async fn send_as(user: u32, server: SocketAddr, lines: &[&str]) -> String {
    let request = request("GET", "/v1/info", server, &[lines, &["connection: close"]].concat());
    let script = format!(
        "exec 3<>/dev/tcp/{}/{}; printf '%s' \"$REQUEST\" >&3; cat <&3",
        server.ip(),
        server.port()
    );
    let sent = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env("REQUEST", request);
        command.uid(user).current_dir("/").output().expect("bash runs")
    });
    let output = sent.await.expect("no panic");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn has_status(response: &str, status: u16) -> bool {
    response.starts_with(&format!("HTTP/1.1 {status} "))
}

/// A server of this user, on which jobs can run programs.
async fn server_of(user: u32) -> Server {
    let mut options = Options::default();
    options.api.access.own_user = Some(user);
    options.api.access.insecure = true;
    Server::start_with(options, listen::Options::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_servers_own_user_and_root_need_no_token() {
    if or_skip(require_root()).is_none() {
        return;
    }
    let server = server_of(OWN).await;
    let ask = request("GET", "/v1/info", server.address, &[]);
    assert_eq!(send(server.address, 1, &ask).await.status, 200, "root");
    let own = send_as(OWN, server.address, &[]).await;
    assert!(has_status(&own, 200), "{own}");
    let other = send_as(OTHER, server.address, &[]).await;
    assert!(has_status(&other, 401), "{other}");
    for text in ["token-needed", "crore token create NAME --preset admin", "www-authenticate"] {
        assert!(other.contains(text), "{text}: {other}");
    }
    let secret = token(&server.engine, "ada", Scope::ALL).await;
    until_token_required(&server).await;
    let refused = send_as(OWN, server.address, &[]).await;
    assert!(has_status(&refused, 401), "with a token, every caller needs one: {refused}");
    let admitted = send_as(OTHER, server.address, &[&bearer(&secret)]).await;
    assert!(has_status(&admitted, 200), "{admitted}");
}

#[tokio::test]
async fn a_caller_whose_user_is_unknown_needs_a_token() {
    let own = rustix::process::geteuid().as_raw();
    let server = server_of(own).await;
    let ask = |lines: &[&str]| request("GET", "/v1/info", server.address, lines);
    assert_eq!(send(server.address, 1, &ask(&[])).await.status, 200);
    // `insecure` is set, too.
    let forwarded = send(server.address, 1, &ask(&["x-forwarded-for: 10.0.0.1"])).await;
    assert_eq!((forwarded.status, forwarded.code().as_str()), (401, "token-needed"));
}
