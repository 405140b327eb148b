//! The sections, one file each.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod caps;
pub(crate) mod doors;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod jobber;
pub(crate) mod jobworkerp;
pub(crate) mod lightjq;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod outbound;
pub(crate) mod retention;
pub(crate) mod runners;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod tls;
