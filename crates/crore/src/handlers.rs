//! Handlers: how jobs of a kind are run, what their pushers left unsaid, and what follows their ends.

mod book;
mod follow;
mod planned;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crore_core::handler::{BUILT_IN, Follows, HANDLER, MAX_FORMERLY, PHASE};
use crore_core::job::When;
use crore_core::{Code, Handler, Invalid, Job, Name, NewJob, Revision};
use crore_store::registry::{Define, Defined, Definition, Guard, Table, Value};

use crate::doubt::Doubt;
use crate::engine::Inner;
use crate::error::Error;
use crate::upkeep::Duty;

use book::Book;
pub(crate) use planned::is_nobodys;
use planned::schedule_of;

/// The entry that counts handlers, so that no number is used twice; no kind may be called so.
const COUNT: &str = "crore.handlers";

/// What is said of a handler that is stored and cannot be read.
const UNREADABLE: &str = "what is stored cannot be read: set it anew, or remove it";

/// A handler that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// What it says.
    pub handler: Arc<Handler>,
    /// Another with every change.
    pub revision: Revision,
    /// Everything that follows it: what it names by kind, and what it links to by number.
    pub follows: Arc<Follows>,
}

/// All handlers, by kind.
pub type All = Arc<BTreeMap<Name, Known>>;

/// The handlers as this engine knows them.
#[derive(Debug, Default)]
pub(crate) struct HandlerCache {
    known: RwLock<Read>,
    /// How many changes were asked for, whatever became of them.
    changes: AtomicU64,
    /// Whether there is any: most engines have none, and ask for none.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Read {
    book: Arc<Book>,
    /// How many changes had been asked for when the store was asked for these.
    changes: u64,
}

impl HandlerCache {
    fn known(&self) -> RwLockReadGuard<'_, Read> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn book(&self) -> Arc<Book> {
        Arc::clone(&self.known().book)
    }

    /// All, if there is any.
    fn any(&self) -> Option<Arc<Book>> {
        self.is_any.load(Ordering::Acquire).then(|| self.book())
    }

    /// Whether nobody has asked for a change since these were read.
    pub(crate) fn are_sure(&self) -> bool {
        self.known().changes == self.changes.load(Ordering::Acquire)
    }

    /// The store has these. An answer that was asked for before another one is the older of the two.
    fn set(&self, changes: u64, book: Book) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if changes >= known.changes {
            self.is_any.store(!book.all.is_empty(), Ordering::Release);
            *known = Read { book: Arc::new(book), changes };
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
/// let known = block_on(engine.handlers().get(&kind))?.expect("it is there");
/// assert_eq!(known.handler.id, id);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Handlers<'a> {
    pub(crate) inner: &'a Inner,
}

