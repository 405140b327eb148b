mod values;

use std::collections::BTreeMap;
use std::thread::available_parallelism;

use crore_core::Name;
use crore_core::handler::DEFAULT_QUEUE;
use crore_core::settings::section;
use crore_runner::Options;

use values::{AllowedRunners, ChannelList};

section! {
    /// Runners execute jobs inside crore, without a worker: the jobs of every kind that has a handler.
    pub(crate) struct RunnersConfig = "runners" {
        /// Whether this server runs handlers. If `false`, run them elsewhere with `crore worker`.
        run: bool = "true",
        /// Runners with access to this machine that handlers may use: any of `command`, `docker` and `plugin`. If any
        /// is allowed, only the server's own user and root have access while no token exists. Default: none of them.
        allow: Option<AllowedRunners> = none,
        /// Queues whose jobs handlers run in this process, with the concurrency of each: `["default=8", "gpu=1"]`, or a
        /// section `[channels]` with `default = 8` and `gpu = 1`. A server always serves the queue `default`, with one
        /// job per CPU unless it is listed. `crore worker` serves only the listed queues, or `default` if there are
        /// none.
        channels: Option<ChannelList> = none,
        /// Options of the runners.
        ..options: Options,
    }
}

impl RunnersConfig {
    /// Runners with access to this machine that may be used.
    pub(crate) fn allowed(&self) -> &[String] {
        self.allow.as_ref().map_or(&[], |AllowedRunners(names)| names)
    }

    /// The user id of this process, if runners with access to this machine may be used.
    pub(crate) fn own_user(&self) -> Option<u32> {
        (!self.allowed().is_empty()).then(|| rustix::process::geteuid().as_raw())
    }

    /// Channels of `crore worker`: those listed, or the default one if the list is empty.
    pub(crate) fn named_channels(&self) -> BTreeMap<Name, u32> {
        match &self.channels {
            Some(ChannelList(all)) if !all.is_empty() => all.clone(),
            _ => self.channels(),
        }
    }

    /// Channels of a server, with the concurrency of each; always includes the default queue.
    pub(crate) fn channels(&self) -> BTreeMap<Name, u32> {
        let mut all = self.channels.clone().map(|ChannelList(all)| all).unwrap_or_default();
        let processors = available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        if let Ok(queue) = Name::new("channel", DEFAULT_QUEUE) {
            all.entry(queue).or_insert(processors);
        }
        all
    }
}
