//! A connection that speaks HTTP/1.1.
//!
//! Workers that poll for a job mostly wait, and there may be many thousands of them. The library that reads
//! requests and writes answers keeps two buffers of 8 KiB for each connection all the while. So when an
//! answer takes long, what the library has of the connection is given up, and only the stream and the
//! answer to come are kept. When that is there, the library is given another request to read in place of the
//! one that it has forgotten, and writes the answer to that.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1::Parts;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::Front;
use super::life::{Life, Turn};
use super::patient::Patient;
use super::under_way::{Coming, UnderWay};

/// After this long an answer takes long.
const LONG: Duration = Duration::from_millis(10);

/// What the library reads in place of a request that it has forgotten.
const STAND_IN: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
/// The same, for the last one of a connection.
const LAST_STAND_IN: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// Serves a connection until it ends.
pub(super) async fn serve<S>(front: Front, mut io: Patient<S>, mut life: Life)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let under_way = UnderWay::new(front);
    // In a box, which is given back when the answer takes long.
    while let Some((stream, mut answer)) = Box::pin(attend(&under_way, io, &mut life)).await {
        io = stream;
        let answer = loop {
            tokio::select! {
                biased;
                answer = answer.as_mut() => break answer,
                () = io.gone() => return,
                turn = life.turn() => match turn {
                    Turn::End => {}
                    Turn::Late | Turn::Leave => return,
                },
            }
        };
        under_way.give(answer);
        io.unread(if life.is_ending() { LAST_STAND_IN } else { STAND_IN });
    }
}

/// Reads requests and writes answers, until the connection ends, or an answer takes long.
async fn attend<S>(
    under_way: &UnderWay,
    io: Patient<S>,
    life: &mut Life,
) -> Option<(Patient<S>, Coming)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let behind = io.behind();
    let house = Arc::clone(under_way.front().house());
    let mut connection = house.http1.serve_connection(TokioIo::new(io), under_way.clone());
    let mut long = Long { over: Box::pin(sleep_until(Instant::now() + LONG)), number: 0 };
    loop {
        tokio::select! {
            biased;
            // One that ends with an error has nobody left to tell.
            _ = &mut connection => return None,
            () = poll_fn(|context| match under_way.can_be_forgotten() {
                Some(number) if !behind.is_so() => long.poll(number, context),
                _ => Poll::Pending,
            }) => break,
            turn = life.turn() => match turn {
                Turn::End => Pin::new(&mut connection).graceful_shutdown(),
                Turn::Late | Turn::Leave => return None,
            },
        }
    }
    let Parts { io, read_buf, .. } = connection.into_parts();
    let mut io = io.into_inner();
    io.unread(&read_buf);
    Some((io, under_way.take()?))
}

/// Knows when an answer takes long. Its timer runs on when the answer is there, so that the next request
/// finds it running, and short ones cost nothing.
struct Long {
    over: Pin<Box<Sleep>>,
    /// The request that was under way when the timer was set.
    number: u64,
}

impl Long {
    fn poll(&mut self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.over.as_mut().poll(context));
            if self.number == number {
                return Poll::Ready(());
            }
            self.number = number;
            self.over.as_mut().reset(Instant::now() + LONG);
        }
    }
}