impl Handlers<'_> {
    /// Sets the handler of a kind, whether there was one or not, and gives its number: one that was
    /// there keeps it, and one that is [built in](BUILT_IN) is not counted. It holds from the next push, the next fetch and the next end on.
    pub async fn set(self, kind: Name, handler: Handler) -> Result<u64, Error> {
        self.inner.check_handler(&kind, &handler)?;
        loop {
            let entry = self.inner.entry(Table::Handlers, &kind).await?;
            let known = entry.as_ref().and_then(|entry| read(&entry.value));
            let id = match &known {
                Some(known) if known.id > 0 => known.id,
                _ if handler.id == BUILT_IN => BUILT_IN,
                _ => self.inner.next_handler_id().await?,
            };
            let formerly = known.map(|known| known.formerly).unwrap_or_default();
            let guard = entry.map_or(Guard::Absent, |entry| Guard::At(entry.revision));
            let handler = Handler { id, formerly, ..handler.clone() };
            if self.inner.define_handler(&kind, &handler, guard).await? {
                return Ok(id);
            }
        }
    }

    /// Sets the handler of a kind that has none, and gives its number; `None`: it has one.
    pub async fn add(self, kind: Name, handler: Handler) -> Result<Option<u64>, Error> {
        self.inner.check_handler(&kind, &handler)?;
        if self.inner.entry(Table::Handlers, &kind).await?.is_some() {
            return Ok(None);
        }
        let id = self.inner.next_handler_id().await?;
        let handler = Handler { id, ..handler };
        Ok(self.inner.define_handler(&kind, &handler, Guard::Absent).await?.then_some(id))
    }

    /// Says anew what the handler of a kind is, if it is still as its caller saw it; `false`: it was changed
    /// meanwhile, or is gone. Its number is the one that is given.
    pub async fn replace(
        self,
        (kind, seen): (Name, Revision),
        handler: Handler,
    ) -> Result<bool, Error> {
        self.inner.check_handler(&kind, &handler)?;
        self.inner.define_handler(&kind, &handler, Guard::At(seen)).await
    }

    /// Gives a handler another kind, and says anew what it is; `false`: it was changed meanwhile, or
    /// the other kind has a handler. Jobs of its old kind that wait are still its own: they
    /// are run by it, unless they were pushed for another handler that has the old kind by then. It is two writes: a
    /// server that is killed between them leaves the handler under both kinds, with one number.
    pub async fn rename(
        self,
        (from, revision): (Name, Revision),
        to: Name,
        handler: Handler,
    ) -> Result<bool, Error> {
        let formerly = self.inner.former_kinds(&from, &to, &handler.formerly).await?;
        let handler = Handler { formerly, ..handler };
        self.inner.check_handler(&to, &handler)?;
        if !self.inner.define_handler(&to, &handler, Guard::Absent).await? {
            return Ok(false);
        }
        let is_moved = self.inner.undefine_handler(&from, Guard::At(revision)).await?;
        if !is_moved {
            self.inner.undefine_handler(&to, Guard::Any).await?;
        }
        Ok(is_moved)
    }

    /// Removes the handler of a kind; `false`: there is none. Jobs of that kind that wait go on waiting,
    /// for a worker or for another handler.
    pub async fn remove(self, kind: Name) -> Result<bool, Error> {
        let was_there = self.inner.entry(Table::Handlers, &kind).await?.is_some();
        if was_there && kind.as_str() != COUNT {
            self.inner.undefine_handler(&kind, Guard::Any).await?;
        }
        Ok(was_there)
    }

    /// Removes the handler of a kind, if it is still as its caller saw it; `false`: it was changed meanwhile,
    /// or is gone.
    pub async fn remove_seen(self, (kind, seen): (Name, Revision)) -> Result<bool, Error> {
        self.inner.undefine_handler(&kind, Guard::At(seen)).await
    }

    /// The handler of a kind, if it has one.
    pub async fn get(self, kind: &Name) -> Result<Option<Known>, Error> {
        self.inner.sure_handlers().await?;
        let book = self.inner.handlers.book();
        if book.unreadable.contains(kind) {
            let what = format!("the handler of `{kind}`");
            return Err(Error::Refused { what, why: UNREADABLE });
        }
        Ok(book.all.get(kind).cloned())
    }

    /// The kinds whose handlers are stored and cannot be read, as after a step back to an older version. Nobody
    /// runs their jobs until they are set anew, or removed.
    pub async fn unreadable(self) -> Result<Vec<Name>, Error> {
        self.inner.sure_handlers().await?;
        Ok(self.inner.handlers.book().unreadable.iter().cloned().collect())
    }

    /// The handler of a job, as far as it is known here: the one that it was pushed for, whatever that is called
    /// now, or else that of its kind.
    pub fn of_job(self, job: &Job) -> Option<(Name, Known)> {
        let book = self.inner.handlers.book();
        book.of_job(&job.spec).map(|(kind, known)| (kind.clone(), known.clone()))
    }

    /// All handlers, by kind.
    pub async fn list(self) -> Result<All, Error> {
        self.inner.sure_handlers().await?;
        Ok(Arc::clone(&self.inner.handlers.book().all))
    }
}

fn read(value: &Value) -> Option<Handler> {
    match value {
        Value::Handler(text) => Handler::from_text(text),
        _ => None,
    }
}

impl Inner {
    fn check_handler(&self, kind: &Name, handler: &Handler) -> Result<(), Invalid> {
        if kind.as_str() == COUNT {
            let message = format!("`{COUNT}` is not a kind that can have a handler");
            return Err(Invalid::new(Code::Refused, "kind", message));
        }
        schedule_of(kind)?;
        if let Some(planned) = &handler.schedule
            && planned.timing.next_after(self.now()).is_none()
        {
            let message = format!("`{}` never fires again", planned.timing);
            return Err(Invalid::new(Code::ScheduleNever, "schedule.timing", message));
        }
        handler.check(&self.caps)
    }

