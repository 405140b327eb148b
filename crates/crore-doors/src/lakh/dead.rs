//! `GetDeadJobs`.

use crore::store::views::ListQuery;
use crore_api::Grant;
use crore_core::{Job, State};
use crore_wire::grpc::lakh::DeadJobs;
use prost::Message;
use tonic::Response;
use tonic::metadata::MetadataValue;

use super::LakhReply;
use super::translate::{is_from_lakh, to_lakh};
use crate::Doors;
use crate::grpc::failed;

/// Maximum size of a response: clients accept 4 MiB by default.
const MAX_RESPONSE_BYTES: usize = 4_000_000;
/// Bytes per job besides the job itself: tag and length.
const FIELD_HEADER_BYTES: usize = 6;

/// The dead jobs that the caller may see, ordered by name and then by the time at which they became dead. If they do
/// not fit into one response, it contains the newest ones, and the metadata `crore-more`.
pub(super) async fn dead_jobs(doors: &Doors, grant: &Grant) -> LakhReply<DeadJobs> {
    let mut dead = Vec::new();
    let (mut bytes, mut after, mut more) = (0, None, false);
    'pages: loop {
        let n = doors.engine().status().caps().page;
        let query = ListQuery { state: State::Dead, queue: None, kind: None, key: None, after, n };
        let page = doors.engine().list(query).await.map_err(failed)?;
        let is_shown = |job: &&Job| is_from_lakh(job) && grant.covers_job(&job.spec);
        for job in page.jobs.iter().filter(is_shown) {
            let message = to_lakh(job, &job.spec.queue);
            bytes += message.encoded_len() + FIELD_HEADER_BYTES;
            if bytes > MAX_RESPONSE_BYTES {
                more = true;
                break 'pages;
            }
            dead.push(message);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    dead.reverse();
    dead.sort_by(|one, other| one.name.cmp(&other.name));
    let mut response = Response::new(DeadJobs { jobs: dead });
    if more {
        response.metadata_mut().insert("crore-more", MetadataValue::from_static("true"));
    }
    Ok(response)
}
