//! Bulk actions in the background: preview, start, progress, result, cancel.

use std::sync::Arc;

use crore::actions::{BulkMode, BulkProgress, JobFilter};
use crore::search::{JobSearch, SearchBudget};
use crore::store::registry::{RegistryEntry, RegistryValue};
use crore_core::{Code, Invalid, Job, Name, Span};
use crore_wire::api::act::ActOnAll;
use crore_wire::api::operations::{Operation, OperationState};
use crore_wire::units::{Moment, Period};

use super::acts::BulkAction;
use crate::operations::{MAX_KEPT, OperationHandle};
use crate::{Api, Fault, Grant};

/// Bounds a preview.
const PREVIEW: SearchBudget = SearchBudget { jobs: 100_000, time: Span::from_secs(2) };
/// Number of jobs shown in a preview.
const SAMPLES: usize = 10;

/// The effect that an action would have.
#[derive(Debug)]
pub struct BulkPreview {
    /// Jobs examined.
    pub scanned: u64,
    /// Jobs that match.
    pub matched: u64,
    /// Jobs that would be changed.
    pub changed: u64,
    /// Whether all jobs were examined.
    pub complete: bool,
    /// The first matching jobs.
    pub samples: Vec<Job>,
}

impl Api {
    /// Counts the jobs that an action would change, up to a bound, and shows some of them.
    pub async fn preview_operation(
        &self,
        grant: &Grant,
        request: &ActOnAll,
    ) -> Result<BulkPreview, Fault> {
        let mut bulk = BulkAction::try_from(request)?;
        self.restrict_bulk(grant, &mut bulk)?;
        let engine = self.engine();
        let start = engine.status().now();
        let mut is_complete = true;
        let BulkAction { filter, task, .. } = &bulk;
        let step = |so_far: BulkProgress| {
            let is_spent = so_far.examined >= PREVIEW.jobs as u64
                || engine.status().now().since(start) >= PREVIEW.time;
            is_complete = !is_spent;
            is_complete
        };
        let counted = engine.jobs().run_bulk(filter, task, BulkMode::DryRun, step).await?;
        let samples = self.samples(filter).await?;
        Ok(BulkPreview {
            scanned: counted.examined,
            matched: counted.matched,
            changed: counted.done,
            complete: is_complete,
            samples,
        })
    }

    async fn samples(&self, filter: &JobFilter) -> Result<Vec<Job>, Fault> {
        let search = JobSearch {
            filter: filter.searched(),
            within: filter.within.clone(),
            after: None,
            n: SAMPLES,
            budget: SearchBudget::default(),
        };
        let mut page = self.engine().search(&search).await?;
        page.jobs.retain(|job| filter.matches(job));
        Ok(self.listed(page.jobs))
    }

    /// Starts an action on all jobs that match, and returns at once.
    pub async fn start_operation(
        &self,
        grant: &Grant,
        request: &ActOnAll,
    ) -> Result<Operation, Fault> {
        let mut bulk = BulkAction::try_from(request)?;
        self.restrict_bulk(grant, &mut bulk)?;
        if self.is_closing() {
            return Err(Fault::new(Code::Stopping, "the server is shutting down; retry later"));
        }
        let now = self.engine().status().now();
        let kept = self.engine().operations().list().await?;
        let id = new_id(now.as_millis(), &kept)?;
        let operation = Operation {
            id: id.to_string(),
            state: OperationState::Running,
            request: request.clone(),
            by: grant.who().to_string(),
            started_at: Moment(now),
            ended_at: None,
            scanned: 0,
            matched: 0,
            changed: 0,
            refused: 0,
            error: None,
        };
        let handle = self.operations().add(id.clone(), operation.clone())?;
        if let Err(error) = self.record_start(&id, &operation, &kept).await {
            self.operations().remove(&id);
            return Err(error.into());
        }
        tokio::spawn(self.clone().run_operation(id, handle, bulk));
        Ok(operation)
    }

