//! Waiting for a store's answer on a plain thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crore_store::{Answer, Error};

/// Longer than any disk takes, however busy; only a store that hangs waits it out.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

struct Bell(SyncSender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        // A bell that has rung and was not heard yet need not ring again.
        let _ = self.0.try_send(());
    }
}

thread_local! {
    static BELL: LazyLock<(Waker, Receiver<()>)> = LazyLock::new(|| {
        let (sender, receiver) = sync_channel(1);
        (Arc::new(Bell(sender)).into(), receiver)
    });
}

/// Waits for an answer, which has to come.
pub(crate) fn wait<T>(mut answer: Answer<'_, T>) -> Result<T, Error> {
    BELL.with(|bell| {
        let (waker, rung) = &**bell;
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(answer) = answer.as_mut().poll(&mut context) {
                return answer;
            }
            rung.recv_timeout(LIMIT).expect("an answer comes, whatever it is");
        }
    })
}
