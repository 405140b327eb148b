//! `sim`: the simulator of the store, over as many seeds as asked for.

use crate::command;

/// Runs the simulator with these arguments.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    command::cargo_here(&cargo_args(args))
}

/// A release build: seeds are what it is about.
fn cargo_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--release", "-q", "-p", "crore-store", "--features", "conformance"];
    let mut cargo = [&run[..], &["--example", "sim", "--"]].concat();
    cargo.extend_from_slice(args);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_passed_on_to_a_release_build() {
        let args = cargo_args(&["--seeds", "10"]).join(" ");
        assert_eq!(
            args,
            "run --release -q -p crore-store --features conformance --example sim -- --seeds 10"
        );
    }
}
