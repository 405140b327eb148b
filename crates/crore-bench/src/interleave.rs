//! Alternating runs: the sides of a comparison take turns in short slices.

use std::mem;
use std::thread;
use std::time::Duration;

use crate::driver::RunFigures;

/// Slices of a run. The speed of a shared disk changes within seconds, so compared sides have to alternate faster than
/// that.
pub const SLICES: u32 = 3;

/// Lets background work of the previous side end before the next one starts.
pub fn settle() {
    thread::sleep(Duration::from_millis(50));
}

/// One run of each side, in alternating slices.
pub fn take_turns(
    sides: &mut [Box<dyn FnMut(Duration) -> RunFigures + '_>],
    span: Duration,
) -> Vec<RunFigures> {
    let mut all: Vec<RunFigures> = sides.iter().map(|_| RunFigures::default()).collect();
    for _ in 0..SLICES {
        for (side, ran) in sides.iter_mut().zip(&mut all) {
            settle();
            *ran = mem::take(ran).merge(side(span / SLICES));
        }
    }
    all
}

/// A number of jobs in short form: `1M`, `100k`.
pub fn short(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{}M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{}k", n / 1_000),
        _ => n.to_string(),
    }
}
