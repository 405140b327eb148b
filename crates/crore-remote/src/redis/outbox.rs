//! Messages between slots: written together with the change that causes them, delivered afterwards.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crore_store::Error;

use super::Redis;
use super::connection::unavailable;
use super::names::SlotIndex;
use super::pack::{Arg, map};
use super::reply::{ScriptReply, corrupt};

impl Redis {
    /// Delivers messages that a crash or a broken connection left in outboxes. Safe to call at any time, by
    /// any number of nodes; upkeep calls it periodically.
    pub async fn deliver_outbox(&self) -> Result<(), Error> {
        self.deliver((0..=self.layout.registry()).collect()).await
    }

    /// After a commit: delivers its messages, and those that they cause.
    pub(super) async fn deliver_after_commit(
        &self,
        slots: impl IntoIterator<Item = SlotIndex>,
    ) -> Result<(), Error> {
        let dirty: BTreeSet<SlotIndex> = slots.into_iter().collect();
        if !dirty.is_empty() && self.halted.load(Ordering::Relaxed) {
            return Err(unavailable("stopped before delivery by a test"));
        }
        self.deliver(dirty).await
    }

    /// Delivers from these slots until their outboxes are empty. An unreachable slot does not block the others.
    async fn deliver(&self, mut dirty: BTreeSet<SlotIndex>) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(from) = dirty.pop_first() {
            match self.deliver_from(from).await {
                Ok(more) => dirty.extend(more),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Delivers one page of messages to each receiver in the outbox of `from`. Returns the slots to check next:
    /// `from` may have more messages, and the receivers may have new ones.
    async fn deliver_from(&self, from: SlotIndex) -> Result<Vec<SlotIndex>, Error> {
        let mut more = Vec::new();
        let (boxes, _) = self.run_one(from, map! { "op" => "outbox" }).await?;
        for one in boxes.list()? {
            let [to, messages] = one.parts()?;
            let to = usize::try_from(to.number()?).map_err(|_| corrupt("a slot is negative"))?;
            more.push(from);
            if self.transfer(from, to, messages).await? {
                more.push(to);
            }
        }
        Ok(more)
    }

    /// Delivers messages, oldest first, and only then removes them from the outbox. Returns whether the receiver
    /// has messages to deliver itself.
    async fn transfer(
        &self,
        from: SlotIndex,
        to: SlotIndex,
        messages: ScriptReply,
    ) -> Result<bool, Error> {
        let mut rows = Vec::new();
        let mut last = 0;
        let mut parts = messages.list()?.into_iter();
        while let (Some(body), Some(seq)) = (parts.next(), parts.next()) {
            last = seq.number()?;
            rows.push(Arg::List(vec![last.into(), body.bytes()?.into()]));
        }
        let receive = map! { "op" => "receive", "from" => from, "messages" => Arg::List(rows) };
        let (_, dirty) = self.run_one(to, receive).await?;
        self.run_one(from, map! { "op" => "sent", "to" => to, "seq" => last }).await?;
        Ok(dirty)
    }
}
