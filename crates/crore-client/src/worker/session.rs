//! One connection of a worker.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crore_wire::grpc::v1;
use crore_wire::grpc::v1::work_client::WorkClient;
use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::running::{Event, Running};
use crate::Error;
use crate::backoff::Backoff;
use crate::client::Line;

/// How many things are said in one message.
const AT_ONCE: usize = 1000;

/// What is said, as a stream.
struct Says(mpsc::UnboundedReceiver<v1::WorkerSays>);

impl Stream for Says {
    type Item = v1::WorkerSays;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<v1::WorkerSays>> {
        self.0.poll_recv(context)
    }
}

/// Works on one connection until it breaks, or the worker is stopped and has nothing left to do.
pub(super) async fn run(
    mut client: WorkClient<Line>,
    hello: v1::Hello,
    running: &mut Running,
    (stop, grace): (&CancellationToken, Duration),
    backoff: &mut Backoff,
) -> Result<(), Error> {
    let (says, to_say) = mpsc::unbounded_channel();
    let say = |message| says.send(message).map_err(|_| Error::Unknown);
    say(v1::WorkerSays { hello: Some(hello), ..v1::WorkerSays::default() })?;
    let mut hears = client.stream(Says(to_say)).await?.into_inner();
    let mut stopped: Option<Instant> = None;
    let mut events = Vec::with_capacity(AT_ONCE);
    let mut is_welcome = false;
    loop {
        if stopped.is_some() && running.is_idle() {
            return Ok(());
        }
        tokio::select! {
            heard = hears.message() => {
                let heard = heard?.ok_or(Error::Unknown)?;
                if let Some(welcome) = &heard.welcome {
                    backoff.reset();
                    is_welcome = true;
                    tracing::debug!(kept = welcome.kept.len(), "welcome");
                    let finish = running.unanswered();
                    if !finish.is_empty() {
                        say(v1::WorkerSays { finish, ..v1::WorkerSays::default() })?;
                    }
                }
                heard.finished.iter().for_each(|one| running.answered(one));
                running.lose(&heard.lost);
                running.stop(&heard.stop);
                heard.jobs.into_iter().for_each(|job| running.begin(job));
            }
            n = running.says.recv_many(&mut events, AT_ONCE), if is_welcome && n_any(&events) => {
                if n > 0 {
                    say(gathered(running, &mut events))?;
                }
            }
            () = stop.cancelled(), if stopped.is_none() => {
                stopped = Some(Instant::now() + grace);
                say(v1::WorkerSays { drain: true, ..v1::WorkerSays::default() })?;
            }
            () = sleep_until(stopped.unwrap_or_else(Instant::now)), if stopped.is_some_and(|at| at > Instant::now()) => {}
        }
        if stopped.is_some_and(|at| at <= Instant::now()) {
            let finish = running.interrupt();
            if !finish.is_empty() {
                say(v1::WorkerSays { finish, ..v1::WorkerSays::default() })?;
            }
        }
    }
}

/// What was gathered is said before more is.
fn n_any(events: &[Event]) -> bool {
    events.is_empty()
}

/// What running jobs have said, in one message.
fn gathered(running: &mut Running, events: &mut Vec<Event>) -> v1::WorkerSays {
    let mut says = v1::WorkerSays::default();
    for event in events.drain(..) {
        match event {
            Event::Note(note) => says.notes.push(note),
            Event::Over(report) if running.is_its_own(&report) => {
                running.over(&report);
                says.finish.push(report);
            }
            // It is another's by now.
            Event::Over(_) => {}
        }
    }
    says
}
