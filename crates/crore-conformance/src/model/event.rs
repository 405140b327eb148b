//! Events of a whole store.

use crore_core::{EventCaps, KeptEvent, NewEvent};
use crore_store::events::SendResult;
use crore_store::{Error, Events};

use super::compared_store::ComparedStore;
use super::normalize::NormalResponse;
use super::observed::ObservedStore;
use super::op::EventOp;
use super::samples;

/// More pages than any test has.
const MAX_PAGES: usize = 1000;

impl ComparedStore<'_> {
    pub(super) async fn event(
        &mut self,
        store: &dyn Events,
        op: &EventOp,
    ) -> Result<NormalResponse, Error> {
        match op {
            EventOp::Send { name, payload, keep, count } => {
                let (name, payload) = (samples::event(*name), samples::payload(*payload));
                let caps = EventCaps { count: *count, bytes: 1000 };
                let event = NewEvent { name, payload, keep: *keep };
                let sent = store.send(event, caps).await?.into_inner();
                Ok(NormalResponse::Sent(match sent {
                    SendResult::Sent { id, now, waiting } => {
                        SendResult::Sent { id: self.observed.event_id(id), now, waiting }
                    }
                    SendResult::Full => SendResult::Full,
                }))
            }
            EventOp::Release(n) => Ok(NormalResponse::Released(store.release(*n).await?)),
            EventOp::Remove(name) => {
                let removed = store.remove_event(samples::event(*name)).await?.into_inner();
                Ok(NormalResponse::Number(usize::from(removed)))
            }
            EventOp::List(n) => self.list_events(store, *n).await,
        }
    }

    async fn list_events(&mut self, store: &dyn Events, n: usize) -> Result<NormalResponse, Error> {
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = store.events(after, n).await?;
            if page.len() > n {
                return Ok(NormalResponse::Wrong(format!("a page of {}, not {n}", page.len())));
            }
            let Some(last) = page.last() else { return Ok(self.observed.kept(all)) };
            if store.event(last.name.clone()).await?.as_ref() != Some(last) {
                return Ok(NormalResponse::Wrong("a listed event that is not there".to_owned()));
            }
            after = Some(last.name.clone());
            all.extend(page);
        }
        Ok(NormalResponse::Wrong("a thousand pages of events without an end".to_owned()))
    }
}

impl ObservedStore {
    /// Normalizes kept events.
    pub(super) fn kept(&mut self, events: Vec<KeptEvent>) -> NormalResponse {
        let one = |event: KeptEvent| KeptEvent { id: self.event_id(event.id), ..event };
        NormalResponse::Events(events.into_iter().map(one).collect())
    }
}
