//! The example does what it says.

#[path = "../../examples/own_runner.rs"]
mod own_runner;

#[test]
fn the_example_of_an_own_runner_runs() {
    own_runner::main().expect("it greets");
}
