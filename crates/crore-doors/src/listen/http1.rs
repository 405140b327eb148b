//! An HTTP/1.1 connection.
//!
//! Many thousands of workers may be long-polling, and hyper keeps two buffers of 8 KiB for each connection meanwhile.
//! If a response is slow, this module drops hyper's connection state and keeps only the stream and the pending
//! response. When the response is ready, a new hyper connection reads a stand-in request and writes the response to
//! it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1::Parts;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::ConnectionContext;
use super::in_flight_request::{InFlightRequest, PendingResponse};
use super::lifetime::{ConnectionLifetime, EndSignal};
use super::timed_stream::TimedStream;

/// A response that takes longer than this is slow: hyper's state is dropped while it is pending.
const SLOW_AFTER: Duration = Duration::from_millis(10);

/// The request that hyper reads in place of the one whose state was dropped.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
/// The stand-in for the last request of a connection.
const LAST_STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// Serves a connection until it ends.
pub(super) async fn serve<S>(
    context: ConnectionContext,
    mut io: TimedStream<S>,
    mut lifetime: ConnectionLifetime,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let in_flight = InFlightRequest::new(context);
    // Boxed, so that its memory is freed while a slow response is pending.
    while let Some((stream, mut response)) =
        Box::pin(serve_until_slow(&in_flight, io, &mut lifetime)).await
    {
        io = stream;
        let response = loop {
            tokio::select! {
                biased;
                response = response.as_mut() => break response,
                () = io.closed_by_peer() => return,
                signal = lifetime.next_signal() => match signal {
                    EndSignal::Graceful => {}
                    EndSignal::Overdue | EndSignal::Immediate => return,
                },
            }
        };
        in_flight.set_stand_in_response(response);
        io.unread(if lifetime.is_ending() { LAST_STAND_IN } else { STAND_IN });
    }
}

/// Reads requests and writes responses until the connection ends, or a response is slow.
async fn serve_until_slow<S>(
    in_flight: &InFlightRequest,
    io: TimedStream<S>,
    lifetime: &mut ConnectionLifetime,
) -> Option<(TimedStream<S>, PendingResponse)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let write_blocked = io.write_blocked();
    let shared = Arc::clone(in_flight.context().shared());
    let mut connection = shared.http1.serve_connection(TokioIo::new(io), in_flight.clone());
    let mut slow_timer =
        SlowTimer { sleep: Box::pin(sleep_until(Instant::now() + SLOW_AFTER)), number: 0 };
    loop {
        tokio::select! {
            biased;
            // The error of a broken connection cannot be reported to anyone.
            _ = &mut connection => return None,
            () = poll_fn(|context| match in_flight.detachable() {
                Some(number) if !write_blocked.is_set() => slow_timer.poll(number, context),
                _ => Poll::Pending,
            }) => break,
            signal = lifetime.next_signal() => match signal {
                EndSignal::Graceful => Pin::new(&mut connection).graceful_shutdown(),
                EndSignal::Overdue | EndSignal::Immediate => return None,
            },
        }
    }
    let Parts { io, read_buf, .. } = connection.into_parts();
    let mut io = io.into_inner();
    io.unread(&read_buf);
    Some((io, in_flight.take_response()?))
}

/// Detects a slow response. The timer keeps running when a response is ready, and is reset only when it fires: short
/// requests do not touch it.
struct SlowTimer {
    sleep: Pin<Box<Sleep>>,
    /// The request that was in flight when the timer was set.
    number: u64,
}

impl SlowTimer {
    fn poll(&mut self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(context));
            if self.number == number {
                return Poll::Ready(());
            }
            self.number = number;
            self.sleep.as_mut().reset(Instant::now() + SLOW_AFTER);
        }
    }
}
