//! A Lakh worker that runs until the server stops: see the example `lakh_client`.

use crore_wire::grpc::lakh::lakh_client::LakhClient;
use crore_wire::grpc::lakh::{Job, JobResult, JobStatus};
use futures_util::stream;
use tokio::sync::mpsc;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::Endpoint;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).ok_or("usage: lakh_worker URL")?;
    let mut client = LakhClient::new(Endpoint::from_shared(server)?.connect().await?);
    let (reports, to_report) = mpsc::channel(16);
    let said = stream::unfold(to_report, |mut to_report| async {
        Some((to_report.recv().await?, to_report))
    });
    let mut request = Request::new(said);
    request.metadata_mut().insert("job_names", MetadataValue::from_static("greet"));
    let mut jobs = client.join(request).await?.into_inner();
    println!("joined");
    while let Some(job) = jobs.message().await? {
        let status = greet(&job);
        // A job without a reservation needs no report.
        if job.reservation_time.is_some() {
            let (job_id, job_name) = (job.id, job.name);
            reports.send(JobResult { job_id, job_name, status: status.into() }).await?;
        }
    }
    println!("the server has stopped");
    Ok(())
}

fn greet(job: &Job) -> JobStatus {
    match job.args.as_slice() {
        [] => JobStatus::Failed,
        names => {
            println!("hello {}", names.join(" and "));
            JobStatus::Succeeded
        }
    }
}
