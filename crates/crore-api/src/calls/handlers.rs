//! Handlers: definitions of how jobs of a kind are run.

use std::sync::Arc;

use crore::handlers::Known;
use crore_core::handler::{BUILT_IN, Follows};
use crore_core::{Handler, Name, Time};
use crore_wire::Format;
use crore_wire::api::handlers::{self as wire, SetHandler};
use crore_wire::words::Moment;

use crate::{Api, Fault};

/// The handler of a kind, with its next scheduled run.
#[derive(Debug)]
pub struct HandlerView {
    /// The kind.
    pub kind: Name,
    /// The definition.
    pub handler: Arc<Handler>,
    /// The next run, if the handler has a schedule.
    pub next_at: Option<Time>,
}

/// All handlers.
#[derive(Debug)]
pub struct HandlerList {
    /// The handlers, by kind.
    pub handlers: Vec<HandlerView>,
    /// Kinds whose stored definition cannot be read.
    pub unreadable: Vec<String>,
}

impl HandlerView {
    /// The structure of the native API.
    pub fn to_wire(&self, format: Format) -> wire::Handler {
        let Self { kind, handler, next_at } = self;
        wire::Handler {
            kind: kind.to_string(),
            id: (handler.id != BUILT_IN).then_some(handler.id),
            next_at: next_at.map(Moment),
            says: SetHandler::of(handler, format),
        }
    }
}

impl Api {
    /// All handlers.
    pub async fn list_handlers(&self) -> Result<HandlerList, Fault> {
        let known = self.engine().handlers().list().await?;
        let handlers = known.iter().map(|(kind, known)| self.view_of(kind.clone(), shown(known)));
        let handlers = handlers.collect();
        let unreadable = self.engine().handlers().unreadable().await?;
        let unreadable = unreadable.iter().map(ToString::to_string).collect();
        Ok(HandlerList { handlers, unreadable })
    }

    /// The handler of a kind.
    pub async fn get_handler(&self, kind: Name) -> Result<HandlerView, Fault> {
        let known = self.engine().handlers().get(&kind).await?;
        let known = known.ok_or_else(|| Fault::missing(format!("handler of `{kind}`")))?;
        Ok(self.view_of(kind, shown(&known)))
    }

    /// Sets the handler of a kind, if its runner exists, is allowed, and accepts the settings.
    pub async fn set_handler(&self, kind: Name, says: SetHandler) -> Result<HandlerView, Fault> {
        let handler = says.read()?;
        self.check_handler(&handler)?;
        let id = self.engine().handlers().set(kind.clone(), handler.clone()).await?;
        Ok(self.view_of(kind, Arc::new(Handler { id, ..handler })))
    }

    /// Removes the handler of a kind, if it has one.
    pub async fn delete_handler(&self, kind: Name) -> Result<(), Fault> {
        self.engine().handlers().remove(kind).await?;
        Ok(())
    }

    fn view_of(&self, kind: Name, handler: Arc<Handler>) -> HandlerView {
        let planned = handler.schedule.as_ref();
        let next_at =
            planned.and_then(|planned| self.engine().schedules().preview(&planned.timing, 1).pop());
        HandlerView { kind, handler, next_at }
    }
}

/// A handler with everything that follows it, by kind. The native API knows no links by number.
fn shown(known: &Known) -> Arc<Handler> {
    if known.handler.links.is_empty() {
        return Arc::clone(&known.handler);
    }
    let Follows { next, on_failure } = (*known.follows).clone();
    Arc::new(Handler { next, on_failure, ..(*known.handler).clone() })
}
