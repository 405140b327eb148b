//! Many jobs and many unreliable workers: every job ends, no worker exceeds its maximum, and each job is done once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use crore::Engine;
use http::Response;
use serde_json::{Value, json};

use super::{job_of, packed, plain, with_short_intervals};
use crate::local_server::{LocalServer, eventually};
use crore_testkit::http_peer::{Peer, PeerCall, PeerReply};

const JOBS: usize = 120;
const MAX_JOBS: u32 = 3;

/// State shared by all workers.
#[derive(Default)]
struct SharedCounts {
    server: Mutex<Option<Arc<LocalServer>>>,
    /// Number of acknowledged success reports for each job.
    done: Mutex<BTreeMap<String, usize>>,
    most: AtomicUsize,
}

struct UnreliableWorker {
    world: Arc<SharedCounts>,
    id: Mutex<String>,
    /// Number of jobs that it has accepted and not reported yet.
    accepted: AtomicUsize,
    seed: usize,
}

impl UnreliableWorker {
    fn answer(self: &Arc<Self>, n: usize, call: &PeerCall) -> Option<Response<Bytes>> {
        let job = job_of(call);
        // Deterministic numbers that look random.
        match n.wrapping_mul(2_654_435_761).wrapping_add(self.seed * 97) / 7 % 30 {
            0 => plain(500),
            1 => None,
            2 => plain(503),
            3 => packed(200, &json!("garbage")),
            4 => plain(202),
            5 if job["name"] == "rare" => plain(404),
            6..=10 => {
                self.reports(job, 1);
                plain(202)
            }
            11 | 12 => {
                self.reports(job, 2);
                plain(202)
            }
            _ => packed(200, &json!({"type": "success"})),
        }
    }

    /// Reports after its response, `times` times.
    fn reports(self: &Arc<Self>, job: Value, times: usize) {
        let (this, delivery) = (Arc::clone(self), job["delivery"].clone());
        self.world
            .most
            .fetch_max(self.accepted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::spawn(async move {
            let server = this.world.server.lock().expect("no panic").clone().expect("it exists");
            let worker = this.id.lock().expect("no panic").clone();
            let id = job["job_id"].as_str().expect("an id").to_owned();
            this.accepted.fetch_sub(1, Ordering::SeqCst);
            for _ in 0..times {
                let report = json!({"job_id": id, "type": "success", "delivery": delivery});
                let status = server.done(&worker, report).await;
                assert_eq!(
                    status, 204,
                    "the first report counts, and the second gets the same response"
                );
            }
            *this.world.done.lock().expect("no panic").entry(id).or_default() += 1;
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_ends_with_unreliable_workers() {
    let server = Arc::new(LocalServer::on(Engine::memory(), with_short_intervals).await);
    let world = Arc::new(SharedCounts::default());
    *world.server.lock().expect("no panic") = Some(Arc::clone(&server));
    let mut peers = Vec::new();
    for seed in 0..4 {
        let (world, id, has) = (Arc::clone(&world), Mutex::default(), AtomicUsize::new(0));
        let crook = Arc::new(UnreliableWorker { world, id, accepted: has, seed });
        let answers = Arc::clone(&crook);
        let peer = Peer::start(PeerReply::by(move |n, call| answers.answer(n, call))).await;
        *crook.id.lock().expect("no panic") = server.join(&peer.url(), MAX_JOBS).await;
        peers.push(peer);
    }
    let mut ids = Vec::new();
    for n in 0..JOBS {
        let name = if n % 10 == 0 { "rare" } else { "mail" };
        ids.push(server.push(json!({"name": name, "argument": {"n": n}, "timeout": 1})).await);
    }
    for id in &ids {
        server.until(id, "done").await;
    }
    assert!(world.most.load(Ordering::SeqCst) <= MAX_JOBS as usize, "no worker exceeded its slots");
    let twice = world.done.lock().expect("no panic").values().filter(|n| **n > 1).count();
    assert_eq!(twice, 0, "a reported job is not delivered again");
    // Nothing is running, and every slot is free.
    eventually(|| async {
        let counts = server.engine.jobs().counts(None).await.expect("an answer");
        counts.iter().all(|count| count.state == crore_core::State::Done)
    })
    .await;
    *world.server.lock().expect("no panic") = None;
}
