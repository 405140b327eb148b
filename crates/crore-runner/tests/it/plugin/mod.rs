//! The plugin runner, with plugins and a host that are built here.

mod bad;
mod builder;
mod good;
mod stop;
