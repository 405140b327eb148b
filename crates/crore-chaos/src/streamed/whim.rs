//! A stream from its welcome to its end, and what a worker does wrong on it.

use std::time::Duration;

use crore_wire::grpc::v1;
use tokio::time::timeout;

use super::deed::Deed;
use super::stream::Stream;
use super::worker::{Manner, SLOTS, Worker};

/// How long a worker listens before it thinks of something else.
const MOMENT: Duration = Duration::from_millis(10);

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is over on both sides.
    Over,
    /// The worker was killed.
    Killed,
    /// The worker goes away, and nobody closes anything.
    Left,
}

impl Worker {
    /// Works on a stream, until that is over.
    pub(super) async fn listen(&mut self, stream: &mut Stream) -> Ending {
        loop {
            self.report(stream).await;
            if stream.drains && stream.own.iter().all(|doing| doing.at.is_none()) {
                stream.says = None;
            }
            if let Some(ending) = self.whim(stream).await {
                return ending;
            }
            let patience = stream.silence().min(MOMENT);
            match timeout(patience, stream.hears.message()).await {
                // There may be something to say.
                Err(_) => {}
                Ok(Ok(Some(said))) => self.hear(stream, &said),
                Ok(Ok(None)) => return Ending::Over,
                Ok(Err(status)) => {
                    self.broken(&status);
                    return Ending::Over;
                }
            }
        }
    }

    /// Does something else, now and then.
    async fn whim(&mut self, stream: &mut Stream) -> Option<Ending> {
        match self.dice.below(1000) {
            _ if self.manner == Manner::Well => {}
            0..=9 => {
                stream.tap.cut();
                return Some(Ending::Killed);
            }
            // It ends its stream and not its connection.
            10..=13 => return Some(Ending::Killed),
            14..=19 => {
                stream.drains = true;
                stream.say(v1::WorkerSays { drain: true, ..v1::WorkerSays::default() }).await;
            }
            _ if self.manner == Manner::Restless => {}
            // It opens another before this one is over.
            20 => return Some(Ending::Left),
            // The connection is there, and nobody at its end.
            21 => {
                stream.tap.stop();
                return Some(Ending::Left);
            }
            22..=28 => {
                // Longer than leases last, for most of them.
                stream.tap.stop();
                self.desk.rest(Duration::from_millis(60 + self.dice.below(340))).await;
                stream.tap.go_on();
            }
            29..=44 => {
                let slots = 1 + self.dice.below(SLOTS) as u32;
                stream.slots = stream.slots.max(slots as usize);
                let slots = Some(slots);
                stream.say(v1::WorkerSays { slots, ..v1::WorkerSays::default() }).await;
            }
            45..=59 => {
                // It reports what it was given by another stream, or what somebody else was given.
                if let Some(held) = self.desk.held() {
                    let deed = Deed::any(held, &mut self.dice, &self.desk);
                    self.file(stream, deed, true).await;
                }
            }
            // Its connection breaks while it has jobs, and it comes back when their leases have ended, for most of them.
            60..=89 if !stream.own.is_empty() => {
                stream.tap.cut();
                self.desk.rest(Duration::from_millis(60 + self.dice.below(240))).await;
                return Some(Ending::Killed);
            }
            _ => {}
        }
        None
    }

    /// A stream is over for its worker, which has the jobs still.
    pub(super) fn leave(&mut self, mut stream: Stream, ending: Ending) {
        self.ask_no_more();
        self.give_up(&mut stream);
        if self.manner == Manner::Restless {
            // Leases do not end before the server's patience does, as they do for others.
            self.held.iter().for_each(|held| self.left(*held));
        }
        if ending == Ending::Left {
            self.limbo.push(stream);
        }
    }
}
