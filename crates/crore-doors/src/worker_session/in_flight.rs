//! Messages of one stream that are being processed, with bounds on their number and size. Their bytes are charged to
//! the budget for bytes in flight. Responses are in order.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use crore_api::Fault;
use crore_api::budget::ByteMeter;
use futures_util::stream::{FuturesOrdered, StreamExt};

use super::BoxFuture;

/// Maximum number of messages; above it, reading pauses.
const MAX_MESSAGES: usize = 64;
/// Maximum of their total bytes; above it, reading pauses.
const MAX_BYTES: usize = 16 << 20;

/// Messages that are being processed.
pub(crate) struct InFlight<T> {
    tasks: FuturesOrdered<BoxFuture<(usize, T)>>,
    bytes: usize,
    meter: Option<ByteMeter>,
}

impl<T: 'static> InFlight<T> {
    /// `None`: messages from this process, which are not charged.
    pub(crate) fn new(meter: Option<ByteMeter>) -> Self {
        Self { tasks: FuturesOrdered::new(), bytes: 0, meter }
    }

    /// Whether another message may be read.
    pub(crate) fn has_room(&self) -> bool {
        self.tasks.len() < MAX_MESSAGES && self.bytes < MAX_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Charges the bytes of a message that is then [pushed](Self::push); an error if they exceed the budget.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Fault> {
        let total = self.bytes.saturating_add(bytes);
        self.meter.as_mut().map_or(Ok(()), |meter| meter.set(total))
    }

    /// Adds a message that holds about `bytes` bytes until it is processed.
    pub(crate) fn push(&mut self, bytes: usize, work: impl Future<Output = T> + Send + 'static) {
        self.bytes += bytes;
        self.tasks.push_back(Box::pin(async move { (bytes, work.await) }));
    }

    /// The response to the oldest message when it is ready; `None`: nothing is in flight.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let next = ready!(self.tasks.poll_next_unpin(context));
        Poll::Ready(next.map(|(bytes, done)| {
            self.bytes -= bytes;
            if let Some(meter) = &mut self.meter {
                // A decrease is never refused.
                let _ = meter.set(self.bytes);
            }
            done
        }))
    }

    /// Async version of [`poll_next`](Self::poll_next).
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn in_flight_messages_are_limited_by_bytes_and_count() {
        let mut context = Context::from_waker(Waker::noop());
        for (bytes, max) in [(MAX_BYTES / 2, 2), (MAX_BYTES * 2, 1), (0, MAX_MESSAGES)] {
            let mut in_flight = InFlight::new(None);
            let mut n = 0;
            while in_flight.has_room() {
                in_flight.push(bytes, std::future::ready(n));
                n += 1;
            }
            assert_eq!(n, max, "of {bytes} bytes");
            for n in 0..max {
                assert_eq!(in_flight.poll_next(&mut context), Poll::Ready(Some(n)));
                assert!(in_flight.has_room());
            }
            assert_eq!(in_flight.poll_next(&mut context), Poll::Ready(None));
            assert_eq!(in_flight.bytes, 0);
        }
    }
}
