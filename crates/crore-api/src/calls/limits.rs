//! Rate and concurrency limits.

use crore::store::registry::{RegistryEntry, RegistryValue};
use crore_core::{Name, limit};
use crore_wire::api::limits::{Limit, Limits};

use crate::{Api, Fault};

impl Api {
    /// All limits.
    pub async fn list_limits(&self) -> Result<Limits, Fault> {
        let entries = self.engine().limits().list().await?;
        Ok(Limits { limits: entries.iter().filter_map(limit_of).collect() })
    }

    /// A limit.
    pub async fn get_limit(&self, name: &Name) -> Result<Limit, Fault> {
        let limit = self.engine().limits().get(name).await?.as_ref().and_then(limit_of);
        limit.ok_or_else(|| Fault::missing(format!("limit `{name}`")))
    }

    /// Sets a limit. It applies from the next fetch on, also to waiting jobs.
    pub async fn set_limit(&self, name: Name, text: &str) -> Result<Limit, Fault> {
        let limit = limit::Limit::parse(text)?;
        let set = Limit { name: name.to_string(), limit: limit.to_string() };
        self.engine().limits().set(name, limit).await?;
        Ok(set)
    }

    /// Removes a limit, if it exists.
    pub async fn delete_limit(&self, name: Name) -> Result<(), Fault> {
        self.engine().limits().remove(name).await?;
        Ok(())
    }
}

fn limit_of(entry: &RegistryEntry) -> Option<Limit> {
    let RegistryValue::Limit(limit) = &entry.value else { return None };
    Some(Limit { name: entry.name.to_string(), limit: limit.to_string() })
}
