//! Jobs that call a bare hyper server, compared with the same calls by reqwest.

use serde_json::json;
use tokio::runtime::Builder;

use crate::client::RunnersClient;
use crate::throughput::{compare_rates, repeat};
use crore_bench::report::Goal;
use crore_bench::server::BenchServer;
use crore_bench::server::measurement::{PAYLOAD_BYTES, ServerBench};

/// Concurrent calls.
const PARALLEL: [usize; 2] = [8, 64];

pub(crate) fn measure(bench: &mut ServerBench) {
    let channels = PARALLEL.map(|parallel| format!("{}={parallel}", queue(parallel)));
    let mut more = Vec::new();
    for channel in &channels {
        more.extend(["--channel", channel]);
    }
    let (server, called) = (BenchServer::crore_with(&bench.work_dir, &more), BenchServer::bare());
    let url = format!("http://{}/", called.address);
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crore = RunnersClient::connect(&server).await;
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

async fn calls(
    bench: &mut ServerBench,
    (crore, url): (&RunnersClient, &str),
    pooled: bool,
    parallel: usize,
) {
    let (n, queue) = (bench.scale.pickups * 10, queue(parallel));
    let (label, goal) =
        if pooled { ("pooled", Goal::AtLeast(0.7)) } else { ("not pooled", Goal::None) };
    let kind = format!("{label} {queue}");
    let settings = json!({ "url": url, "method": "POST" });
    let handler =
        json!({ "runner": "http", "settings": settings, "queue": queue, "pooled": pooled });
    crore.set_handler(&kind, &handler).await;
    // One client for all turns, so that its connections are reused like the server's.
    let client = reqwest::Client::new();
    compare_rates(
        bench,
        (&format!("http {label}, {parallel} at a time"), n, goal),
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
