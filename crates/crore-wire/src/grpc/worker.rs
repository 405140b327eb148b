//! Converts the messages of a worker's stream to and from the plain types in [`worker`](crate::worker).

mod client;
mod server;

use crore_core::{Delivery, JobId};

pub use client::ReceivedHandlers;

use super::{millis, v1};
use crate::worker::DeliveryRef;

impl From<DeliveryRef> for v1::Held {
    fn from(DeliveryRef { id, delivery }: DeliveryRef) -> Self {
        Self { id: id.0, delivery: delivery.0 }
    }
}

impl From<v1::Held> for DeliveryRef {
    fn from(held: v1::Held) -> Self {
        Self { id: JobId(held.id), delivery: Delivery(held.delivery) }
    }
}

/// Converts every item of a list.
fn convert_all<T, U: From<T>>(all: Vec<T>) -> Vec<U> {
    all.into_iter().map(Into::into).collect()
}
