//! A Lakh producer. With `crore serve` in another terminal:
//!
//! ```sh
//! cargo run -p crore-doors --example lakh_worker http://127.0.0.1:9000 &
//! cargo run -p crore-doors --example lakh_client http://127.0.0.1:9000 Ada Grace
//! ```

use crore_wire::grpc::lakh::Job;
use crore_wire::grpc::lakh::job::ExecutionTime;
use crore_wire::grpc::lakh::lakh_client::LakhClient;
use prost_types::Duration;
use tonic::Request;
use tonic::metadata::MetadataValue;
use tonic::transport::Endpoint;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().ok_or("usage: lakh_client URL NAME...")?;
    let mut client = LakhClient::new(Endpoint::from_shared(server)?.connect().await?);
    // The id makes a job unique: sending it twice adds one job.
    let run = getrandom::u64()?;
    let job = |(n, name): (usize, String)| Job {
        id: format!("{run:x}-{n}"),
        name: "greet".to_owned(),
        args: vec![name],
        execution_time: Some(ExecutionTime::Immediate(())),
        reservation_time: Some(Duration { seconds: 30, nanos: 0 }),
    };
    let jobs: Vec<Job> = arguments.enumerate().map(job).collect();
    let n = jobs.len();
    let mut request = Request::new(futures_util::stream::iter(jobs));
    request.metadata_mut().insert("job_names", MetadataValue::from_static("greet"));
    client.work(request).await?;
    println!("{n} jobs stored");
    let dead = client.get_dead_jobs(()).await?.into_inner();
    println!("{} jobs are dead", dead.jobs.len());
    Ok(())
}
