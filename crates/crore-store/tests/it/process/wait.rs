//! Waiting for a store's future on a plain thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crore_store::{Error, StoreFuture};

/// Longer than any disk takes; only a store that hangs reaches it.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

struct ChannelWaker(SyncSender<()>);

impl Wake for ChannelWaker {
    fn wake(self: Arc<Self>) {
        // A pending wake-up makes another one unnecessary.
        let _ = self.0.try_send(());
    }
}

thread_local! {
    static WAKER: LazyLock<(Waker, Receiver<()>)> = LazyLock::new(|| {
        let (sender, receiver) = sync_channel(1);
        (Arc::new(ChannelWaker(sender)).into(), receiver)
    });
}

/// Waits for a future, which must resolve.
pub(crate) fn wait<T>(mut answer: StoreFuture<'_, T>) -> Result<T, Error> {
    WAKER.with(|bell| {
        let (waker, rung) = &**bell;
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
                return answer;
            }
            rung.recv_timeout(LIMIT).expect("a response");
        }
    })
}
