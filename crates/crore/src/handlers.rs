//! Handlers: the stored definitions of how jobs of a kind are run, their defaults, and their follow-ups. The engine
//! caches all of them and reloads them after a change.

mod follow_ups;
mod index;
mod schedule;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crore_core::handler::{
    BUILT_IN_ID, FollowUpHandlers, HANDLER_LABEL, MAX_FORMER_KINDS, PHASE_LABEL,
};
use crore_core::job::DueTime;
use crore_core::{Code, Handler, Invalid, Job, Name, NewJob, Revision};
use crore_store::registry::{
    Define, DefineAction, DefineGuard, Defined, RegistryEntry, RegistryTable, RegistryValue,
};

use crate::drop_guard::DropGuard;
use crate::engine::EngineInner;
use crate::error::Error;
use crate::upkeep::Duty;

use index::HandlerIndex;
pub(crate) use schedule::check_not_of_handler;
use schedule::schedule_name;

/// Registry entry with the last handler id, so that no id is used twice. No kind may have this name.
const COUNTER_ENTRY: &str = "crore.handlers";

/// Reason given for a stored handler that cannot be decoded.
const UNREADABLE: &str = "the stored definition cannot be read; set it again or remove it";

/// A stored handler.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredHandler {
    /// The definition.
    pub handler: Arc<Handler>,
    /// Revision of the stored entry; every change gives it a new one.
    pub revision: Revision,
    /// All handlers that follow it: those named by kind, and those linked by id.
    pub follows: Arc<FollowUpHandlers>,
}

/// All handlers, by kind.
pub type HandlersByKind = Arc<BTreeMap<Name, StoredHandler>>;

/// Cache of all handlers.
#[derive(Debug, Default)]
pub(crate) struct HandlerCache {
    cached: RwLock<CachedHandlers>,
    /// Number of changes requested so far, whether or not they succeeded.
    changes: AtomicU64,
    /// Whether there are any handlers; spares most engines the lock.
    has_any: AtomicBool,
}

#[derive(Debug, Default)]
struct CachedHandlers {
    index: Arc<HandlerIndex>,
    /// Value of [`HandlerCache::changes`] before the handlers were read from the store.
    changes: u64,
}

impl HandlerCache {
    fn cached(&self) -> RwLockReadGuard<'_, CachedHandlers> {
        self.cached.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn index(&self) -> Arc<HandlerIndex> {
        Arc::clone(&self.cached().index)
    }

    /// The handlers; `None`: there are none.
    fn index_if_any(&self) -> Option<Arc<HandlerIndex>> {
        self.has_any.load(Ordering::Acquire).then(|| self.index())
    }

    /// Whether no change was requested since the cached handlers were read.
    pub(crate) fn is_current(&self) -> bool {
        self.cached().changes == self.changes.load(Ordering::Acquire)
    }

    /// Replaces the cached handlers, unless a read that started later has replaced them already.
    fn set(&self, changes: u64, index: HandlerIndex) {
        let mut existing = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        if changes >= existing.changes {
            self.has_any.store(!index.all.is_empty(), Ordering::Release);
            *existing = CachedHandlers { index: Arc::new(index), changes };
        }
    }
}

/// Handlers; see [`Engine::handlers`](crate::Engine::handlers).
///
/// ```
/// use crore::core::handler::Handler;
/// use crore::core::Name;
/// use crore::{Engine, block_on};
///
/// # fn main() -> Result<(), crore::Error> {
/// let engine = Engine::memory();
/// let (kind, runner) = (Name::new("kind", "hello")?, Name::new("runner", "command")?);
/// let settings = [("program".to_owned(), "date".into())].into_iter().collect();
/// let id = block_on(engine.handlers().set(kind.clone(), Handler::new(runner, settings)))?;
/// let stored = block_on(engine.handlers().get(&kind))?.expect("it exists");
/// assert_eq!(stored.handler.id, id);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Handlers<'a> {
    pub(crate) inner: &'a EngineInner,
}

