//! Plugins that are built here, in a child that is built here.

mod bad;
mod good;
mod stop;
mod workshop;
