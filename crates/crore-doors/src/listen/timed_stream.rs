//! A stream with a write timeout and a push-back buffer for bytes that were read.

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

use super::head_scan::{HEAD_END, HeadScanner};

/// The HTTP/2 connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpProtocol {
    Http1,
    Http2,
}

/// Whether a write is waiting for the peer to read.
#[derive(Debug, Clone, Default)]
pub(super) struct WriteBlocked(Arc<AtomicBool>);

impl WriteBlocked {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream with a write timeout.
#[derive(Debug)]
pub(super) struct TimedStream<S> {
    stream: S,
    /// Bytes that were put back; they are read first.
    pushed_back: Bytes,
    /// Scans what is read from an HTTP/1 connection.
    head_scan: Option<HeadScanner>,
    write_blocked: WriteBlocked,
    write_timeout: Duration,
    /// Set while a write is waiting for the peer.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S, write_timeout: Duration) -> Self {
        Self {
            stream,
            pushed_back: Bytes::new(),
            head_scan: None,
            write_blocked: WriteBlocked::default(),
            write_timeout,
            deadline: None,
        }
    }

    pub(super) fn write_blocked(&self) -> WriteBlocked {
        self.write_blocked.clone()
    }

    /// Scans bytes that were read. Returns whether they are refused; then [`HEAD_END`] must follow them.
    fn is_refused(&mut self, read: &mut [u8]) -> bool {
        self.head_scan.as_mut().is_some_and(|head_scan| head_scan.scan(read))
    }

    /// Puts bytes back in front of the stream.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pushed_back = [bytes, &self.pushed_back[..]].concat().into();
        }
    }

    /// Tracks the result of a write, and turns a write that has waited too long into an error.
    fn check_write_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.write_blocked.0.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let write_timeout = self.write_timeout;
        let deadline = self
            .deadline
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + write_timeout)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> TimedStream<S> {
    /// Detects the protocol from the first bytes.
    pub(super) async fn detect_protocol(&mut self) -> io::Result<HttpProtocol> {
        let mut bytes = BytesMut::with_capacity(PREFACE.len());
        let protocol = loop {
            if self.stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if bytes.starts_with(PREFACE) {
                break HttpProtocol::Http2;
            }
            if !PREFACE.starts_with(&bytes) {
                break HttpProtocol::Http1;
            }
        };
        if protocol == HttpProtocol::Http1
            && self.head_scan.insert(HeadScanner::default()).scan(&mut bytes)
        {
            bytes.extend_from_slice(HEAD_END);
        }
        self.pushed_back = bytes.freeze();
        Ok(protocol)
    }

    /// Completes when the peer closes the connection. Stops watching once the peer has sent more bytes.
    pub(super) async fn closed_by_peer(&mut self) {
        poll_fn(|context| {
            if !self.pushed_back.is_empty() {
                return Poll::Pending;
            }
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                return Poll::Ready(());
            }
            let is_refused = self.is_refused(buffer.filled_mut());
            let end = if is_refused { HEAD_END } else { &[] };
            self.pushed_back = [buffer.filled(), end].concat().into();
            Poll::Pending
        })
        .await;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.pushed_back.is_empty() {
            let before = buffer.filled().len();
            let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
            if self.is_refused(buffer.filled_mut().get_mut(before..).unwrap_or_default()) {
                self.pushed_back = Bytes::from_static(HEAD_END);
            }
            return polled;
        }
        let n = self.pushed_back.len().min(buffer.remaining());
        buffer.put_slice(&self.pushed_back.split_to(n));
        Poll::Ready(Ok(()))
    }
}
impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_write_timeout(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.check_write_timeout(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.check_write_timeout(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_write_timeout(context, polled)
    }
}
