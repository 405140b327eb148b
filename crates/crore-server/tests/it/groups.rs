//! Groups: sealed groups take no members, and waiting jobs say what they wait for.

use serde_json::{Value, json};

use crate::binary::{Server, dir};

fn id(server: &Server, arguments: &[&str]) -> String {
    server.run(&[arguments, &["-q"]].concat()).success().trim().to_owned()
}

/// Fetches the next job of a queue and reports it.
fn finish(server: &Server, queue: &str, mut report: Value) -> Value {
    let job = server.post("/v1/fetch", &json!({ "queues": [queue], "worker": "w" }));
    report["id"] = job["jobs"][0]["id"].clone();
    report["delivery"] = job["jobs"][0]["delivery"].clone();
    server.post("/v1/finish", &json!({ "jobs": [report] }))
}

#[test]
fn a_sealed_group_takes_no_member() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let group = server.run(&["group", "new"]).success().trim().to_owned();
    id(&server, &["job", "push", "part", "--group", &group]);
    server.run(&["group", "seal", &group]).success();

    let late = json!({ "kind": "late", "group": { "id": group } });
    let (status, problem) = server.call("POST", "/v1/jobs", Some(&late));
    assert_eq!((status, &problem["code"]), (409, &json!("group-sealed")), "{problem}");
    assert_eq!(problem["field"], "group");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains(&format!("group `{group}` is sealed")), "{detail}");
    let (status, batch) =
        server.call("POST", "/v1/jobs", Some(&json!({ "jobs": [late, { "kind": "other" }] })));
    assert_eq!((status, &batch["refused"]), (207, &json!(1)), "{batch}");
    assert_eq!(batch["jobs"][0]["problem"]["code"], "group-sealed");
    assert_eq!(batch["jobs"][1]["status"], "new");
    let refused = server.run(&["job", "push", "late", "--group", &group]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.err.contains("is sealed"), "{refused:?}");
    assert_eq!(server.get(&format!("/v1/groups/{group}"))["size"], 1, "nothing was stored");
    assert_eq!(server.get("/v1/jobs?kind=late")["jobs"], json!([]));

    // A member still adds members with its report, since the group has not ended.
    let more = json!([{ "kind": "more", "group": { "id": group } }]);
    finish(&server, "part", json!({ "outcome": "done", "on_done": more }));
    let counts = server.get(&format!("/v1/groups/{group}"));
    assert_eq!((&counts["size"], &counts["ran"]), (&json!(2), &json!(1)));
    // The follow-up of another job runs without the group, and says so.
    let outside = json!([{ "kind": "outside", "group": { "id": group } }]);
    finish(&server, "other", json!({ "outcome": "done", "on_done": outside }));
    let outside = &server.get("/v1/jobs?kind=outside")["jobs"][0];
    assert_eq!((&outside["state"], outside.get("group")), (&json!("ready"), None), "{outside}");
    assert_eq!(outside["labels"]["crore.sealed-group"], json!(group));
    assert_eq!(server.get(&format!("/v1/groups/{group}"))["size"], 2);
    server.stop();
}

#[test]
fn a_waiting_job_names_what_it_waits_for_and_what_ends_the_wait() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--memory"]);
    let first = id(&server, &["job", "push", "first", "--attempts", "1"]);
    let group = server.run(&["group", "new"]).success().trim().to_owned();
    id(&server, &["job", "push", "part", "--group", &group]);
    let waits = ["job", "push", "then", "--after", &first, "--after-group", &group];
    let waits = id(&server, &waits);
    let why = || server.run(&["job", "get", &waits, "--why"]).success();
    let says = |words: &[&str]| {
        let why = why();
        assert!(words.iter().all(|words| why.contains(words)), "{words:?}: {why}");
    };
    says(&["waiting for 2 of 2 dependencies", &format!("job {first} is ready"), "when it is done"]);
    let open = format!("group {group} is open, 0 of 1 members have ended");
    says(&[&open, &format!("crore group seal {group}")]);

    finish(&server, "first", json!({ "outcome": "failed", "error": "no" }));
    says(&[&format!("job {first} is dead"), &format!("crore job retry {first}")]);
    server.run(&["group", "seal", &group]).success();
    says(&[&format!("group {group} is sealed"), "when all members are done"]);

    let reason = &server.get(&format!("/v1/jobs/{waits}/explain"))["reasons"][0];
    assert_eq!(reason["reason"], "waits-for");
    let on = |n: usize| (reason["on"][n]["needs"].clone(), reason["on"][n]["state"].clone());
    assert_eq!(
        (&reason["on"][0]["job"], on(0)),
        (&json!(first), (json!("success"), json!("dead")))
    );
    assert_eq!(
        (&reason["on"][1]["group"], on(1)),
        (&json!(group), (json!("success"), json!("sealed")))
    );
    server.run(&["job", "retry", &first]).success();
    finish(&server, "first", json!({ "outcome": "done" }));
    says(&["waiting for 1 of 2 dependencies: group"]);
    server.stop();
}
