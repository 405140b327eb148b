//! What deliveries say while they run.

use axum::extract::State;
use axum::response::Response;
use crore::store::views::Note;
use crore_core::{Code, Invalid};
use crore_wire::api::notes::{HowFar, Line, NewNote, NewNotes, Noted, Notes};
use crore_wire::words::Moment;

use super::body::Read;
use super::fault::Fault;
use super::query::Segment;
use super::wants::Reply;
use crate::Doors;

/// Keeps notes of running deliveries: how far they are, and log lines.
#[utoipa::path(
    post, path = "/v1/notes", operation_id = "addNotes", tag = "work",
    request_body = NewNotes,
    responses((status = 200, description = "How many were kept.", body = Noted)),
)]
pub(super) async fn add(
    State(doors): State<Doors>,
    reply: Reply,
    Read { value: ask, .. }: Read<NewNotes>,
) -> Result<Response, Fault> {
    let notes = ask.notes.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let kept = doors.engine().note(notes).await?;
    Ok(reply.ok(&Noted { kept }))
}

fn read((place, note): (usize, NewNote)) -> Result<Note, Invalid> {
    let NewNote { id, delivery, percent, text } = note;
    let (id, delivery) = (id.into(), delivery.into());
    match (percent, text) {
        (Some(percent), text) => {
            Ok(Note::Progress { id, delivery, percent, text: text.unwrap_or_default().into() })
        }
        (None, Some(text)) => Ok(Note::Line { id, delivery, text: text.into() }),
        (None, None) => {
            let field = format!("notes[{place}]");
            Err(Invalid::new(Code::Malformed, field, "needs a `percent`, a `text`, or both"))
        }
    }
}

/// What the deliveries of a job have said.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/notes", operation_id = "getNotes", tag = "jobs",
    params(("id" = crore_wire::api::Id, Path, description = "The job.")),
    responses((status = 200, description = "The newest progress, and the newest log lines.", body = Notes)),
)]
pub(super) async fn get(
    State(doors): State<Doors>,
    reply: Reply,
    id: Segment,
) -> Result<Response, Fault> {
    let id = id.job()?;
    let notes = doors.engine().notes(id).await?;
    if notes == Default::default() && doors.engine().get(id).await?.is_none() {
        return Err(Fault::missing(format!("job {id}")));
    }
    let progress = notes.progress.map(|(at, percent, text)| HowFar {
        at: Moment(at),
        percent,
        text: text.to_string(),
    });
    let line = |(at, text): (crore_core::Time, std::sync::Arc<str>)| Line {
        at: Moment(at),
        text: text.to_string(),
    };
    Ok(reply.ok(&Notes { progress, lines: notes.lines.into_iter().map(line).collect() }))
}
