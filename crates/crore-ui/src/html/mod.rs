//! The pieces that pages are made of.

pub(crate) mod api_text;
pub(crate) mod chart;
pub(crate) mod confirm;
pub(crate) mod copy;
pub(crate) mod empty;
pub(crate) mod flash;
pub(crate) mod format;
pub(crate) mod icon;
pub(crate) mod json_tree;
pub(crate) mod layout;
pub(crate) mod pause;
pub(crate) mod payload;
pub(crate) mod rail;
pub(crate) mod sparkline;
pub(crate) mod state;
pub(crate) mod time;
pub(crate) mod timeline;
pub(crate) mod top_bar;
