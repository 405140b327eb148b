//! A request body that charges its bytes to the budget.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::admitted_call::AdmittedCall;
use crate::budget::ByteMeter;

/// A request body. Its charge lasts until the response.
pub(crate) struct MeteredBody {
    body: Body,
    call: Arc<AdmittedCall>,
    meter: Option<ByteMeter>,
    received: usize,
}

impl MeteredBody {
    pub(crate) fn new(body: Body, call: Arc<AdmittedCall>) -> Self {
        let meter = Some(call.meter());
        Self { body, call, meter, received: 0 }
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.received += data.len();
            let received = self.received;
            if let Some(Err(fault)) = self.meter.as_mut().map(|meter| meter.set(received)) {
                return Poll::Ready(Some(Err(axum::Error::new(fault))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for MeteredBody {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            self.call.keep_body(meter);
        }
    }
}
