//! Workers with a stream. They outlive servers and their own connections, and come back as who they were, or as
//! somebody else.
//!
//! ```text
//! wire      a connection that can be stopped and cut
//! worker    who it is, what it has between two streams, and how it comes back
//! stream    one stream: what is heard on it, and how it is written down
//! whim      what a worker does wrong
//! deed      what it says of a job
//! ```

mod deed;
mod stream;
mod whim;
mod wire;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use crore_testkit::Dice;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

pub(crate) use self::worker::Manner;
use self::worker::{Wants, Worker};
use crate::desk::Desk;
use crate::draft::{KINDS, STREAMED};

/// All workers with a stream of a run.
#[derive(Debug)]
pub(crate) struct Streamers(Vec<Arc<Mutex<Worker>>>);

impl Streamers {
    pub(crate) fn new(desk: &Arc<Desk>, dice: &mut Dice) -> Self {
        let [first, second] = STREAMED;
        let wants = |queues: &[&'static str], kind: Option<&'static str>, strict| Wants {
            queues: queues.to_vec(),
            kind,
            strict,
        };
        let all = [
            wants(&[first], None, false),
            wants(&[first, second], None, false),
            wants(&[second, first], None, true),
            wants(&[first, second], Some(KINDS[0]), false),
        ];
        let worker = |(n, wants)| Worker::new(format!("streamed-{n}"), wants, desk, dice.another());
        Self(all.into_iter().enumerate().map(worker).map(Mutex::new).map(Arc::new).collect())
    }

    /// So many workers that want the same.
    pub(crate) fn many(n: usize, desk: &Arc<Desk>, dice: &mut Dice) -> Self {
        let wants = || Wants { queues: vec![STREAMED[0]], kind: None, strict: false };
        let worker = |n| Worker::new(format!("streamed-{n}"), wants(), desk, dice.another());
        Self((0..n).map(worker).map(Mutex::new).map(Arc::new).collect())
    }

    /// They work, until there is nobody to speak to.
    pub(crate) fn begin(&self, address: SocketAddr, callers: &mut JoinSet<()>) {
        for worker in &self.0 {
            let worker = Arc::clone(worker);
            callers.spawn(async move { worker.lock().await.work_on(address).await });
        }
    }

    /// How they behave from now on; while none of them works.
    pub(crate) async fn behave(&self, manner: Manner) {
        for worker in &self.0 {
            worker.lock().await.manner = manner;
        }
    }
}
