//! Life of a server: start, work, restart, and conflicts.

use serde_json::json;

use crate::binary::{LONG, Server, dir, run};

#[test]
fn a_job_is_pushed_and_done_over_plain_http() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let pushed = server.post("/v1/jobs", &json!({ "kind": "mail", "payload": { "to": "ada" } }));
    assert_eq!(pushed["status"], "new");

    let fetched = server.post("/v1/fetch", &json!({ "queues": ["mail"], "worker": "w1" }));
    let job = &fetched["jobs"][0];
    assert_eq!((&job["id"], &job["payload"]), (&pushed["id"], &json!({ "to": "ada" })));

    let report = json!({ "id": job["id"], "delivery": job["delivery"], "outcome": "done" });
    server.post("/v1/finish", &json!({ "jobs": [report] }));
    let id = pushed["id"].as_str().expect("an id");
    assert_eq!(server.get(&format!("/v1/jobs/{id}"))["state"], "done");
    server.stop();
}

#[test]
fn jobs_survive_a_restart_and_a_kill() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    server.post("/v1/jobs", &json!({ "kind": "a" }));
    server.stop();
    let mut server = Server::start(dir.path(), &[]);
    server.post("/v1/jobs", &json!({ "kind": "a" }));
    server.signal("KILL");
    server.wait();
    let server = Server::start(dir.path(), &[]);
    let jobs = server.get("/v1/jobs?state=ready");
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(2));
    server.stop();
}

#[test]
fn a_server_in_memory_leaves_nothing_behind() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    server.post("/v1/jobs", &json!({ "kind": "a" }));
    assert!(server.stdout().contains("stored in memory"), "{}", server.stdout());
    server.stop();
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_id() {
    let dir = dir();
    let first = Server::start(dir.path(), &[]);
    let second = run(dir.path(), &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(4));
    let process = format!("another process (process {}) has the store", first.pid());
    assert!(second.err.contains(&process), "{}", second.err);
    assert_eq!(second.out, "");
    first.stop();
}

#[test]
fn an_address_in_use_is_reported_with_the_address() {
    let dir = dir();
    let first = Server::start(dir.path(), &["--data", "one"]);
    let address = first.address.to_string();
    let second = run(dir.path(), &["serve", "--data", "two", "--listen", &address]);
    assert_eq!(second.code, Some(4));
    assert!(second.err.contains(&address), "{}", second.err);
    first.stop();
}

#[test]
fn a_store_below_the_required_durability_is_refused() {
    let dir = dir();
    let required = ["--set", "store.require=D2"];
    let refused = [["--memory"].as_slice(), &["--set", "store.durability=interval"]];
    for store in refused {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], store, &required].concat();
        let ran = run(dir.path(), &arguments);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains("`store.require` demands D2"), "{}", ran.err);
    }
    let server = Server::start(dir.path(), &required);
    assert_eq!(server.get("/v1/info")["durability"], "D2");
    server.stop();
}

/// Syncs succeed in memory, but a power failure loses the files.
#[test]
fn a_data_directory_in_memory_does_not_survive_a_power_failure() {
    let in_memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let data = in_memory.path().join("jobs").display().to_string();
    let dir = dir();
    let refused = ["--data", &data, "--set", "store.require=D2"];
    let ran = run(dir.path(), &[&["serve", "--listen", "127.0.0.1:0"], &refused[..]].concat());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for words in ["`store.require` demands D2", &data, "`tmpfs`", "`--data`"] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let server = Server::start(dir.path(), &["--data", &data, "--set", "store.require=D1"]);
    assert_eq!(server.get("/v1/info")["durability"], "D1");
    server.stop();
}

#[test]
fn a_fetch_of_large_jobs_is_cut_short_and_the_rest_comes_next() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--set", "caps.fetch-bytes=1MiB"]);
    let payload = "x".repeat(500_000);
    for _ in 0..5 {
        server.post("/v1/jobs", &json!({ "kind": "large", "payload": payload }));
    }
    let ask = json!({ "queues": ["large"], "n": 100 });
    let fetch = || server.post("/v1/fetch", &ask)["jobs"].as_array().expect("a list").clone();
    // The batch ends with the job that fills it.
    let first = fetch();
    assert_eq!(first.len(), 3);
    let state = |state: &str| {
        let list = server.get(&format!("/v1/jobs?state={state}"));
        list["jobs"].as_array().map(Vec::len)
    };
    assert_eq!((state("running"), state("ready")), (Some(3), Some(2)));
    let second = fetch();
    let attempts: Vec<_> = first.iter().chain(&second).map(|job| &job["attempt"]).collect();
    assert_eq!(attempts, [&json!(1); 5]);
    server.stop_soon();
}

#[test]
fn a_door_has_its_own_listener() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--door", "jobber=0"]);
    let said = server.stdout();
    let door = said.lines().find_map(|line| line.strip_prefix("door jobber: http://"));
    let address = door.expect("a response").parse().expect("an address");
    let body = json!({ "kind": "a" });
    let (status, _) =
        crate::binary::call(address, "POST", "/v1/jobs", Some(&body)).expect("an answer");
    assert_eq!(status / 100, 2);
    assert_eq!(server.get("/v1/jobs")["jobs"][0]["kind"], "a");
    server.stop();
}

/// Runs the commands of the startup message in a shell, with `ID` and `DELIVERY` filled in.
#[test]
fn the_commands_of_the_startup_message_work() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl on this machine");
        return;
    }
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let said = crore_testkit::eventually(LONG, || {
        Some(server.stdout()).filter(|said| said.contains("Ctrl-C"))
    });
    let mut lines = said.lines().map(str::trim).filter(|line| line.starts_with("curl "));
    let shell = |line: String| {
        let ran = std::process::Command::new("sh").args(["-c", &line]).output().expect("sh runs");
        let answer: serde_json::Value = serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {line}: {ran:?}"));
        answer
    };
    let pushed = shell(lines.next().expect("a push").replace("curl", "curl -sS"));
    let fetched = shell(lines.next().expect("a fetch").replace("curl", "curl -sS"));
    assert_eq!(fetched["jobs"][0]["id"], pushed["id"]);
    let text = |name: &str| fetched["jobs"][0][name].as_str().expect("a text").to_owned();
    let finish = lines.next().expect("a report").replace("curl", "curl -sS");
    shell(
        finish
            .replace("\"ID\"", &format!("{:?}", text("id")))
            .replace("DELIVERY", &text("delivery")),
    );
    assert_eq!(server.get(&format!("/v1/jobs/{}", text("id")))["state"], "done");
    server.stop();
}
