//! Commands, with real processes.

mod ends;
mod gone;
mod hosts;
mod input;
mod many;
mod output;
mod processes;
