//! A Docker engine for each test.

use crore_runner::docker::DockerFactory;
use crore_runner::{Options, Output, RunFailure, Runner, RunnerFactory};
use crore_testkit::{DebianPackage, install_missing, or_skip};
use serde_json::{Value, json};

use crate::recorded_run::run;

/// An engine, and options to use it.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) docker: crore_testkit::DockerServer,
    pub(super) options: Options,
}

impl Engine {
    /// Starts one; skips loudly if it cannot be installed or the kernel lacks namespaces.
    pub(super) fn start() -> Option<Self> {
        install(&[DebianPackage::Docker, DebianPackage::Busybox]);
        let docker = or_skip(crore_testkit::DockerServer::start())?;
        let options = Options { docker: Some(docker.address()), ..Options::default() };
        Some(Self { docker, options })
    }

    /// A runner of the test image, with more settings.
    pub(super) async fn runner(&self, settings: Value) -> Box<dyn Runner> {
        let maker = DockerFactory::new(self.options.clone());
        maker.make(&with_image(settings)).await.expect("settings")
    }

    /// Runs a shell script.
    pub(super) async fn shell(
        &self,
        script: &str,
        mut settings: Value,
    ) -> Result<Output, RunFailure> {
        settings["cmd"] = json!(["sh", "-c", script]);
        let payload = settings["stdin"].take();
        settings.as_object_mut().expect("an object").remove("stdin");
        run(&*self.runner(settings).await, payload.as_str().unwrap_or_default()).await
    }

    /// All containers, running or not.
    pub(super) fn containers(&self) -> Vec<String> {
        let list = ["ps", "--all", "--format", "{{.ID}} {{.Labels}} {{.Status}}"];
        let output = self.docker.command(&list).expect("a list");
        output.lines().map(str::to_owned).collect()
    }

    pub(super) fn assert_nothing_left(&self) {
        assert_eq!(self.containers(), Vec::<String>::new());
    }
}

pub(super) fn with_image(mut settings: Value) -> Value {
    settings["image"] = json!(crore_testkit::DockerServer::IMAGE);
    settings
}

/// Installs packages; a test that needs a missing one reports that itself.
pub(super) fn install(packages: &[DebianPackage]) {
    if let Err(error) = install_missing(packages) {
        eprintln!("{error}");
    }
}
