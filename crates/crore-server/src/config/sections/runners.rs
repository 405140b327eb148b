mod values;

use std::collections::BTreeMap;
use std::thread::available_parallelism;

use crore_core::Name;
use crore_core::handler::DEFAULT_QUEUE;
use crore_core::settings::section;
use crore_runner::Options;

use values::{Allowed, Channels};

section! {
    /// Runners: what crore runs jobs with by itself, as their handlers say.
    pub(crate) struct Runners = "runners" {
        /// Whether this server runs jobs. If not, hosts elsewhere do: `crore worker`.
        run: bool = "true",
        /// The runners that reach this machine, and may be used all the same: `["command"]`, `docker`, `plugin`.
        allow: Option<Allowed> = none,
        /// The queues whose jobs are run here, and how many of each at a time: `["default=8", "gpu=1"]`. In a
        /// file it may be a section of its own: `[channels]`, `default = 8`, `gpu = 1`. The queue `default` has
        /// one for each processor, unless told otherwise. `crore worker` serves only those that are named, and
        /// `default` if none is.
        channels: Option<Channels> = none,
        /// What the runners may do.
        ..options: Options,
    }
}

impl Runners {
    /// The runners that reach the machine and may be used.
    pub(crate) fn allowed(&self) -> &[String] {
        self.allow.as_ref().map_or(&[], |Allowed(names)| names)
    }

    /// The queues whose jobs are run by a host elsewhere: those that are named, and the usual one if none is.
    pub(crate) fn named_channels(&self) -> BTreeMap<Name, u32> {
        match &self.channels {
            Some(Channels(all)) if !all.is_empty() => all.clone(),
            _ => self.channels(),
        }
    }

    /// The queues whose jobs are run by a server, and how many of each at a time.
    pub(crate) fn channels(&self) -> BTreeMap<Name, u32> {
        let mut all = self.channels.clone().map(|Channels(all)| all).unwrap_or_default();
        let processors = available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        if let Ok(usual) = Name::new("channel", DEFAULT_QUEUE) {
            all.entry(usual).or_insert(processors);
        }
        all
    }
}