    /// Records a new operation, and removes the oldest records beyond the maximum.
    async fn record_start(
        &self,
        id: &Name,
        operation: &Operation,
        kept: &[RegistryEntry],
    ) -> Result<(), crore::Error> {
        let records = self.engine().operations();
        let mut excess = (kept.len() + 1).saturating_sub(MAX_KEPT);
        for entry in kept {
            let is_running = self
                .operations()
                .get(&entry.name)
                .is_some_and(|one| one.now().state == OperationState::Running);
            if excess > 0 && !is_running {
                records.remove(entry.name.clone()).await?;
                excess -= 1;
            }
        }
        records.add(id.clone(), text(operation)).await
    }

    async fn run_operation(self, id: Name, handle: Arc<OperationHandle>, bulk: BulkAction) {
        let BulkAction { filter, task, run } = bulk;
        let step = |so_far| {
            handle.progress(so_far);
            !handle.is_cancelled() && !self.is_closing()
        };
        let caller = format!("operation {id} by {}", handle.now().by);
        let ended = self.engine().jobs().by(&caller).run_bulk(&filter, &task, run, step).await;
        let now = self.engine().status().now();
        let operation = handle.end(|operation| {
            operation.ended_at = Some(Moment(now));
            operation.state = match &ended {
                Err(_) => OperationState::Failed,
                Ok(_) if handle.is_cancelled() => OperationState::Cancelled,
                Ok(_) if self.is_closing() => OperationState::Interrupted,
                Ok(_) => OperationState::Done,
            };
            operation.error = ended.as_ref().err().map(ToString::to_string);
        });
        if let Err(error) = self.engine().operations().set(id, text(&operation)).await {
            tracing::warn!(operation = operation.id, %error, "result of an operation not recorded");
        }
    }

    /// The operations that are running or remembered, oldest first. A restricted token sees its own.
    pub async fn list_operations(&self, grant: &Grant) -> Result<Vec<Operation>, Fault> {
        let entries = self.engine().operations().list().await?;
        let all = entries.iter().filter_map(|entry| self.operation_of(entry));
        Ok(all.filter(|operation| sees(grant, operation)).collect())
    }

    /// An operation with its progress. Waits for its end up to `wait`.
    pub async fn get_operation(
        &self,
        grant: &Grant,
        id: &Name,
        wait: Option<Period>,
    ) -> Result<Operation, Fault> {
        let wait = self.bounded_wait(wait);
        if let Some(handle) = self.operations().get(id).filter(|one| sees(grant, &one.now())) {
            if !wait.is_zero() {
                // Its progress is the answer if it does not end in time.
                let _ = tokio::time::timeout(wait.into(), handle.ended()).await;
            }
            return Ok(handle.now());
        }
        let all = self.list_operations(grant).await?;
        let found = all.into_iter().find(|operation| operation.id == id.as_str());
        found.ok_or_else(|| Fault::missing(format!("operation `{id}`")))
    }

    /// Asks an operation to stop. It ends after the jobs that it is changing.
    pub async fn cancel_operation(&self, grant: &Grant, id: &Name) -> Result<Operation, Fault> {
        let operation = self.get_operation(grant, id, None).await?;
        if operation.state == OperationState::Running
            && let Some(handle) = self.operations().get(id)
        {
            handle.cancel();
        }
        Ok(operation)
    }

    /// The operation of a record: as this process knows it, or interrupted if it was running in another.
    fn operation_of(&self, entry: &RegistryEntry) -> Option<Operation> {
        if let Some(handle) = self.operations().get(&entry.name) {
            return Some(handle.now());
        }
        let RegistryValue::Operation(text) = &entry.value else { return None };
        let mut operation: Operation = serde_json::from_str(text).ok()?;
        if operation.state == OperationState::Running {
            operation.state = OperationState::Interrupted;
        }
        Some(operation)
    }
}

/// Whether a caller may see an operation.
fn sees(grant: &Grant, operation: &Operation) -> bool {
    grant.only().is_none() || operation.by == grant.who().to_string()
}

/// An id that no kept operation has: the time in milliseconds, so that ids sort by time.
fn new_id(now: i64, kept: &[RegistryEntry]) -> Result<Name, Invalid> {
    let last = kept.last().and_then(|entry| entry.name.as_str().parse::<i64>().ok());
    let number = last.map_or(now, |last| now.max(last.saturating_add(1)));
    Name::new("id", &format!("{number:013}"))
}

fn text(operation: &Operation) -> String {
    serde_json::to_string(operation).unwrap_or_default()
}