impl Handlers<'_> {
    /// Creates or replaces the handler of a kind, and returns its id. An existing handler keeps its id, and a
    /// [built-in](BUILT_IN_ID) one has a fixed id. The handler applies to the next push, fetch and end of a job.
    pub async fn set(self, kind: Name, handler: Handler) -> Result<u64, Error> {
        let set = self.set_if(kind, handler, |_| true).await?;
        set.ok_or(Error::Refused {
            what: "the handler".to_owned(),
            why: "changed meanwhile; retry",
        })
    }

    /// Like [`set`](Self::set), if `accepts` holds for the current entry (`None`: there is none); `None`: it does not.
    pub async fn set_if(
        self,
        kind: Name,
        handler: Handler,
        accepts: impl Fn(Option<&RegistryEntry>) -> bool + Send + Sync,
    ) -> Result<Option<u64>, Error> {
        self.inner.check_handler(&kind, &handler)?;
        loop {
            let entry = self.inner.entry(RegistryTable::Handlers, &kind).await?;
            if !accepts(entry.as_ref()) {
                return Ok(None);
            }
            let existing = entry.as_ref().and_then(|entry| decode_handler(&entry.value));
            let id = match &existing {
                Some(existing) if existing.id > 0 => existing.id,
                _ if handler.id == BUILT_IN_ID => BUILT_IN_ID,
                _ => self.inner.next_handler_id().await?,
            };
            let formerly = existing.map(|existing| existing.formerly).unwrap_or_default();
            let guard = entry.map_or(DefineGuard::Absent, |entry| DefineGuard::At(entry.revision));
            let handler = Handler { id, formerly, ..handler.clone() };
            if self.inner.define_handler(&kind, &handler, guard).await? {
                return Ok(Some(id));
            }
        }
    }

    /// Creates the handler of a kind and returns its id; `None`: the kind already has a handler.
    pub async fn add(self, kind: Name, handler: Handler) -> Result<Option<u64>, Error> {
        self.inner.check_handler(&kind, &handler)?;
        if self.inner.entry(RegistryTable::Handlers, &kind).await?.is_some() {
            return Ok(None);
        }
        let id = self.inner.next_handler_id().await?;
        let handler = Handler { id, ..handler };
        Ok(self.inner.define_handler(&kind, &handler, DefineGuard::Absent).await?.then_some(id))
    }

    /// Replaces the handler of a kind if its revision is still `seen`; `false`: it was changed or removed
    /// meanwhile. The id is taken from `handler`.
    pub async fn replace(
        self,
        (kind, seen): (Name, Revision),
        handler: Handler,
    ) -> Result<bool, Error> {
        self.inner.check_handler(&kind, &handler)?;
        self.inner.define_handler(&kind, &handler, DefineGuard::At(seen)).await
    }

    /// Moves a handler to another kind and replaces its definition; `false`: it was changed meanwhile, or the new
    /// kind already has a handler. Waiting jobs of the old kind are still run by it, except those pushed for
    /// another handler that has the old kind by then. This is one write: after a crash the handler exists under one
    /// of the kinds.
    pub async fn rename(
        self,
        (from, revision): (Name, Revision),
        to: Name,
        handler: Handler,
    ) -> Result<bool, Error> {
        let formerly = self.inner.former_kinds(&from, &to, &handler.formerly).await?;
        let handler = Handler { formerly, ..handler };
        self.inner.check_handler(&to, &handler)?;
        self.inner.move_handler((from, revision), to, &handler).await
    }

    /// Removes the handler of a kind; `false`: it has none. Waiting jobs of the kind stay in their queue until a
    /// worker or a new handler takes them.
    pub async fn remove(self, kind: Name) -> Result<bool, Error> {
        let was_there = self.inner.entry(RegistryTable::Handlers, &kind).await?.is_some();
        if was_there && kind.as_str() != COUNTER_ENTRY {
            self.inner.undefine_handler(&kind, DefineGuard::Any).await?;
        }
        Ok(was_there)
    }

    /// Removes the handler of a kind if its revision is still `seen`; `false`: it was changed or removed meanwhile.
    pub async fn remove_at(self, (kind, seen): (Name, Revision)) -> Result<bool, Error> {
        self.inner.undefine_handler(&kind, DefineGuard::At(seen)).await
    }

    /// The handler of a kind, if it has one. A stored handler that cannot be decoded is [`Error::Refused`].
    pub async fn get(self, kind: &Name) -> Result<Option<StoredHandler>, Error> {
        self.inner.ensure_handlers_current().await?;
        let index = self.inner.handlers.index();
        if index.unreadable.contains(kind) {
            let what = format!("the handler of `{kind}`");
            return Err(Error::Refused { what, why: UNREADABLE });
        }
        Ok(index.all.get(kind).cloned())
    }

    /// Kinds whose stored handlers cannot be decoded, as after a downgrade. Their jobs are not run until the
    /// handler is set again or removed.
    pub async fn unreadable(self) -> Result<Vec<Name>, Error> {
        self.inner.ensure_handlers_current().await?;
        Ok(self.inner.handlers.index().unreadable.iter().cloned().collect())
    }

    /// The cached handler of a job: the one that it was pushed for, even if that has been renamed, or else the one
    /// of its kind.
    pub fn of_job(self, job: &Job) -> Option<(Name, StoredHandler)> {
        let index = self.inner.handlers.index();
        index.of_job(&job.spec).map(|(kind, stored)| (kind.clone(), stored.clone()))
    }

    /// Sets the queue of a job that its caller left unset to that of the handler of its kind, so that the queue is
    /// known before the job is pushed.
    pub async fn settle_queue(self, job: &mut NewJob) -> Result<(), Error> {
        if std::mem::take(&mut job.unset.queue) {
            self.inner.ensure_handlers_current().await?;
            if let Some((_, stored)) = self.inner.handlers.index().of_kind(&job.spec.kind) {
                job.spec.queue = stored.handler.queue.clone();
            }
        }
        Ok(())
    }

    /// All handlers, by kind.
    pub async fn list(self) -> Result<HandlersByKind, Error> {
        self.inner.ensure_handlers_current().await?;
        Ok(Arc::clone(&self.inner.handlers.index().all))
    }
}

