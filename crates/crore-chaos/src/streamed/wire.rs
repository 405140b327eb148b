//! A connection that can be stopped and cut, as that of a process which is stopped or killed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::client::Away;
use crate::pause::LIMIT;

/// Whoever has it in his hand decides what goes through the wire.
#[derive(Debug, Clone, Default)]
pub(super) struct Tap(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    state: State,
    wakers: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Flows,
    /// Nothing is read, written or answered: its process is stopped.
    Stopped,
    /// Its process is dead.
    Cut,
}

impl Tap {
    pub(super) fn stop(&self) {
        self.turn(State::Stopped);
    }

    pub(super) fn go_on(&self) {
        self.turn(State::Flows);
    }

    pub(super) fn cut(&self) {
        self.turn(State::Cut);
    }

    fn turn(&self, state: State) {
        let wakers = {
            let mut inner = self.inner();
            inner.state = state;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether something may go through now.
    fn poll(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        match inner.state {
            State::Flows => Poll::Ready(Ok(())),
            State::Stopped => {
                inner.wakers.push(context.waker().clone());
                Poll::Pending
            }
            State::Cut => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects; the tap is where the connection can be stopped and cut.
pub(super) async fn connect(address: SocketAddr) -> Result<(Channel, Tap), Away> {
    let tap = Tap::default();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| Away)?;
    let wire = {
        let tap = tap.clone();
        move |_| {
            let tap = tap.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                // One that cannot be told so is slower, and no worse.
                let _ = stream.set_nodelay(true);
                Ok::<_, io::Error>(TokioIo::new(Wire { stream, tap }))
            }
        }
    };
    let connecting = endpoint.connect_with_connector(service_fn(wire));
    match timeout(LIMIT, connecting).await {
        Ok(Ok(channel)) => Ok((channel, tap)),
        Ok(Err(_)) | Err(_) => Err(Away),
    }
}

struct Wire {
    stream: TcpStream,
    tap: Tap,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.tap.poll(context))?;
        // Whoever waits for bytes has to hear of the tap as well.
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.tap.inner().wakers.push(context.waker().clone());
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.tap.poll(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.tap.poll(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.tap.poll(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
