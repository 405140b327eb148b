//! A plugin in Rust that greets the name in the payload.
//!
//! `cargo build --release -p crore-plugin --example hello` builds `libhello.so`.

use crore_plugin::{Context, Error, Plugin};

#[derive(Default)]
struct Hello;

impl Plugin for Hello {
    fn name() -> &'static str {
        "HelloRust"
    }

    fn run(&mut self, argument: &[u8], context: &Context<'_>) -> Result<Vec<Vec<u8>>, Error> {
        context.log("about to greet");
        let name = std::str::from_utf8(argument).map_err(Error::fatal)?;
        Ok(vec![format!("hello, {name}").into_bytes()])
    }
}

crore_plugin::export!(Hello);
