//! The pages, one file each.

pub(crate) mod error;
pub(crate) mod job;
pub(crate) mod job_actions;
mod job_tabs;
pub(crate) mod jobs;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod overview;
mod overview_tables;
pub(crate) mod queue;
pub(crate) mod queues;
mod traffic;
