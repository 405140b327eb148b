//! Handlers: definitions of how jobs of a kind are run.

use std::sync::Arc;

use crore::handlers::StoredHandler;
use crore_core::handler::{BUILT_IN_ID, FollowUpHandlers};
use crore_core::{Handler, Name, Time};
use crore_wire::Format;
use crore_wire::api::handlers::{self as wire, SetHandler};
use crore_wire::units::Moment;

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
    /// Converts to the type of the native API.
    pub fn to_wire(&self, format: Format) -> wire::Handler {
        let Self { kind, handler, next_at } = self;
        wire::Handler {
            kind: kind.to_string(),
            id: (handler.id != BUILT_IN_ID).then_some(handler.id),
            next_at: next_at.map(Moment),
            definition: SetHandler::of(handler, format),
        }
    }
}

impl Api {
    /// All handlers.
    pub async fn list_handlers(&self) -> Result<HandlerList, Fault> {
        let stored = self.engine().handlers().list().await?;
        let handlers =
            stored.iter().map(|(kind, stored)| self.view_of(kind.clone(), with_follow_ups(stored)));
        let handlers = handlers.collect();
        let unreadable = self.engine().handlers().unreadable().await?;
        let unreadable = unreadable.iter().map(ToString::to_string).collect();
        Ok(HandlerList { handlers, unreadable })
    }

    /// The handler of a kind.
    pub async fn get_handler(&self, kind: Name) -> Result<HandlerView, Fault> {
        let stored = self.engine().handlers().get(&kind).await?;
        let stored = stored.ok_or_else(|| Fault::missing(format!("handler of `{kind}`")))?;
        Ok(self.view_of(kind, with_follow_ups(&stored)))
    }

    /// Sets the handler of a kind, if its runner exists, is allowed, and accepts the settings.
    pub async fn set_handler(
        &self,
        kind: Name,
        definition: SetHandler,
    ) -> Result<HandlerView, Fault> {
        let handler = definition.read()?;
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

/// A handler whose follow-up handlers are named by kind: the native API has no links by id.
fn with_follow_ups(stored: &StoredHandler) -> Arc<Handler> {
    if stored.handler.links.is_empty() {
        return Arc::clone(&stored.handler);
    }
    let FollowUpHandlers { next, on_failure } = (*stored.follows).clone();
    Arc::new(Handler { next, on_failure, ..(*stored.handler).clone() })
}
