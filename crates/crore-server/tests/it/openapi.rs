//! Checks the server against its own OpenAPI description with schemathesis: valid requests are accepted, invalid ones
//! are refused, and every response is as described.

use std::fs;
use std::path::Path;
use std::process::Command;

use crore_testkit::{Pypi, or_skip};

use crate::binary::{Server, dir};

/// Number of examples; about a minute of requests.
const EXAMPLES: &str = "20";
/// Fixed seed: the same requests each time, as far as the responses are the same.
const SEED: &str = "1";

#[test]
fn schemathesis_finds_no_fault() {
    let Some(programs) = or_skip(Pypi::Schemathesis.programs()) else { return };
    let (dir, place) = (dir(), dir());
    // It writes its report into the current directory.
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemathesis");
    for file in ["hooks.py", "schemathesis.toml"] {
        fs::copy(from.join(file), place.path().join(file)).expect("copied");
    }
    // A fetch without jobs must not wait long.
    let server = Server::start(dir.path(), &["--set", "http.max-wait=50ms"]);
    let mut command = Command::new(programs.join("schemathesis"));
    command.args([
        "run",
        &format!("{}/openapi.json", server.url()),
        "--no-color",
        "--workers",
        "1",
    ]);
    command.args(["--seed", SEED, "--max-examples", EXAMPLES]).current_dir(place.path());
    command.env("SCHEMATHESIS_HOOKS", "hooks");
    let ran = command.output().expect("it runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}{}", String::from_utf8_lossy(&ran.stderr));
    let generated = output.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    let n: Option<u32> = generated.split_whitespace().next().and_then(|n| n.parse().ok());
    assert!(n.is_some_and(|n| n > 2000), "too few requests: {output}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
    server.stop_soon();
}
