//! Sides that are compared take turns.

use std::mem;
use std::thread;
use std::time::Duration;

use crate::drive::Ran;

/// How many slices a run is cut into. A disk that others use too is fast now and slow a few seconds
/// later; those that are compared have to meet the same weather.
pub(crate) const SLICES: u32 = 3;

/// Lets whoever ran before end what he does in the background, so that the next one has the disk
/// to himself.
pub(crate) fn settle() {
    thread::sleep(Duration::from_millis(50));
}

/// One run of each side, in slices, turn by turn.
pub(crate) fn take_turns(
    sides: &mut [Box<dyn FnMut(Duration) -> Ran + '_>],
    span: Duration,
) -> Vec<Ran> {
    let mut all: Vec<Ran> = sides.iter().map(|_| Ran::default()).collect();
    for _ in 0..SLICES {
        for (side, ran) in sides.iter_mut().zip(&mut all) {
            settle();
            *ran = mem::take(ran).and(side(span / SLICES));
        }
    }
    all
}

/// A number of jobs, short.
pub(crate) fn short(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        _ => n.to_string(),
    }
}
