//! Jobber: one job per call. Its workers use the native API.

use bytes::Bytes;

use super::super::load::BenchProducer;
use super::super::payload::Template;
use super::http::JSON;

pub(super) async fn push(producer: &mut BenchProducer) -> anyhow::Result<()> {
    let load = producer.load.clone();
    let before = format!("{{\"type\":\"{}\",\"payload\":\"", load.name);
    // The payload size includes the two quotes.
    let size = load.plan.payload - 2 + before.len() + 2;
    let template = Template::new(before.as_bytes(), b"\"}", size);
    let mut connection = load.target.http(JSON).await?;
    load.wait_for_start().await;
    while let Some(batch) = load.source.next().await {
        let mut body = Vec::with_capacity(template.len());
        template.write(batch.numbers.start, batch.begun, &mut body);
        connection.post("/jobber/queue", Bytes::from(body)).await?;
        producer.pushed(&batch);
    }
    Ok(())
}
