//! Handlers: definitions of how jobs of a kind are run.

use std::sync::Arc;

use crore::handlers::StoredHandler;
use crore::store::registry::RegistryEntry;
use crore_core::handler::secrets::{MASK, find_mask, masked};
use crore_core::handler::{BUILT_IN_ID, FollowUpHandlers};
use crore_core::{Code, Handler, Invalid, Name, Time};
use crore_wire::Format;
use crore_wire::api::handlers::{self as wire, SetHandler};
use crore_wire::units::Moment;

use crate::if_match::{IfMatch, Tagged, revision_tag};
use crate::{Api, Fault, Grant, Scope};

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
    /// All handlers of kinds that the caller may see.
    pub async fn list_handlers(&self, grant: &Grant) -> Result<HandlerList, Fault> {
        let is_shown = |kind: &Name| grant.only().is_none_or(|only| only.covers_kind(kind));
        let stored = self.engine().handlers().list().await?;
        let shown = stored.iter().filter(|(kind, _)| is_shown(kind));
        let handlers =
            shown.map(|(kind, stored)| self.view_for(grant, kind, with_follow_ups(stored)));
        let handlers = handlers.collect();
        let mut unreadable = self.engine().handlers().unreadable().await?;
        unreadable.retain(is_shown);
        let unreadable = unreadable.iter().map(ToString::to_string).collect();
        Ok(HandlerList { handlers, unreadable })
    }

    /// The handler of a kind.
    pub async fn get_handler(
        &self,
        grant: &Grant,
        kind: Name,
    ) -> Result<Tagged<HandlerView>, Fault> {
        grant.check_kind(&kind)?;
        let stored = self.engine().handlers().get(&kind).await?;
        let stored = stored.ok_or_else(|| Fault::missing(format!("handler of `{kind}`")))?;
        let tag = Some(revision_tag(stored.revision));
        Ok(Tagged { value: self.view_for(grant, &kind, with_follow_ups(&stored)), tag })
    }

    /// Sets the handler of a kind, if its runner exists, is allowed, and accepts the settings.
    pub async fn set_handler(
        &self,
        grant: &Grant,
        kind: Name,
        definition: SetHandler,
        if_match: &IfMatch,
    ) -> Result<Tagged<HandlerView>, Fault> {
        let handler = definition.read()?;
        check_define(grant, &kind, &handler)?;
        if let Some(path) = find_mask(&handler.settings) {
            let why =
                format!("`{MASK}` stands for a masked value; set the value, or a reference to it");
            return Err(Invalid::new(Code::Malformed, format!("settings.{path}"), why).into());
        }
        self.check_handler(&handler)?;
        let handlers = self.engine().handlers();
        let accepts = |entry: Option<&RegistryEntry>| if_match.accepts(entry);
        let id = handlers.set_if(kind.clone(), handler.clone(), accepts).await?;
        let id = id.ok_or_else(|| IfMatch::failed(&format!("the handler of `{kind}`")))?;
        let tag = handlers.get(&kind).await?.map(|stored| revision_tag(stored.revision));
        Ok(Tagged { value: self.view_of(kind, Arc::new(Handler { id, ..handler })), tag })
    }

    /// Removes the handler of a kind, if it has one.
    pub async fn delete_handler(&self, grant: &Grant, kind: Name) -> Result<(), Fault> {
        grant.check_whole_kind(&kind)?;
        self.engine().handlers().remove(kind).await?;
        Ok(())
    }

    /// A handler as the caller may see it: inline secrets are masked, except for callers that may define handlers.
    fn view_for(&self, grant: &Grant, kind: &Name, handler: Arc<Handler>) -> HandlerView {
        if grant.has(Scope::Define) {
            return self.view_of(kind.clone(), handler);
        }
        let settings = masked(&handler.settings);
        self.view_of(kind.clone(), Arc::new(Handler { settings, ..(*handler).clone() }))
    }

    fn view_of(&self, kind: Name, handler: Arc<Handler>) -> HandlerView {
        let planned = handler.schedule.as_ref();
        let next_at =
            planned.and_then(|planned| self.engine().schedules().preview(&planned.timing, 1).pop());
        HandlerView { kind, handler, next_at }
    }
}

/// Refuses the definition of a handler outside the caller's restriction. A handler runs the jobs of its kind in every
/// queue, and its follow-ups push jobs of other kinds. Links by id are checked by the door that has them.
pub fn check_define(grant: &Grant, kind: &Name, handler: &Handler) -> Result<(), Invalid> {
    if grant.only().is_none() {
        return Ok(());
    }
    grant.check_whole_kind(kind)?;
    for (field, follows) in [("next", &handler.next), ("on_failure", &handler.on_failure)] {
        for (n, follow) in follows.iter().enumerate() {
            let inside = |invalid: Invalid| invalid.inside(&format!("{field}[{n}]"));
            grant.check_kind(&follow.kind).map_err(inside)?;
        }
    }
    Ok(())
}

/// A handler whose follow-up handlers are named by kind: the native API has no links by id.
fn with_follow_ups(stored: &StoredHandler) -> Arc<Handler> {
    if stored.handler.links.is_empty() {
        return Arc::clone(&stored.handler);
    }
    let FollowUpHandlers { next, on_failure } = (*stored.follows).clone();
    Arc::new(Handler { next, on_failure, ..(*stored.handler).clone() })
}
