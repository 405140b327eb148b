//! LightJQ jobs at Lakh workers.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Worker, job, send};
use crate::server::{BodyEncoding, Server, eventually};

/// Pushes a LightJQ job, and returns its id.
async fn push(server: &Server, name: &str, argument: Value) -> String {
    let body = json!({"name": name, "argument": argument, "max_retry": 3});
    let pushed = server.post(BodyEncoding::Msgpack, "/job", &body).await;
    assert_eq!(pushed.status, StatusCode::CREATED);
    pushed.body["job_id"].as_str().expect("an id").to_owned()
}

async fn becomes(server: &Server, id: &str, status: &str) {
    eventually(|| async {
        let shown = server.get(BodyEncoding::Json, &format!("/job/{id}")).await;
        shown.body["status"] == status
    })
    .await;
}

#[tokio::test]
async fn a_worker_gets_lightjq_jobs_of_its_names_and_reports_them() {
    let server = Server::start().await;
    push(&server, "sms", json!({})).await;
    let first = push(&server, "mail", json!({"to": "ada"})).await;
    let mut worker = Worker::join(&server, "mail").await;
    let came = worker.job().await;
    assert_eq!((came.name.as_str(), came.id), ("mail", format!("crore:{first}")));
    assert_eq!(came.args, [r#"{"to":"ada"}"#]);
    worker.succeeded(&format!("crore:{first}")).await;
    becomes(&server, &first, "done").await;
    // It waits when the second one is pushed.
    let second = push(&server, "mail", json!(["a", 1, null])).await;
    assert_eq!(worker.job().await.args, ["a", "1", "null"]);
    worker.failed(&format!("crore:{second}")).await;
    becomes(&server, &second, "retrying").await;
    worker.expect_no_job().await;
}

#[tokio::test]
async fn a_worker_of_the_whole_queue_still_gets_it_by_its_own_name() {
    let server = Server::start().await;
    let id = push(&server, "mail", json!(7)).await;
    let mut worker = Worker::join(&server, "lightjq").await;
    let came = worker.job().await;
    assert_eq!((came.name.as_str(), came.args), ("lightjq", vec!["7".to_owned()]));
    worker.report_named("lightjq", &came.id, 1).await;
    becomes(&server, &id, "done").await;
}

/// Neither jobs of Lakh nor of LightJQ wait until there are none of the others.
#[tokio::test]
async fn the_jobs_of_both_doors_take_turns() {
    let server = Server::start().await;
    for n in 0..200 {
        push(&server, "mail", json!(n)).await;
        send(&server, vec![job(&n.to_string(), "mail")]).await;
    }
    let mut worker = Worker::join(&server, "mail").await;
    let mut from_lightjq = 0;
    for _ in 0..200 {
        from_lightjq += usize::from(worker.job().await.id.starts_with("crore:"));
    }
    assert!((20..180).contains(&from_lightjq), "{from_lightjq} of 200");
}
