//! A connection that can be stopped and cut, like that of a process that is stopped or killed.

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

use crate::client::Unreachable;
use crate::time::CALL_TIMEOUT;

/// Controls one connection: open, stopped or cut.
#[derive(Debug, Clone, Default)]
pub(super) struct ConnectionSwitch(Arc<Mutex<SwitchInner>>);

#[derive(Debug, Default)]
struct SwitchInner {
    state: SwitchState,
    wakers: Vec<Waker>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SwitchState {
    #[default]
    Open,
    /// Its process is stopped: nothing is read, written or acknowledged.
    Stopped,
    /// Its process is dead.
    Cut,
}

impl ConnectionSwitch {
    pub(super) fn stop(&self) {
        self.set_state(SwitchState::Stopped);
    }

    pub(super) fn resume(&self) {
        self.set_state(SwitchState::Open);
    }

    pub(super) fn cut(&self) {
        self.set_state(SwitchState::Cut);
    }

    fn set_state(&self, state: SwitchState) {
        let wakers = {
            let mut inner = self.inner();
            inner.state = state;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether bytes may pass now.
    fn poll(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner();
        match inner.state {
            SwitchState::Open => Poll::Ready(Ok(())),
            SwitchState::Stopped => {
                inner.wakers.push(context.waker().clone());
                Poll::Pending
            }
            SwitchState::Cut => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }

    fn inner(&self) -> MutexGuard<'_, SwitchInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects, and returns the switch by which the connection can be stopped and cut.
pub(super) async fn connect(
    address: SocketAddr,
) -> Result<(Channel, ConnectionSwitch), Unreachable> {
    let switch = ConnectionSwitch::default();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| Unreachable)?;
    let connector = {
        let switch = switch.clone();
        move |_| {
            let switch = switch.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                // Best effort: without it the connection is only slower.
                let _ = stream.set_nodelay(true);
                Ok::<_, io::Error>(TokioIo::new(SwitchedConnection { stream, switch }))
            }
        }
    };
    let connecting = endpoint.connect_with_connector(service_fn(connector));
    match timeout(CALL_TIMEOUT, connecting).await {
        Ok(Ok(channel)) => Ok((channel, switch)),
        Ok(Err(_)) | Err(_) => Err(Unreachable),
    }
}

struct SwitchedConnection {
    stream: TcpStream,
    switch: ConnectionSwitch,
}

impl AsyncRead for SwitchedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.switch.poll(context))?;
        // A reader must also be woken when the connection is stopped or cut.
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_pending() {
            self.switch.inner().wakers.push(context.waker().clone());
        }
        read
    }
}

impl AsyncWrite for SwitchedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.switch.poll(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.switch.poll(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.switch.poll(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
