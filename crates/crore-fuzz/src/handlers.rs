//! Settings of handlers, as the runners read them.
//!
//! ```text
//! input = name of the runner, line feed, settings as JSON
//! ```

use std::sync::OnceLock;

use crore_core::{Handler, Name, Size, Span};
use crore_outbound::Outbound;
use crore_runner::command::CommandFactory;
use crore_runner::docker::DockerFactory;
use crore_runner::plugin::{PluginFactory, PluginSetup};
use crore_runner::{
    GrpcFactory, HttpFactory, NetworkAccess, Options, Pattern, Runners, SlackFactory, Urls,
};
use serde_json::Value;

use crate::memory::MemoryBound;
use crate::properties::check_invalid;

const MEMORY: MemoryBound = MemoryBound { base: 256 << 10, per_byte: 512 };

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Some((runner, settings)) = text.split_once('\n') else { return };
    let runners = runners();
    let Ok(runner) = Name::new("runner", runner) else { return };
    MEMORY.check(settings.len(), || {
        let Ok(Value::Object(settings)) = serde_json::from_str(settings) else { return };
        let handler = Handler::new(runner, settings);
        assert_eq!(Handler::from_text(&handler.to_text()).as_ref(), Some(&handler));
        if let Err(invalid) = runners.check(&handler) {
            check_invalid(&invalid, None);
        }
    });
}

/// Runners that only check settings, of every type, without restrictions.
pub(crate) fn runners() -> &'static Runners {
    static RUNNERS: OnceLock<Runners> = OnceLock::new();
    RUNNERS.get_or_init(|| {
        let outbound = Outbound::new(crore_outbound::Options::default());
        let network = NetworkAccess::new(outbound, Urls::default());
        let any = || ["*".parse::<Pattern>()].into_iter().flatten().collect();
        let options = Options {
            shell: true,
            container_network: true,
            max_output: Size(u64::MAX),
            max_grace: Span::MAX,
            secrets: any(),
            code_variables: any(),
            ..Options::default()
        };
        let runners = Runners::new()
            .with(CommandFactory::new(options.clone()))
            .with(DockerFactory::new(options))
            .with(PluginFactory::new(PluginSetup::new("/", "/", &[])))
            .with(HttpFactory::new(network.clone()))
            .with(GrpcFactory::new(network.clone()))
            .with(SlackFactory::new(network));
        ["command", "docker", "plugin"].into_iter().fold(runners, Runners::allow)
    })
}
