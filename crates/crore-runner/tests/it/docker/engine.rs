//! An engine for each test, and what is left on it.

use crore_runner::docker::Docker;
use crore_runner::{Failure, Maker, Options, Output, Runner};
use crore_testkit::{Package, install_missing, or_skip};
use serde_json::{Value, json};

use crate::run::run;

/// An engine, and handlers for it. Dropped, it makes sure that no container is left.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) docker: crore_testkit::Docker,
    pub(super) options: Options,
}

impl Engine {
    /// One, or a loud skip where it cannot be installed or the kernel has no namespaces for it.
    pub(super) fn start() -> Option<Self> {
        install(&[Package::Docker, Package::Busybox]);
        let docker = or_skip(crore_testkit::Docker::start())?;
        let options = Options { docker: Some(docker.address()), ..Options::default() };
        Some(Self { docker, options })
    }

    /// A runner of the one image, with more settings.
    pub(super) async fn runner(&self, settings: Value) -> Box<dyn Runner> {
        let maker = Docker::new(self.options.clone());
        maker.make(&with_image(settings)).await.expect("settings")
    }

    /// Runs a shell script.
    pub(super) async fn shell(&self, script: &str, mut settings: Value) -> Result<Output, Failure> {
        settings["cmd"] = json!(["sh", "-c", script]);
        let payload = settings["stdin"].take();
        settings.as_object_mut().expect("an object").remove("stdin");
        run(&*self.runner(settings).await, payload.as_str().unwrap_or_default()).await
    }

    /// The containers that there are, running or not.
    pub(super) fn containers(&self) -> Vec<String> {
        let list = ["ps", "--all", "--format", "{{.ID}} {{.Labels}} {{.Status}}"];
        let said = self.docker.command(&list).expect("a list");
        said.lines().map(str::to_owned).collect()
    }

    pub(super) fn assert_nothing_left(&self) {
        assert_eq!(self.containers(), Vec::<String>::new());
    }
}

pub(super) fn with_image(mut settings: Value) -> Value {
    settings["image"] = json!(crore_testkit::Docker::IMAGE);
    settings
}

/// Whoever needs what cannot be installed here says so.
pub(super) fn install(packages: &[Package]) {
    if let Err(error) = install_missing(packages) {
        eprintln!("{error}");
    }
}
