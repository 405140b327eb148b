//! Rate and concurrency limits.

use crore::store::registry::{RegistryEntry, RegistryValue};
use crore::store::views::{HeldBack, PausedKey};
use crore_core::{Name, Span, limit};
use crore_wire::api::limits::{HeldBackJobs, Limit, Limits, PausedLimitKey};
use crore_wire::api::marks::{MarkAction, MarkKind};
use crore_wire::units::{Moment, Period};

use crate::if_match::{IfMatch, Tagged, tag_of};
use crate::{Api, Fault, Grant};

/// How an error names them. A limit may count jobs of any queue and kind together.
const LIMITS: &str = "limits";

/// Maximum number of keys of all limits that are read, and of one limit in a response.
const MAX_HELD_BACK: usize = 10_000;
const MAX_SHOWN: usize = 100;

/// Maximum number of paused keys in a response.
const MAX_PAUSED: usize = 100;

impl Api {
    /// All limits.
    pub async fn list_limits(&self, grant: &Grant) -> Result<Limits, Fault> {
        grant.check_unrestricted(LIMITS)?;
        let entries = self.engine().limits().list().await?;
        let entries: Vec<_> =
            entries.into_iter().filter(|entry| limit_of(entry).is_some()).collect();
        let mut limits: Vec<Limit> = entries.iter().filter_map(limit_of).collect();
        for paused in self.engine().limits().paused_keys(None, MAX_PAUSED).await? {
            let limit = limits.iter_mut().find(|limit| limit.name == paused.key.limit.as_str());
            if let Some(limit) = limit {
                limit.paused.push(paused_key(paused));
            }
        }
        let held_back = self.engine().limits().held_back(None, MAX_HELD_BACK).await?;
        for (limit, entry) in limits.iter_mut().zip(&entries) {
            add_held_back(limit, entry, &held_back);
        }
        Ok(Limits { limits })
    }

    /// A limit.
    pub async fn get_limit(&self, grant: &Grant, name: &Name) -> Result<Tagged<Limit>, Fault> {
        grant.check_unrestricted(LIMITS)?;
        let entry = self.engine().limits().get(name).await?;
        let tag = entry.as_ref().map(tag_of);
        let value = entry.as_ref().and_then(limit_of);
        let mut value = value.ok_or_else(|| Fault::missing(format!("limit `{name}`")))?;
        let paused = self.engine().limits().paused_keys(Some(name.clone()), MAX_PAUSED).await?;
        value.paused = paused.into_iter().map(paused_key).collect();
        let held_back = self.engine().limits().held_back(None, MAX_HELD_BACK).await?;
        entry.iter().for_each(|entry| add_held_back(&mut value, entry, &held_back));
        Ok(Tagged { value, tag })
    }

    /// Sets a limit. It applies from the next fetch on, also to waiting jobs.
    pub async fn set_limit(
        &self,
        grant: &Grant,
        name: Name,
        text: &str,
        if_match: &IfMatch,
    ) -> Result<Tagged<Limit>, Fault> {
        grant.check_unrestricted(LIMITS)?;
        let limit = limit::Limit::parse(text)?;
        self.mask().check_names("limit", limit.payload_names())?;
        let value = shown(&name, &limit);
        let before = self.engine().limits().get(&name).await?.as_ref().and_then(limit_of);
        let accepts = |entry: Option<&RegistryEntry>| if_match.accepts(entry);
        if !self.engine().limits().set_if(name.clone(), limit, accepts).await? {
            return Err(IfMatch::failed(&format!("limit `{name}`")));
        }
        if before.is_none_or(|before| before.limit != value.limit) {
            self.mark_limit(grant, &name, MarkAction::Change);
        }
        let tag = self.engine().limits().get(&name).await?.as_ref().map(tag_of);
        Ok(Tagged { value, tag })
    }

    fn mark_limit(&self, grant: &Grant, name: &Name, action: MarkAction) {
        self.marks().changed(self.now(), (MarkKind::Limit, name), action, grant);
    }

    /// Removes a limit, if it exists.
    pub async fn delete_limit(&self, grant: &Grant, name: Name) -> Result<(), Fault> {
        grant.check_unrestricted(LIMITS)?;
        let is_known = self.engine().limits().get(&name).await?.is_some();
        self.engine().limits().remove(name.clone()).await?;
        if is_known {
            self.mark_limit(grant, &name, MarkAction::Remove);
        }
        Ok(())
    }
}

fn limit_of(entry: &RegistryEntry) -> Option<Limit> {
    let RegistryValue::Limit(limit) = &entry.value else { return None };
    Some(shown(&entry.name, limit))
}

fn shown(name: &Name, limit: &limit::Limit) -> Limit {
    let (name, limit) = (name.to_string(), limit.to_string());
    Limit { name, limit, paused: Vec::new(), waiting: 0, held_back: Vec::new() }
}

/// Adds the jobs that a limit holds back.
fn add_held_back(shown: &mut Limit, entry: &RegistryEntry, all: &[HeldBack]) {
    let RegistryValue::Limit(limit) = &entry.value else { return };
    let of_limit = || all.iter().filter(|it| it.key.limit == entry.name);
    shown.waiting = of_limit().map(|it| it.jobs).sum();
    let jobs = |it: &HeldBack| HeldBackJobs {
        queue: it.queue.to_string(),
        value: it.key.value.as_ref().map(ToString::to_string),
        jobs: it.jobs,
        running: it.running.into(),
        until: it.until.map(Moment),
        clears_in: clears_in(limit, it.jobs).map(Period),
    };
    shown.held_back = of_limit().take(MAX_SHOWN).map(jobs).collect();
}

/// Time until the last of these jobs starts at the rate of a limit.
pub(super) fn clears_in(limit: &limit::Limit, jobs: u64) -> Option<Span> {
    let interval = u64::try_from(limit.rate?.interval()).ok()?;
    // Costs are not known here.
    (limit.cost.is_none()).then(|| Span::from_millis(jobs.saturating_mul(interval).div_ceil(1000)))
}

fn paused_key(PausedKey { key, until }: PausedKey) -> PausedLimitKey {
    PausedLimitKey { value: key.value.map(|value| value.to_string()), until: Moment(until) }
}
