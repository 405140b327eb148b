//! What one stream has on its way to the disk, answered in order.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesOrdered, StreamExt};

/// No more is read while there are so many messages.
const MOST: usize = 64;
/// Nor while they have so many bytes.
const MOST_BYTES: usize = 16 << 20;

type Doing<T> = Pin<Box<dyn Future<Output = (usize, T)> + Send>>;

/// Messages that are being seen to.
pub(super) struct UnderWay<T> {
    doing: FuturesOrdered<Doing<T>>,
    bytes: usize,
}

impl<T: 'static> UnderWay<T> {
    pub(super) fn new() -> Self {
        Self { doing: FuturesOrdered::new(), bytes: 0 }
    }

    /// Whether another one may be read.
    pub(super) fn has_room(&self) -> bool {
        self.doing.len() < MOST && self.bytes < MOST_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.doing.is_empty()
    }

    /// Another one, which holds about so many bytes until it is done.
    pub(super) fn push(&mut self, bytes: usize, work: impl Future<Output = T> + Send + 'static) {
        self.bytes += bytes;
        self.doing.push_back(Box::pin(async move { (bytes, work.await) }));
    }

    /// The oldest one, once it is done; `None`: there is none.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let next = ready!(self.doing.poll_next_unpin(context));
        Poll::Ready(next.map(|(bytes, done)| {
            self.bytes -= bytes;
            done
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn there_is_room_for_a_few_large_messages_and_for_many_small_ones() {
        let mut context = Context::from_waker(Waker::noop());
        for (bytes, most) in [(MOST_BYTES / 2, 2), (MOST_BYTES * 2, 1), (0, MOST)] {
            let mut under_way = UnderWay::new();
            let mut n = 0;
            while under_way.has_room() {
                under_way.push(bytes, std::future::ready(n));
                n += 1;
            }
            assert_eq!(n, most, "of {bytes} bytes");
            for n in 0..most {
                assert_eq!(under_way.poll_next(&mut context), Poll::Ready(Some(n)));
                assert!(under_way.has_room());
            }
            assert_eq!(under_way.poll_next(&mut context), Poll::Ready(None));
            assert_eq!(under_way.bytes, 0);
        }
    }
}
