//! Notes of running deliveries: progress and log lines.

use std::sync::Arc;

use crore::store::views::Note;
use crore_core::{Code, Invalid, JobId, Time};
use crore_wire::api::notes::{HowFar, Line, NewNote, NewNotes, Noted, Notes};
use crore_wire::units::Moment;

use crate::{Api, Fault, Grant};

impl Api {
    /// Stores notes of running deliveries.
    pub async fn add_notes(&self, grant: &Grant, notes: NewNotes) -> Result<Noted, Fault> {
        let which = || notes.notes.iter().map(|note| JobId::from(note.id).into()).collect();
        self.check_selected(grant, which).await?;
        let notes = notes.notes.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let kept = self.engine().deliveries().note(notes).await?;
        Ok(Noted { kept })
    }

    /// The newest progress and the newest log lines of a job.
    pub async fn get_notes(&self, grant: &Grant, id: JobId) -> Result<Notes, Fault> {
        self.check_jobs(grant, &[id]).await?;
        let notes = self.engine().jobs().notes(id).await?;
        if notes == Default::default() {
            // Tells a job without notes from a missing job.
            self.get_job(grant, id).await?;
        }
        let progress = notes.progress.map(|(at, percent, text)| HowFar {
            at: Moment(at),
            percent,
            text: text.to_string(),
        });
        let line = |(at, text): (Time, Arc<str>)| Line { at: Moment(at), text: text.to_string() };
        Ok(Notes { progress, lines: notes.lines.into_iter().map(line).collect() })
    }
}

fn read((n, note): (usize, NewNote)) -> Result<Note, Invalid> {
    let NewNote { id, delivery, percent, text } = note;
    let (id, delivery) = (id.into(), delivery.into());
    match (percent, text) {
        (Some(percent), text) => {
            Ok(Note::Progress { id, delivery, percent, text: text.unwrap_or_default().into() })
        }
        (None, Some(text)) => Ok(Note::Line { id, delivery, text: text.into() }),
        (None, None) => {
            let field = format!("notes[{n}]");
            Err(Invalid::new(Code::Malformed, field, "needs a `percent`, a `text`, or both"))
        }
    }
}
