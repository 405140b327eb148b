//! The pages, one file each.

pub(crate) mod audit;
pub(crate) mod error;
pub(crate) mod errors;
mod group_graph;
pub(crate) mod groups;
pub(crate) mod handlers;
pub(crate) mod job;
pub(crate) mod job_actions;
mod job_diff;
mod job_filter;
mod job_tabs;
pub(crate) mod jobs;
pub(crate) mod limits;
pub(crate) mod login;
pub(crate) mod operations;
pub(crate) mod overview;
mod overview_tables;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod schedule_form;
mod schedule_words;
pub(crate) mod schedules;
pub(crate) mod system;
pub(crate) mod tokens;
mod traffic;
pub(crate) mod workers;
