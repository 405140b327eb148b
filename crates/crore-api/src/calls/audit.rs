//! Reading the audit log.

use crore_core::Code;
use crore_wire::api::audit::{AuditPage, AuditQuery};
use tokio::task::spawn_blocking;

use super::errors::page_size;
use crate::audit::AuditPosition;
use crate::{Api, Fault, Grant};

/// Default size of a page, and its maximum.
const DEFAULT_PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

impl Api {
    /// A page of the audit log, newest entries first.
    pub async fn read_audit(&self, grant: &Grant, which: AuditQuery) -> Result<AuditPage, Fault> {
        grant.check_unrestricted("entries of the audit log")?;
        let n = page_size(which.limit, DEFAULT_PAGE, MAX_PAGE)?;
        let before = which.before.map(|text| AuditPosition::parse(&text)).transpose()?;
        let Some(reader) = self.audit().reader() else {
            let detail = "this server has no audit log; set `audit.file`";
            return Err(Fault::new(Code::Refused, detail));
        };
        let page = spawn_blocking(move || reader.read(before, n)).await;
        let page = page.map_err(|_| Fault::new(Code::Unavailable, "the audit log was not read"))?;
        page.map_err(|error| {
            tracing::error!(%error, "cannot read the audit log");
            Fault::new(Code::Unavailable, "the audit log cannot be read")
        })
    }
}
