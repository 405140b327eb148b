//! Access to the store's registry tables for the resource handles.

use std::sync::Arc;

use crore_core::name::MAX_NAME;
use crore_core::{Code, Invalid, Name, Revision};
use crore_store::registry::{Define, Defined, RegistryEntry, RegistryTable};

use crate::engine::EngineInner;
use crate::error::Error;

impl EngineInner {
    /// All entries of a table, by name.
    pub(crate) async fn entries(&self, table: RegistryTable) -> Result<Vec<RegistryEntry>, Error> {
        const PAGE: usize = 1000;
        let mut all: Vec<RegistryEntry> = Vec::new();
        loop {
            let after = all.last().map(|entry| entry.name.clone());
            let page = self.store.entries(table, after, PAGE).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The entry of this name, if it exists.
    pub(crate) async fn entry(
        &self,
        table: RegistryTable,
        name: &Name,
    ) -> Result<Option<RegistryEntry>, Error> {
        const PAGE: usize = 2;
        let mut after = just_before(name);
        loop {
            let page = self.store.entries(table, after, PAGE).await?;
            after = page.last().map(|entry| entry.name.clone());
            let is_last = page.len() < PAGE;
            let found = page.into_iter().find(|entry| entry.name >= *name);
            if is_last || found.is_some() {
                return Ok(found.filter(|entry| entry.name == *name));
            }
        }
    }

    /// Writes one definition. Fails with [`Error::Refused`] if its guard does not hold.
    pub(crate) async fn define(&self, define: Define) -> Result<Revision, Error> {
        let name = define.name.clone();
        let defined = self.store.define(vec![define]).await?.into_inner();
        match defined.first() {
            Some(Defined::Yes(revision)) => Ok(*revision),
            _ => Err(Error::Refused { what: format!("`{name}`"), why: "changed meanwhile; retry" }),
        }
    }

    /// Refuses a stored text that is longer than the maximum payload.
    pub(crate) fn check_text(&self, field: &str, text: Arc<str>) -> Result<Arc<str>, Invalid> {
        let max = self.caps.payload_bytes;
        if text.len() > max {
            let message = format!("{} bytes, at most {max} are allowed", text.len());
            return Err(Invalid::new(Code::PayloadTooLarge, field, message));
        }
        Ok(text)
    }
}

/// A name shortly before this one, as a cursor for listing; `None`: this is the first possible name.
fn just_before(name: &Name) -> Option<Name> {
    let mut text = name.as_str().to_owned();
    let last = text.pop()?;
    let before = (' '..last).rev().find(|before| !before.is_control());
    text.extend(before);
    while before.is_some() && text.len() + char::MAX.len_utf8() <= MAX_NAME {
        text.push(char::MAX);
    }
    Name::new("name", &text).ok()
}
