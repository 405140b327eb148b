//! What a server writes about itself.

use serde_json::Value;

use crate::binary::{Server, call, crore, dir};

#[test]
fn a_log_in_json_is_an_object_a_line() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--log-format", "json"]);
    server.signal("TERM");
    server.ended();
    let wrote = server.wrote();
    let lines: Vec<Value> =
        wrote.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let listening = lines.iter().find(|line| line["message"] == "listening").expect("a line");
    assert_eq!(listening["level"], "INFO");
    assert_eq!(listening["address"], server.address.to_string());
    assert!(lines.iter().any(|line| line["message"] == "stopped"), "{wrote}");
}

#[test]
fn a_log_in_files_is_named_after_the_host_and_the_day() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--log-dir", "logs"]);
    server.stop();
    let names: Vec<String> = std::fs::read_dir(dir.path().join("logs"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    let rest = name.strip_prefix("crore.").and_then(|rest| rest.strip_suffix(".log"));
    let (host, day) = rest.and_then(|rest| rest.rsplit_once('.')).expect("a host and a day");
    assert!(host.parse::<std::net::IpAddr>().is_ok(), "{name}");
    assert_eq!(day.split('-').count(), 3, "{name}");
    let text = std::fs::read_to_string(dir.path().join("logs").join(name)).expect("a log");
    assert!(text.contains("listening") && text.contains("stopped"), "{text}");
}

#[test]
fn a_server_whose_log_nobody_reads_goes_on() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let dir = dir();
    let mut child = crore(dir.path(), &["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stderr.take());
    let mut first = String::new();
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    said.read_line(&mut first).expect("a line");
    drop(said);
    let address = first.trim().rsplit("http://").next().and_then(|text| text.parse().ok());
    let (status, _) = call(address.expect("an address"), "GET", "/livez", None).expect("an answer");
    assert_eq!(status, 200);
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(pid).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_level_says_how_much() {
    let dir = dir();
    let mut server = Server::start(dir.path(), &["--log-level", "warn"]);
    server.signal("TERM");
    server.ended();
    assert_eq!(server.wrote(), "");
}
