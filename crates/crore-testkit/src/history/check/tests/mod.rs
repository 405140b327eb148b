//! Tests of the checker with hand-written histories: each invariant is violated at least once and is the only
//! one reported; histories that only look wrong are not reported.

mod crashes;
mod deadlines;
mod endings;
mod form;
mod history_builder;
mod holding;
mod order;
mod pushing;
mod timing;
