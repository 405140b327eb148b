use crore_core::{Span, Time};

use super::Duty;
use crate::engine::Inner;
use crate::error::Error;

/// How many are removed in one go.
const AT_ONCE: usize = 1000;

/// How soon after something ended there may be too much of it.
const SOON: Span = Span::from_secs(10);

/// How often it is looked when nothing happens: records are kept for hours, and nobody minds one that
/// goes some minutes late.
const SELDOM: Span = Span::from_secs(15 * 60);

impl Inner {
    /// Removes what was kept long enough; gives when to look again.
    pub(super) async fn prune_once(&self) -> Result<Time, Error> {
        let pruned = self.store.prune(AT_ONCE).await?;
        if pruned.jobs > 0 {
            // A job that is gone may be one that another waited for.
            self.want(Duty::Rescue, self.now());
            self.released();
        }
        let is_more = pruned.jobs + pruned.others >= AT_ONCE;
        Ok(if is_more { self.now() } else { self.now().after(SELDOM) })
    }

    /// Something has ended.
    pub(crate) fn want_prune_soon(&self, now: Time) {
        self.want(Duty::Prune, now.after(SOON));
    }
}
