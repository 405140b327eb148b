//! Builds plugins for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crore_core::Span;
use crore_runner::plugin::{PluginFactory, PluginSetup};
use crore_runner::{RunFailure, Runner, RunnerFactory};
use crore_testkit::{DebianPackage, install_missing};
use serde_json::json;
use tempfile::TempDir;

/// A directory of plugins, and the setup to run them.
#[derive(Debug)]
pub(super) struct PluginBuilder {
    dir: TempDir,
    pub(super) setup: PluginSetup,
}

impl PluginBuilder {
    pub(super) fn new() -> Self {
        install_missing(&[DebianPackage::Other { name: "gcc", programs: &["cc"] }])
            .expect("a compiler");
        let dir = tempfile::tempdir().expect("a folder");
        let host = cargo_built(&["-p", "crore-plugin-host", "--bin", "crore-plugin-host"]);
        let mut setup = PluginSetup::new(dir.path(), host, &[]);
        setup.options.plugin_grace = Span::from_millis(300);
        Self { dir, setup }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Compiles a plugin in C.
    pub(super) fn compile(&self, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let built = self.path().join(name);
        let sdk = root().join("sdks/plugin");
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-w", "-I"])
            .arg(sdk)
            .args(flags)
            .arg("-o")
            .arg(&built)
            .arg(source)
            .status();
        assert!(status.expect("cc runs").success());
        built
    }

    /// Compiles `odd.c`, whose behavior depends on its argument.
    pub(super) fn odd(flags: &[&str]) -> Self {
        let builder = Self::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/plugin/odd.c");
        builder.compile(&source, "odd.so", flags);
        builder
    }

    /// The example in Rust.
    pub(super) fn rust_example(&self) {
        let built = cargo_built(&["-p", "crore-plugin", "--example", "hello"]);
        fs::copy(built, self.path().join("libhello.so")).expect("copied");
    }

    pub(super) async fn make(&self, plugin: &str) -> Result<Box<dyn Runner>, RunFailure> {
        let settings = json!({ "plugin": plugin });
        PluginFactory::new(self.setup.clone()).make(&settings).await
    }

    /// A runner of `odd`.
    pub(super) async fn runner(&self) -> Box<dyn Runner> {
        self.make("odd").await.expect("it can be loaded")
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds with cargo and returns the path of the file.
fn cargo_built(what: &[&str]) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "-q", "--message-format=json"])
        .args(what)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut messages =
        stdout.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = messages.rfind(|message| message["reason"] == "compiler-artifact");
    let built = built.expect("built");
    let file = built["executable"].as_str().or_else(|| built["filenames"][0].as_str());
    PathBuf::from(file.expect("a file"))
}
