//! Bulk actions that run in the background: their progress, their results, and their records.
//!
//! An operation is recorded in the store when it starts and when it ends. Its progress is kept in memory. An operation
//! whose record says that it is running, and that this process does not run, was interrupted by a stop of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crore::actions::BulkProgress;
use crore_core::{Code, Name};
use crore_wire::api::operations::{Operation, OperationState};
use tokio::sync::watch;

use crate::Fault;

/// Maximum number of operations that run at the same time.
const MAX_RUNNING: usize = 4;
/// Maximum number of operations that are remembered.
pub(crate) const MAX_KEPT: usize = 100;

/// The operations that this process started, by id.
#[derive(Debug, Default)]
pub(crate) struct OperationTable(Mutex<BTreeMap<Name, Arc<OperationHandle>>>);

/// An operation of this process.
#[derive(Debug)]
pub(crate) struct OperationHandle {
    operation: Mutex<Operation>,
    is_cancelled: AtomicBool,
    has_ended: watch::Sender<bool>,
}

impl OperationTable {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Name, Arc<OperationHandle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an operation. Refused if too many are running; the oldest ended ones are forgotten.
    pub(crate) fn add(
        &self,
        id: Name,
        operation: Operation,
    ) -> Result<Arc<OperationHandle>, Fault> {
        let mut all = self.all();
        let running = all.values().filter(|one| one.is_running()).count();
        if running >= MAX_RUNNING {
            let why =
                format!("{running} operations are running, at most {MAX_RUNNING} may; retry later");
            return Err(Fault::new(Code::TooMany, why));
        }
        while all.len() >= MAX_KEPT
            && let Some(oldest) =
                all.iter().find(|(_, one)| !one.is_running()).map(|(id, _)| id.clone())
        {
            all.remove(&oldest);
        }
        let (is_cancelled, has_ended) = (AtomicBool::new(false), watch::Sender::new(false));
        let handle =
            Arc::new(OperationHandle { operation: Mutex::new(operation), is_cancelled, has_ended });
        all.insert(id, Arc::clone(&handle));
        Ok(handle)
    }

    pub(crate) fn remove(&self, id: &Name) {
        self.all().remove(id);
    }

    pub(crate) fn get(&self, id: &Name) -> Option<Arc<OperationHandle>> {
        self.all().get(id).cloned()
    }
}

impl OperationHandle {
    fn operation(&self) -> MutexGuard<'_, Operation> {
        self.operation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.operation().state == OperationState::Running
    }

    /// The operation as it is now.
    pub(crate) fn now(&self) -> Operation {
        self.operation().clone()
    }

    /// Asks the operation to stop.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self, progress: BulkProgress) {
        let mut operation = self.operation();
        operation.scanned = progress.examined;
        operation.matched = progress.matched;
        operation.changed = progress.done;
        operation.refused = progress.matched.saturating_sub(progress.done);
    }

    /// Sets the result of the operation, and returns it.
    pub(crate) fn end(&self, result: impl FnOnce(&mut Operation)) -> Operation {
        let mut operation = self.operation();
        result(&mut operation);
        self.has_ended.send_replace(true);
        operation.clone()
    }

    /// Waits for the end of the operation.
    pub(crate) async fn ended(&self) {
        let mut has_ended = self.has_ended.subscribe();
        // The sender lives as long as `self`.
        let _ = has_ended.wait_for(|has_ended| *has_ended).await;
    }
}
