//! The store's registry tables, as the resources of the engine read and write them.

use std::sync::Arc;

use crore_core::name::MAX_NAME;
use crore_core::{Code, Invalid, Name, Revision};
use crore_store::registry::{Define, Defined, Entry, Table};

use crate::engine::Inner;
use crate::error::Error;

impl Inner {
    /// All entries of a table, by name.
    pub(crate) async fn entries(&self, table: Table) -> Result<Vec<Entry>, Error> {
        const PAGE: usize = 1000;
        let mut all: Vec<Entry> = Vec::new();
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

    /// The entry of this name, if it is there.
    pub(crate) async fn entry(&self, table: Table, name: &Name) -> Result<Option<Entry>, Error> {
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

    /// Writes one definition that nothing guards.
    pub(crate) async fn define(&self, define: Define) -> Result<Revision, Error> {
        let name = define.name.clone();
        let defined = self.store.define(vec![define]).await?.into_inner();
        match defined.first() {
            Some(Defined::Yes(revision)) => Ok(*revision),
            _ => Err(Error::Refused { what: format!("`{name}`"), why: "it was changed meanwhile" }),
        }
    }

    /// Refuses a text that the engine only keeps if it is longer than a payload may be.
    pub(crate) fn checked(&self, field: &str, says: Arc<str>) -> Result<Arc<str>, Invalid> {
        let most = self.caps.payload_bytes;
        if says.len() > most {
            let message = format!("{} bytes, at most {most} are allowed", says.len());
            return Err(Invalid::new(Code::PayloadTooLarge, field, message));
        }
        Ok(says)
    }
}

/// A name that comes before this one, and with hardly any other in between; `None`: this is the first.
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
