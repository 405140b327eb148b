//! Jobs that are calls of a bare hyper server, beside the same calls by reqwest.

use serde_json::json;
use tokio::runtime::Builder;

use crate::client::Crore;
use crate::throughput::{beside, repeat};
use crore_bench::report::Goal;
use crore_bench::server::Server;
use crore_bench::server::measurement::{Bench, PAYLOAD_BYTES};

/// How many at a time.
const PARALLEL: [usize; 2] = [8, 64];

pub(crate) fn measure(bench: &mut Bench) {
    let channels = PARALLEL.map(|parallel| format!("{}={parallel}", queue(parallel)));
    let mut more = Vec::new();
    for channel in &channels {
        more.extend(["--channel", channel]);
    }
    let (server, called) = (Server::crore_with(&bench.work_dir, &more), Server::bare());
    let url = format!("http://{}/", called.address);
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crore = Crore::connect(&server).await;
        for pooled in [true, false] {
            for parallel in PARALLEL {
                calls(bench, (&crore, &url), pooled, parallel).await;
            }
        }
    });
}

fn queue(parallel: usize) -> String {
    format!("by-{parallel}")
}

async fn calls(bench: &mut Bench, (crore, url): (&Crore, &str), pooled: bool, parallel: usize) {
    let (n, queue) = (bench.scale.pickups * 10, queue(parallel));
    let (sort, goal) =
        if pooled { ("pooled", Goal::AtLeast(0.7)) } else { ("not pooled", Goal::None) };
    let kind = format!("{sort} {queue}");
    let settings = json!({ "url": url, "method": "POST" });
    let handler =
        json!({ "runner": "http", "settings": settings, "queue": queue, "pooled": pooled });
    crore.set(&kind, &handler).await;
    // One for all turns, so that its connections are kept as the server's are.
    let client = reqwest::Client::new();
    beside(
        bench,
        (&format!("http {sort}, {parallel} at a time"), n, goal),
        async || crore.run_all(&kind, &queue, n).await,
        ("bare reqwest", async || {
            let (client, url) = (client.clone(), url.to_owned());
            repeat((n, parallel), move || call(client.clone(), url.clone())).await
        }),
    )
    .await;
}

async fn call(client: reqwest::Client, url: String) {
    let answer = client.post(url).body(vec![b'x'; PAYLOAD_BYTES]).send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    answer.bytes().await.unwrap();
}