    /// The kinds that a handler of another name had before, as far as there are jobs of them.
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
        kinds.truncate(MAX_FORMERLY);
        Ok(kinds)
    }

    /// A number that no handler ever had.
    async fn next_handler_id(&self) -> Result<u64, Error> {
        let name = Name::new("name", COUNT)?;
        loop {
            let entry = self.entry(Table::Handlers, &name).await?;
            let last = match entry.as_ref().map(|entry| &entry.value) {
                Some(Value::Handler(text)) => text.parse().unwrap_or(0),
                _ => 0,
            };
            let next: u64 = last + 1;
            let to = Definition::Set(Value::Handler(next.to_string().into()));
            let guard = entry.map_or(Guard::Absent, |entry| Guard::At(entry.revision));
            let define = Define { name: name.clone(), to, guard, expires_after: None };
            let defined = self.store.define(vec![define]).await?.into_inner();
            if matches!(defined.first(), Some(Defined::Yes(_))) {
                return Ok(next);
            }
        }
    }

    /// Sets a handler and its schedule, in one write; `false`: it was changed meanwhile.
    async fn define_handler(
        &self,
        kind: &Name,
        handler: &Handler,
        guard: Guard,
    ) -> Result<bool, Error> {
        let to = Definition::Set(Value::Handler(handler.to_text()));
        let define = Define { name: kind.clone(), to, guard, expires_after: None };
        self.change_handler(define, Some(handler)).await
    }

    /// Removes a handler and its schedule; `false`: it was changed meanwhile.
    async fn undefine_handler(&self, kind: &Name, guard: Guard) -> Result<bool, Error> {
        let remove = Define { guard, ..Define::remove(Table::Handlers, kind.clone()) };
        self.change_handler(remove, None).await
    }

    /// Writes what becomes of a handler, with the schedule that it has then, and reads all again; `false`: it
    /// was changed meanwhile.
    async fn change_handler(
        &self,
        define: Define,
        handler: Option<&Handler>,
    ) -> Result<bool, Error> {
        let kind = define.name.clone();
        let schedule = self.planned(&kind, handler).await?;
        // Even after an error: whether it took effect is open, and whoever needs them next reads them
        // again.
        let anew = Doubt::new(|| {
            self.handlers.changes.fetch_add(1, Ordering::AcqRel);
            self.want(Duty::Schedules, self.now());
            // Whoever waits for jobs that have a handler waits for others now.
            self.dispatch.wake_all();
        });
        let defined = self.store.define(vec![define, schedule]).await?.into_inner();
        if defined.contains(&Defined::Stale) {
            self.plan_anew(&kind).await?;
        }
        drop(anew);
        self.load_handlers().await?;
        Ok(matches!(defined.first(), Some(Defined::Yes(_))))
    }

    pub(crate) async fn sure_handlers(&self) -> Result<(), Error> {
        if self.handlers.are_sure() { Ok(()) } else { self.load_handlers().await }
    }

    /// Reads the handlers again.
    pub(crate) async fn load_handlers(&self) -> Result<(), Error> {
        let changes = self.handlers.changes.load(Ordering::Acquire);
        let mut entries = self.entries(Table::Handlers).await?;
        entries.retain(|entry| entry.name.as_str() != COUNT);
        self.handlers.set(changes, Book::of(entries));
        Ok(())
    }

    /// Says what the pusher of a job has left unsaid and its handler says.
    pub(crate) fn fill_in_from_handler(&self, job: &mut NewJob) {
        let Some(book) = self.handlers.any() else { return };
        let Some((_, known)) = book.of_kind(&job.spec.kind) else { return };
        known.handler.fill_in(&mut job.spec, job.unsaid);
        job.spec.labels.insert(HANDLER.to_owned(), known.handler.id.to_string());
        let first = match job.due {
            When::Now | When::Keep => None,
            When::After(span) => Some(self.now().after(span)),
            When::At(due) => Some(due),
        };
        if let (Some(_), Some(first)) = (known.handler.every, first) {
            let phase = || first.as_millis().to_string();
            job.spec.labels.entry(PHASE.to_owned()).or_insert_with(phase);
        }
    }
}
