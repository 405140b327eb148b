//! Messages of a worker's stream, to and from their plain types in [`worker`](crate::worker).

mod client;
mod server;

use crore_core::{Delivery, JobId};

pub use client::Handlers;

use super::{millis, v1};
use crate::worker::Held;

impl From<Held> for v1::Held {
    fn from(Held { id, delivery }: Held) -> Self {
        Self { id: id.0, delivery: delivery.0 }
    }
}

impl From<v1::Held> for Held {
    fn from(held: v1::Held) -> Self {
        Self { id: JobId(held.id), delivery: Delivery(held.delivery) }
    }
}

/// All of a list, translated.
fn each<T, U: From<T>>(all: Vec<T>) -> Vec<U> {
    all.into_iter().map(Into::into).collect()
}
