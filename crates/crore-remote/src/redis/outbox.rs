//! Messages between slots: written with the change that causes them, delivered afterwards.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crore_store::Error;

use super::Redis;
use super::link::unavailable;
use super::names::Slot;
use super::pack::{Arg, map};
use super::reply::{Reply, damaged};

impl Redis {
    /// Delivers what a crash or a broken connection has left in outboxes. Safe to call at any time,
    /// by any number of nodes; upkeep calls it now and then.
    pub async fn deliver_outbox(&self) -> Result<(), Error> {
        self.deliver((0..=self.layout.registry()).collect()).await
    }

    /// After a commit: delivers its messages, and those that they cause, if it left any.
    pub(super) async fn settle(&self, slots: impl IntoIterator<Item = Slot>) -> Result<(), Error> {
        let dirty: BTreeSet<Slot> = slots.into_iter().collect();
        if !dirty.is_empty() && self.halted.load(Ordering::Relaxed) {
            return Err(unavailable("stopped before delivery, as a test asked"));
        }
        self.deliver(dirty).await
    }

    /// A slot that cannot be reached does not keep the others waiting.
    async fn deliver(&self, mut dirty: BTreeSet<Slot>) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(from) = dirty.pop_first() {
            match self.deliver_from(from).await {
                Ok(more) => dirty.extend(more),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Delivers a page of messages to each slot that has some waiting here. Gives the slots that
    /// have to be looked at next: there may be more, and receivers may have something to say.
    async fn deliver_from(&self, from: Slot) -> Result<Vec<Slot>, Error> {
        let mut more = Vec::new();
        let (boxes, _) = self.run_one(from, map! { "op" => "outbox" }).await?;
        for one in boxes.list()? {
            let [to, messages] = one.parts()?;
            let to = usize::try_from(to.number()?).map_err(|_| damaged("a slot is negative"))?;
            more.push(from);
            if self.hand_over(from, to, messages).await? {
                more.push(to);
            }
        }
        Ok(more)
    }

    /// Hands messages over, oldest first, and only then takes them out of the outbox.
    async fn hand_over(&self, from: Slot, to: Slot, messages: Reply) -> Result<bool, Error> {
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
