//! Named events that jobs wait for.

use crore_core::event::NewEvent;
use crore_core::{Code, Invalid, KeptEvent, Name};
use crore_wire::api::events::EventSent;

use crate::{Api, Fault, Grant};

/// How an error names them. An event releases jobs of any queue and kind.
const EVENTS: &str = "events";

/// Default page size.
const PAGE: usize = 100;

impl Api {
    /// Sends an event. A restricted caller may not: the event would release jobs that the caller may not see.
    pub async fn send_event(&self, grant: &Grant, event: NewEvent) -> Result<EventSent, Fault> {
        grant.check_unrestricted(EVENTS)?;
        let name = event.name.to_string();
        let sent = self.engine().events().send(event).await?;
        let id = crore_core::JobId(sent.id.0).into();
        let (sent_at, waiting) = (crore_wire::units::Moment(sent.at), sent.waiting as u64);
        Ok(EventSent { id, name, sent_at, waiting })
    }

    /// The kept event of a name.
    pub async fn get_event(&self, grant: &Grant, name: Name) -> Result<KeptEvent, Fault> {
        grant.check_unrestricted(EVENTS)?;
        let event = self.engine().events().get(name.clone()).await?;
        let mut event = event.ok_or_else(|| Fault::missing(format!("event `{name}`")))?;
        event.payload = self.masked(&event.payload);
        Ok(event)
    }

    /// A page of kept events, and the name after which the next one begins.
    pub async fn list_events(
        &self,
        grant: &Grant,
        after: Option<&str>,
        n: Option<usize>,
    ) -> Result<(Vec<KeptEvent>, Option<Name>), Fault> {
        grant.check_unrestricted(EVENTS)?;
        let after = after.map(|after| Name::new("after", after)).transpose()?;
        let (n, most) = (n.unwrap_or(PAGE), self.engine().status().caps().page);
        if n == 0 || n > most {
            let message = format!("`{n}` is out of range: 1 to {most}");
            return Err(Invalid::new(Code::CountRange, "limit", message).into());
        }
        let mut events = self.engine().events().list(after, n + 1).await?;
        let is_more = events.len() > n;
        events.truncate(n);
        let next = events.last().filter(|_| is_more).map(|event| event.name.clone());
        Ok((events, next))
    }

    /// Removes the kept event of a name, if there is one.
    pub async fn remove_event(&self, grant: &Grant, name: Name) -> Result<(), Fault> {
        grant.check_unrestricted(EVENTS)?;
        self.engine().events().remove(name).await?;
        Ok(())
    }
}
