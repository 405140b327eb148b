//! The checker is tested by histories made by hand: each promise is broken at least once, and found
//! broken alone; and what only looks broken is not found.

mod crashes;
mod endings;
mod form;
mod holding;
mod order;
mod pushing;
mod tape;
mod timing;
