//! The client and the worker of `crore-client`, on the built binary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crore_client::{Client, Error, Job, Outcome, Worker, v1};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::binary::{Server, dir};

const SOON: Duration = Duration::from_secs(20);

async fn connect(server: &Server) -> Client {
    Client::connect(server.url()).await.expect("connected")
}

fn job_with_result(kind: &str) -> Job {
    Job::new(kind).keep_result(Duration::from_secs(600))
}

/// How a job ended.
async fn ended(client: &Client, id: crore_client::JobId) -> v1::Ended {
    timeout(SOON, client.wait(id, SOON)).await.expect("in time").expect("answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_and_gives_its_result() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let worker = Worker::new(&client).slots(4).handle("greet", async |job| {
        let whom: String = job.json()?;
        job.progress(50, "half");
        job.line("a line");
        Outcome::json(&format!("hello, {whom}"))
    });
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let ids = futures_util::future::join_all((0..100).map(|n| {
        let job = job_with_result("greet").json(&n.to_string()).expect("JSON");
        let client = client.clone();
        async move { client.push(job).await.expect("pushed") }
    }));
    for (n, id) in ids.await.into_iter().enumerate() {
        let ended = ended(&client, id).await;
        assert_eq!(ended.result.as_deref(), Some(format!("\"hello, {n}\"").as_bytes()));
    }
    stop.stop();
    working.await.expect("no panic").expect("it succeeded");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_listed_while_connected() {
    let dir = dir();
    let server = Server::start(dir.path(), &["--no-runners"]);
    let client = connect(&server).await;
    let worker = Worker::new(&client).slots(4).handle("wait", async |_job| Outcome::json(&()));
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let id = client.push(job_with_result("wait")).await.expect("pushed");
    ended(&client, id).await;
    let ls = || server.run(&["worker", "ls"]).success();
    let table = ls();
    println!("{table}");
    for part in ["SLOTS", "RUNNING", "HEARD", " wait ", " 4 "] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert_eq!(table.lines().count(), 2, "{table}");
    let listed = server.run(&["worker", "ls", "-o", "json"]).success();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let stream = &listed[0]["stream"];
    assert_eq!((&stream["kinds"][0], &stream["running"]), (&"wait".into(), &0.into()));
    assert!(stream["incarnation"].as_str().is_some_and(|text| !text.is_empty()), "{stream}");
    stop.stop();
    working.await.expect("no panic").expect("it succeeded");
    crore_testkit::eventually(SOON, || (!ls().contains("wait")).then_some(()));
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_push_names_the_field_and_does_not_harm_the_others() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let bad = Job::new("mail").payload(v1::Encoding::Json, "{");
    let (bad, good) = tokio::join!(client.push(bad), client.push(Job::new("mail")));
    let Err(Error::Refused(problem)) = bad else { panic!("{bad:?}") };
    assert_eq!(problem.code, "payload-malformed");
    assert!(problem.field.is_some_and(|field| field.ends_with("payload")));
    good.expect("pushed");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_handler_fails_its_job_and_the_worker_continues() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let worker = Worker::new(&client).handle("shaky", async |job| {
        assert!(job.attempt() > 1, "the first time it panics");
        Ok::<_, Error>(())
    });
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let id = client.push(job_with_result("shaky")).await.expect("pushed");
    assert_eq!(ended(&client, id).await.state(), v1::State::Done);
    let job = client.get(id).await.expect("seen").expect("kept");
    assert_eq!(job.attempt, 2);
    assert!(job.history.iter().any(|attempt| attempt.error.contains("panicked")));
    stop.stop();
    working.await.expect("no panic").expect("it succeeded");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_its_job_while_the_server_is_killed_and_started_again() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let address = server.address;
    let client = connect(&server).await;
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let runs = Arc::new(AtomicUsize::new(0));
    let worker = {
        let (begun, go_on, runs) = (Arc::clone(&begun), Arc::clone(&go_on), Arc::clone(&runs));
        Worker::new(&client).handle("long", move |_| {
            let (begun, go_on, runs) = (Arc::clone(&begun), Arc::clone(&go_on), Arc::clone(&runs));
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                begun.notify_one();
                let _ = go_on.acquire().await;
                Ok::<_, Error>(b"kept".to_vec())
            }
        })
    };
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let id = client.push(job_with_result("long")).await.expect("pushed");
    timeout(SOON, begun.notified()).await.expect("it runs");
    // The delivery is on disk with the next write that is waited for.
    client.push(Job::new("other")).await.expect("pushed");
    server.signal("KILL");
    drop(server);
    let server = Server::start_at(dir.path(), address);
    go_on.add_permits(100);
    let client = connect(&server).await;
    let ended = ended(&client, id).await;
    assert_eq!(ended.result.as_deref(), Some(&b"kept"[..]));
    let job = client.get(id).await.expect("seen").expect("kept");
    assert_eq!((job.attempt, job.crashes), (1, 0), "nothing was lost");
    assert_eq!(runs.load(Ordering::SeqCst), 1, "it ran once");
    stop.stop();
    working.await.expect("no panic").expect("it succeeded");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_a_server_exits_at_its_stop_timeout() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let begun = Arc::new(Notify::new());
    let worker = {
        let begun = Arc::clone(&begun);
        Worker::new(&client).grace(Duration::from_millis(100)).handle("long", move |_| {
            begun.notify_one();
            std::future::pending::<Result<(), Error>>()
        })
    };
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    client.push(Job::new("long")).await.expect("pushed");
    timeout(SOON, begun.notified()).await.expect("it runs");
    server.signal("KILL");
    drop(server);
    stop.stop();
    let ended = timeout(SOON, working).await.expect("it ends").expect("no panic");
    assert!(ended.is_err(), "it could not hand its job back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_asked_to_stop_and_is_cancelled() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let begun = Arc::new(Notify::new());
    let worker = {
        let begun = Arc::clone(&begun);
        Worker::new(&client).handle("long", move |job| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                job.cancel().cancelled().await;
                Ok::<_, Error>(Outcome::cancelled())
            }
        })
    };
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let id = client.push(job_with_result("long")).await.expect("pushed");
    timeout(SOON, begun.notified()).await.expect("it runs");
    client.cancel(id).await.expect("a response");
    assert_eq!(ended(&client, id).await.state(), v1::State::Cancelled);
    stop.stop();
    working.await.expect("no panic").expect("it succeeded");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_worker_hands_back_jobs_that_take_too_long() {
    let dir = dir();
    let server = Server::start(dir.path(), &[]);
    let client = connect(&server).await;
    let begun = Arc::new(Notify::new());
    let worker = {
        let begun = Arc::clone(&begun);
        Worker::new(&client).grace(Duration::from_millis(100)).handle("long", move |_| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                std::future::pending::<()>().await;
                Ok::<_, Error>(())
            }
        })
    };
    let stop = worker.stopper();
    let working = tokio::spawn(worker.run());
    let id = client.push(Job::new("long")).await.expect("pushed");
    timeout(SOON, begun.notified()).await.expect("it runs");
    stop.stop();
    timeout(SOON, working).await.expect("in time").expect("no panic").expect("it succeeded");
    let job = client.get(id).await.expect("seen").expect("it exists");
    assert_eq!((job.state(), job.attempt, job.crashes), (v1::State::Ready, 0, 0));
    server.stop();
}
