//! A response body that charges its unread bytes to the budget, and ends when the caller's token is revoked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::Status;

use crate::Fault;
use crate::admitted_call::AdmittedCall;
use crate::budget::{ByteMeter, FREE_BYTES};
use crate::revocation::RevocationWatch;

/// How a body reports an error after its response has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyEnd {
    /// With a status in the trailers.
    Grpc,
    /// With a server-sent event `error`.
    Event,
    /// The body stays incomplete.
    Abrupt,
}

impl BodyEnd {
    fn frame(self, fault: Fault) -> Result<Frame<Bytes>, axum::Error> {
        match self {
            Self::Grpc => {
                let mut trailers = HeaderMap::new();
                Status::from(fault).add_header(&mut trailers).map_err(axum::Error::new)?;
                Ok(Frame::trailers(trailers))
            }
            Self::Event => {
                let problem = serde_json::to_string(fault.problem()).map_err(axum::Error::new)?;
                Ok(Frame::data(format!("event: error\ndata: {problem}\n\n").into()))
            }
            Self::Abrupt => Err(axum::Error::new(fault)),
        }
    }
}

/// A response body.
#[derive(Debug)]
pub struct GuardedBody {
    body: Body,
    end: BodyEnd,
    /// `None`: a call without a caller, such as a health check.
    call: Option<Arc<AdmittedCall>>,
    /// The charge for a body of known size.
    charged: Option<ByteMeter>,
    watch: TokenWatch,
    /// Whether the caller streams messages, which get their responses before the stream ends.
    has_grace: bool,
}

/// Unary responses are ready at once and need no watch.
#[derive(Debug)]
enum TokenWatch {
    Unneeded { frames: usize },
    Watching(Option<RevocationWatch>),
}

impl GuardedBody {
    /// Guards a body of this call.
    pub fn new(body: Body, end: BodyEnd, call: Option<Arc<AdmittedCall>>) -> Self {
        let (charged, watch) = (None, TokenWatch::Unneeded { frames: 0 });
        Self { body, end, call, charged, watch, has_grace: false }
    }

    /// Lets the stream end by itself for a short time after a revocation.
    pub const fn with_grace(mut self) -> Self {
        self.has_grace = true;
        self
    }

    pub(crate) fn with_charge(mut self, charged: Option<ByteMeter>) -> Self {
        self.charged = charged;
        self
    }

    /// Ready if the caller's token was revoked. `is_busy`: the body has a frame.
    fn poll_revoked(&mut self, context: &mut Context<'_>, is_busy: bool) -> Poll<Fault> {
        let Some(call) = &self.call else { return Poll::Pending };
        if let TokenWatch::Unneeded { frames } = &mut self.watch {
            *frames += 1;
            // A unary response has one message and its trailers.
            if is_busy && *frames <= 2 {
                return Poll::Pending;
            }
            self.watch = TokenWatch::Watching(call.watch_token(self.has_grace));
        }
        match &mut self.watch {
            TokenWatch::Watching(Some(watch)) => watch.poll(context, is_busy),
            TokenWatch::Watching(None) | TokenWatch::Unneeded { .. } => Poll::Pending,
        }
    }

    /// Charges a frame; the charge lasts until the connection has written it.
    fn charge(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Fault> {
        let Some(call) = &self.call else { return Ok(frame) };
        let len = frame.data_ref().map_or(0, Bytes::len);
        if len <= FREE_BYTES {
            return Ok(frame);
        }
        let meter = match self.charged.take() {
            Some(charged) => charged,
            None => {
                let mut meter = call.meter();
                meter.set(len)?;
                meter
            }
        };
        Ok(frame.map_data(|bytes| Bytes::from_owner(ChargedBytes { bytes, _meter: meter })))
    }

    fn end(&mut self, fault: Fault) -> Option<Result<Frame<Bytes>, axum::Error>> {
        // Dropped now: a worker's jobs go to others.
        self.body = Body::empty();
        self.call = None;
        Some(self.end.frame(fault))
    }
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(fault) = self.poll_revoked(context, polled.is_ready()) {
            return Poll::Ready(self.end(fault));
        }
        match polled {
            Poll::Ready(Some(Ok(frame))) => match self.charge(frame) {
                Ok(frame) => Poll::Ready(Some(Ok(frame))),
                Err(fault) => Poll::Ready(self.end(fault)),
            },
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes with their charge.
struct ChargedBytes {
    bytes: Bytes,
    _meter: ByteMeter,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
