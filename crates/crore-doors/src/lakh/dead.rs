//! `GetDeadJobs`.

use crore::store::views::Query;
use crore_core::State;
use crore_wire::grpc::lakh::DeadJobs;
use prost::Message;
use tonic::Response;
use tonic::metadata::MetadataValue;

use super::Answer;
use super::translate::{came_here, say};
use crate::Doors;
use crate::grpc::failed;

/// What fits into one answer: clients take 4 MiB unless they are told otherwise.
const MOST_BYTES: usize = 4_000_000;
/// What a job takes in an answer besides itself: its tag and its length.
const FRAME: usize = 6;

/// The jobs that are dead, name by name, and those of a name in the order of their deaths. If they are too many
/// for one answer it has the newest, and `crore-more` in its metadata.
pub(super) async fn all(doors: &Doors) -> Answer<DeadJobs> {
    let mut dead = Vec::new();
    let (mut bytes, mut after, mut more) = (0, None, false);
    'pages: loop {
        let n = doors.engine().status().caps().page;
        let query = Query { state: State::Dead, queue: None, kind: None, after, n };
        let page = doors.engine().list(query).await.map_err(failed)?;
        for job in page.jobs.iter().filter(|job| came_here(job)) {
            let said = say(job);
            bytes += said.encoded_len() + FRAME;
            if bytes > MOST_BYTES {
                more = true;
                break 'pages;
            }
            dead.push(said);
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