fn decode_handler(value: &RegistryValue) -> Option<Handler> {
    match value {
        RegistryValue::Handler(text) => Handler::from_text(text),
        _ => None,
    }
}

impl EngineInner {
    fn check_handler(&self, kind: &Name, handler: &Handler) -> Result<(), Invalid> {
        if kind.as_str() == COUNTER_ENTRY {
            let message = format!("`{COUNTER_ENTRY}` is reserved; choose another kind");
            return Err(Invalid::new(Code::Refused, "kind", message));
        }
        schedule_name(kind)?;
        if let Some(planned) = &handler.schedule
            && planned.timing.next_after(self.now()).is_none()
        {
            let message = format!("`{}` never fires again", planned.timing);
            return Err(Invalid::new(Code::ScheduleNever, "schedule.timing", message));
        }
        handler.check(&self.caps)
    }

    /// Former kinds of a renamed handler that still have jobs, the latest first.
    async fn former_kinds(
        &self,
        from: &Name,
        to: &Name,
        before: &[Name],
    ) -> Result<Vec<Name>, Error> {
        let counts = self.store.counts(None).await?;
        let before = before.iter().filter(|kind| counts.iter().any(|count| count.kind == **kind));
        let mut kinds: Vec<Name> = vec![from.clone()];
        kinds.extend(before.filter(|kind| *kind != from && *kind != to).cloned());
        kinds.truncate(MAX_FORMER_KINDS);
        Ok(kinds)
    }

    /// Allocates a handler id that was never used.
    async fn next_handler_id(&self) -> Result<u64, Error> {
        let name = Name::new("name", COUNTER_ENTRY)?;
        loop {
            let entry = self.entry(RegistryTable::Handlers, &name).await?;
            let last = match entry.as_ref().map(|entry| &entry.value) {
                Some(RegistryValue::Handler(text)) => text.parse().unwrap_or(0),
                _ => 0,
            };
            let next: u64 = last + 1;
            let action = DefineAction::Set(RegistryValue::Handler(next.to_string().into()));
            let guard = entry.map_or(DefineGuard::Absent, |entry| DefineGuard::At(entry.revision));
            let define =
                Define { name: name.clone(), action, guard, expires_after: None, joint: false };
            let defined = self.store.define(vec![define]).await?.into_inner();
            if matches!(defined.first(), Some(Defined::Yes(_))) {
                return Ok(next);
            }
        }
    }

