//! Rate and concurrency limits.

use crore::store::registry::{RegistryEntry, RegistryValue};
use crore::store::views::PausedKey;
use crore_core::{Name, limit};
use crore_wire::api::limits::{Limit, Limits, PausedLimitKey};
use crore_wire::units::Moment;

use crate::if_match::{IfMatch, Tagged, tag_of};
use crate::{Api, Fault, Grant};

/// How an error names them. A limit may count jobs of any queue and kind together.
const LIMITS: &str = "limits";

/// Maximum number of paused keys in a response.
const MAX_PAUSED: usize = 100;

impl Api {
    /// All limits.
    pub async fn list_limits(&self, grant: &Grant) -> Result<Limits, Fault> {
        grant.check_unrestricted(LIMITS)?;
        let entries = self.engine().limits().list().await?;
        let mut limits: Vec<Limit> = entries.iter().filter_map(limit_of).collect();
        for paused in self.engine().limits().paused_keys(None, MAX_PAUSED).await? {
            let limit = limits.iter_mut().find(|limit| limit.name == paused.key.limit.as_str());
            if let Some(limit) = limit {
                limit.paused.push(paused_key(paused));
            }
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
        let (text, paused) = (limit.to_string(), Vec::new());
        let value = Limit { name: name.to_string(), limit: text, paused };
        let accepts = |entry: Option<&RegistryEntry>| if_match.accepts(entry);
        if !self.engine().limits().set_if(name.clone(), limit, accepts).await? {
            return Err(IfMatch::failed(&format!("limit `{name}`")));
        }
        let tag = self.engine().limits().get(&name).await?.as_ref().map(tag_of);
        Ok(Tagged { value, tag })
    }

    /// Removes a limit, if it exists.
    pub async fn delete_limit(&self, grant: &Grant, name: Name) -> Result<(), Fault> {
        grant.check_unrestricted(LIMITS)?;
        self.engine().limits().remove(name).await?;
        Ok(())
    }
}

fn limit_of(entry: &RegistryEntry) -> Option<Limit> {
    let RegistryValue::Limit(limit) = &entry.value else { return None };
    let (limit, paused) = (limit.to_string(), Vec::new());
    Some(Limit { name: entry.name.to_string(), limit, paused })
}

fn paused_key(PausedKey { key, until }: PausedKey) -> PausedLimitKey {
    PausedLimitKey { value: key.value.map(|value| value.to_string()), until: Moment(until) }
}
