//! Resource handles are free to create, and `Engine` itself stays small.

use std::fs;
use std::path::{Path, PathBuf};

use crore::core::Span;
use crore::resources::{Jobs, Queues};
use crore::{Engine, block_on};

use crate::test_engine::name;

/// Maximum public methods of `Engine`, without the accessors of handles.
const MAX_METHODS: usize = 25;

fn sent<T: Send>(future: T) -> T {
    future
}

#[test]
fn a_future_borrows_the_engine_and_not_the_handle() {
    let engine = Engine::memory();
    let (paused, drained) = {
        let queues = engine.queues();
        (sent(queues.pause(name("q"))), sent(queues.drain(name("q"), Span::ZERO)))
    };
    block_on(paused).expect("paused");
    assert!(block_on(drained).expect("a response"));
    let counts = sent(engine.jobs().counts(None));
    assert_eq!(block_on(counts).expect("counted"), []);
}

#[test]
fn a_handle_is_one_reference() {
    assert_eq!(size_of::<Queues<'_>>(), size_of::<&Engine>());
    // This one also names the caller.
    assert_eq!(size_of::<Jobs<'_>>(), size_of::<(&Engine, &str)>());
}

#[test]
fn engine_shows_a_newcomer_only_everyday_methods() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = files(&src).into_iter().filter(|file| !file.ends_with("resources.rs"));
    let methods: Vec<String> = files.flat_map(|file| methods_of_engine(&file)).collect();
    assert!(methods.iter().any(|method| method.contains("fn push(")), "{methods:?}");
    assert!(
        methods.len() <= MAX_METHODS,
        "put new methods on the handle of a resource: {methods:#?}"
    );
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The public methods in a file, by the indentation that rustfmt gives them.
fn methods_of_engine(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("read");
    let blocks = text.split("\nimpl Engine {\n").skip(1);
    let lines = blocks.flat_map(|block| block.lines().take_while(|line| *line != "}"));
    let is_method = |line: &&str| line.starts_with("    pub ") && line.contains("fn ");
    lines.filter(is_method).map(|line| line.trim().to_owned()).collect()
}