    /// Sets a handler and its schedule in one write; `false`: it was changed meanwhile.
    async fn define_handler(
        &self,
        kind: &Name,
        handler: &Handler,
        guard: DefineGuard,
    ) -> Result<bool, Error> {
        let value = RegistryValue::Handler(handler.to_text());
        let define = Define { guard, ..Define::set(kind.clone(), value) };
        self.write_handlers(vec![(define, Some(handler))]).await
    }

    /// Removes a handler and its schedule; `false`: it was changed meanwhile.
    async fn undefine_handler(&self, kind: &Name, guard: DefineGuard) -> Result<bool, Error> {
        let remove = Define { guard, ..Define::remove(RegistryTable::Handlers, kind.clone()) };
        self.write_handlers(vec![(remove, None)]).await
    }

    /// Moves a handler to another kind in one write; `false`: it was changed meanwhile, or the new kind has a handler.
    async fn move_handler(
        &self,
        (from, revision): (Name, Revision),
        to: Name,
        handler: &Handler,
    ) -> Result<bool, Error> {
        let value = RegistryValue::Handler(handler.to_text());
        let set = Define { guard: DefineGuard::Absent, ..Define::set(to, value) };
        let guard = DefineGuard::At(revision);
        let remove = Define { guard, ..Define::remove(RegistryTable::Handlers, from) };
        self.write_handlers(vec![(set, Some(handler)), (remove, None)]).await
    }

    /// Writes changes of handlers, each with the definition that is then stored, and of their schedules, in one write:
    /// all of them or none. Then reloads all handlers. `false`: the guard of a handler does not hold.
    async fn write_handlers(
        &self,
        changes: Vec<(Define, Option<&Handler>)>,
    ) -> Result<bool, Error> {
        loop {
            let mut definitions = Vec::with_capacity(2 * changes.len());
            for (define, handler) in &changes {
                let schedule = self.schedule_definition(&define.name, *handler).await?;
                definitions.extend([define.clone(), schedule]);
            }
            definitions.iter_mut().for_each(|define| define.joint = true);
            // Also on error: the change may have taken effect, so the cache is outdated.
            let on_change = DropGuard::new(|| {
                self.handlers.changes.fetch_add(1, Ordering::AcqRel);
                self.plan_duty(Duty::Schedules, self.now());
                // Fetches for handled kinds must recompute their kinds.
                self.wait_list.wake_all();
            });
            let defined = self.store.define(definitions).await?.into_inner();
            drop(on_change);
            self.load_handlers().await?;
            if !defined.contains(&Defined::Stale) {
                return Ok(true);
            }
            for (define, _) in &changes {
                let entry = self.entry(RegistryTable::Handlers, &define.name).await?;
                if !define.guard.holds(entry.map(|entry| entry.revision)) {
                    return Ok(false);
                }
            }
            // A schedule has fired meanwhile: its new cursor must be kept.
        }
    }

    pub(crate) async fn ensure_handlers_current(&self) -> Result<(), Error> {
        if self.handlers.is_current() { Ok(()) } else { self.load_handlers().await }
    }

    /// Reloads the handlers from the store.
    pub(crate) async fn load_handlers(&self) -> Result<(), Error> {
        let changes = self.handlers.changes.load(Ordering::Acquire);
        let mut entries = self.entries(RegistryTable::Handlers).await?;
        entries.retain(|entry| entry.name.as_str() != COUNTER_ENTRY);
        self.handlers.set(changes, HandlerIndex::of(entries));
        Ok(())
    }

    /// Sets the fields that the caller left unset to the values of the handler.
    pub(crate) fn fill_in_from_handler(&self, job: &mut NewJob) {
        let Some(index) = self.handlers.index_if_any() else { return };
        let Some((_, stored)) = index.of_kind(&job.spec.kind) else { return };
        stored.handler.fill_unset(&mut job.spec, job.unset);
        job.spec.labels.insert(HANDLER_LABEL.to_owned(), stored.handler.id.to_string());
        let first = match job.due {
            DueTime::Now | DueTime::Keep => None,
            DueTime::After(span) => Some(self.now().after(span)),
            DueTime::At(due) => Some(due),
        };
        if let (Some(_), Some(first)) = (stored.handler.every, first) {
            let phase = || first.as_millis().to_string();
            job.spec.labels.entry(PHASE_LABEL.to_owned()).or_insert_with(phase);
        }
    }
}
