//! A stream whose patience with a peer that takes nothing has an end, and to which bytes can be given back.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How a connection that speaks HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Whether something that was to be written still waits for the peer.
#[derive(Debug, Clone, Default)]
pub(super) struct Behind(Arc<AtomicBool>);

impl Behind {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The stream.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    /// What was given back, and is read first.
    ahead: Bytes,
    behind: Behind,
    patience: Duration,
    /// When it is over, while a write waits for the peer.
    over: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, ahead: Bytes::new(), behind: Behind::default(), patience, over: None }
    }

    pub(super) fn behind(&self) -> Behind {
        self.behind.clone()
    }

    /// Gives bytes back, which are then read before all others.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.ahead = [bytes, &self.ahead[..]].concat().into();
        }
    }

    /// Passes on what a write says; one that waits for too long is an error.
    fn wait<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.behind.0.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_ready() {
            self.over = None;
            return polled;
        }
        let patience = self.patience;
        let over =
            self.over.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + patience)));
        ready!(over.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// What the peer speaks, as soon as he has said enough to know it.
    pub(super) async fn protocol(&mut self) -> io::Result<Protocol> {
        let mut bytes = BytesMut::with_capacity(PREFACE.len());
        let protocol = loop {
            if self.stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if bytes.starts_with(PREFACE) {
                break Protocol::Http2;
            }
            if !PREFACE.starts_with(&bytes) {
                break Protocol::Http1;
            }
        };
        self.ahead = bytes.freeze();
        Ok(protocol)
    }

    /// Comes when the peer has left. One that says something more has not, whatever he does afterwards.
    pub(super) async fn gone(&mut self) {
        poll_fn(|context| {
            if !self.ahead.is_empty() {
                return Poll::Pending;
            }
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            self.ahead = Bytes::copy_from_slice(buffer.filled());
            Poll::Pending
        })
        .await;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let n = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(&self.ahead.split_to(n));
        Poll::Ready(Ok(()))
    }
}
impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wait(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wait(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.wait(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.wait(context, polled)
    }
}
