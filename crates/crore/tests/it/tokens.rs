//! Tokens are stored unchanged, and stay until they are removed.

use crore::core::{Name, Span};
use crore::store::registry::RegistryValue;
use crore::{Engine, Error, block_on};

use crate::test_engine::on_both;

fn name(text: &str) -> Name {
    Name::new("token", text).expect("a valid name")
}

#[test]
fn a_token_is_stored_until_removed_and_never_replaced() {
    on_both(|scene| {
        let engine = &scene.engine;
        block_on(engine.tokens().add(name("a1"), "says one")).expect("added");
        let again = block_on(engine.tokens().add(name("a1"), "says two"));
        assert!(matches!(again, Err(Error::Refused { .. })), "{again:?}");
        let now = engine.status().now();
        scene.clock.set(now.after(Span::from_secs(10 * 365 * 86_400)));
        let tokens = block_on(engine.tokens().list()).expect("read");
        let says: Vec<_> = tokens.iter().map(|entry| (entry.name.as_str(), &entry.value)).collect();
        assert_eq!(says, [("a1", &RegistryValue::Token("says one".into()))]);
        for _ in 0..2 {
            block_on(engine.tokens().remove(name("a1"))).expect("removed");
            assert_eq!(block_on(engine.tokens().list()).expect("read"), []);
        }
    });
}

#[test]
fn an_added_token_survives_reopening_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let engine = Engine::open(dir.path()).expect("opened");
    block_on(engine.tokens().add(name("a1"), "says")).expect("added");
    engine.stop().expect("stopped");
    drop(engine);
    let engine = Engine::open(dir.path()).expect("opened again");
    assert_eq!(block_on(engine.tokens().list()).expect("read").len(), 1);
}
